//! A model answers in 200 chunks. Processes are killed at each of them, and readers cut at each event: the text is the recorded
//! answer, no character comes twice, and nobody has to do anything for it.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use aether::llm::{ChatRequest, ChatResponse, ModelClient, ModelError, Models, OnText};
use aether::stream::StreamReader;
use futures::future::BoxFuture;

use super::*;

/// A model that says a word at a time.
#[derive(Clone)]
struct Speaker {
    cut: Cut,
    pause_ms: u64,
}

impl std::fmt::Debug for Speaker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Speaker")
    }
}

impl ModelClient for Speaker {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'_, std::result::Result<ChatResponse, ModelError>> {
        self.chat_streamed(request, &|_| {})
    }

    fn chat_streamed<'a>(
        &'a self,
        _: ChatRequest,
        on_text: OnText<'a>,
    ) -> BoxFuture<'a, std::result::Result<ChatResponse, ModelError>> {
        Box::pin(async move {
            let Self { cut, pause_ms } = self;
            for (n, word) in words(CHUNKS).iter().enumerate() {
                if n == cut.at.load(Ordering::SeqCst) {
                    cut.reached.notify_one();
                    cut.goes_on.notified().await;
                }
                on_text(word);
                tokio::time::sleep(Duration::from_millis(*pause_ms)).await;
            }
            let content = Some(words(CHUNKS).concat());
            Ok(ChatResponse { model: "speaker".into(), content, ..ChatResponse::default() })
        })
    }
}

fn speaker(cut: &Cut, pause_ms: u64) -> Models {
    Models::new(Speaker { cut: cut.clone(), pause_ms })
}

#[workflow]
async fn answer_slowly(cx: &mut Cx, question: String) -> Result<String> {
    Ok(cx.llm("answer").user(question).stream("reply").text().await?)
}

const CHUNKS: usize = 200;
/// Longer than the pause between two writes. The clock of this test stands still while anything can be done.
const PAUSE_MS: u64 = 60;

/// Where this is set, all readers come back and not every eighth.
const ALL: &str = "AETHER_ALL_CUTS";

/// A reader that was cut off somewhere, and begins again with what it had.
struct Reader {
    text: StreamText,
    seq: u64,
}

impl Reader {
    fn take(&mut self, event: &StreamEvent<String>, outcome: &str) {
        self.text.apply(event);
        if !matches!(event, StreamEvent::Closed { .. }) {
            self.seq = seq_of(event);
        }
        let text = self.text.to_string();
        assert!(outcome.starts_with(&text), "{text:?} is in no outcome");
    }

    /// Where it comes back.
    fn of(&self, run: &RunHandle<answer_slowly>) -> StreamReader<String> {
        run.stream::<String>("reply").from(self.seq + 1)
    }

    async fn go_on(mut self, mut events: StreamReader<String>, outcome: &str) -> String {
        while let Some(event) = in_time(events.next()).await.unwrap() {
            self.take(&event, outcome);
        }
        self.text.to_string()
    }

    fn again(&self) -> Self {
        Self { text: self.text.clone(), seq: self.seq }
    }
}

/// Kills a process that has written `killed_at` chunks, and reads on. Returns how many cuts of a reader were tried.
async fn kill_at(killed_at: usize, outcome: &str) -> usize {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (cut, poll) = (Cut::default(), Duration::from_secs(5));
    cut.at.store(killed_at, Ordering::SeqCst);
    let dying = Arc::new(CrashStore::new(store.clone(), None));
    let first = builder(&(dying.clone() as Arc<dyn Store>), &Calls::default()).poll_interval(poll);
    let first = first.provide(speaker(&cut, PAUSE_MS)).start().await.unwrap();
    let run = first.start::<answer_slowly>("Who?".into()).id("a").await.unwrap();
    let mut reader = Reader { text: StreamText::default(), seq: 0 };
    let mut readers = vec![reader.again()];
    let mut events = run.stream::<String>("reply");
    for _ in 0..killed_at {
        reader.take(&in_time(events.next()).await.unwrap().unwrap(), outcome);
        readers.push(reader.again());
    }
    in_time(cut.reached.notified()).await;
    dying.crash();
    drop((events, run, first));
    let held = store.run(&run_id("a")).await.unwrap().unwrap();
    take_from_owner(&store, &held, aether::jiff::Timestamp::UNIX_EPOCH).await;

    cut.at.store(usize::MAX, Ordering::SeqCst);
    let second = builder(&store, &Calls::default()).poll_interval(poll).provide(speaker(&cut, PAUSE_MS));
    let second = second.start().await.unwrap();
    let run = second.handle::<answer_slowly>("a").await.unwrap();
    let mut events = reader.of(&run);
    let mut live = Vec::new();
    let mut count = 0;
    while let Some(event) = in_time(events.next()).await.unwrap() {
        reader.take(&event, outcome);
        readers.push(reader.again());
        count += 1;
        // Some come back while it is written, at another chunk in each of these runs.
        if count % 25 == killed_at % 25 {
            let (events, reader, outcome) = (reader.of(&run), reader.again(), outcome.to_owned());
            live.push(tokio::spawn(async move { reader.go_on(events, &outcome).await }));
        }
    }
    assert_eq!(reader.text.to_string(), outcome, "killed at {killed_at}");
    for live in live {
        assert_eq!(live.await.unwrap(), outcome, "killed at {killed_at}");
    }
    let cuts = readers.len();
    // The others come back when all is over: by default some of them, others in each of these runs.
    let step = if std::env::var_os(ALL).is_some() { 1 } else { 8 };
    for (at, reader) in readers.into_iter().enumerate().skip(killed_at % step).step_by(step) {
        let events = reader.of(&run);
        let text = reader.go_on(events, outcome).await;
        assert_eq!(text, outcome, "killed at {killed_at}, cut at {at}");
    }
    assert_eq!(in_time(run.result()).await.unwrap(), outcome);
    second.shutdown().await.unwrap();
    cuts
}

#[tokio::test(start_paused = true)]
async fn the_text_is_the_recorded_answer_for_a_kill_at_each_of_200_chunks_and_a_cut_at_each() {
    let outcome = words(CHUNKS).concat();
    let mut cuts = 0;
    for killed_at in 0..CHUNKS {
        cuts += kill_at(killed_at, &outcome).await;
    }
    assert!(cuts > CHUNKS * CHUNKS, "{cuts}");
}

const FOLDER: &str = "AETHER_STREAMS_FOLDER";
/// Of the process that is killed: it writes about ten words at a time.
const FAST_MS: u64 = 5;

#[tokio::test(flavor = "multi_thread")]
async fn a_process_started_by_the_test_answers() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let path = std::path::Path::new(&folder).join("agent.db");
    let engine = Engine::builder().sqlite(path).provide(speaker(&Cut::never(), FAST_MS));
    let engine = engine.poll_interval(Duration::from_millis(10)).start().await.unwrap();
    let run = engine.start::<answer_slowly>("Who?".into()).id("a").await.unwrap();
    run.result().await.unwrap();
    engine.shutdown().await.unwrap();
}

fn process(folder: &std::path::Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["streams::cut::a_process_started_by_the_test_answers", "--exact"]).env(FOLDER, folder);
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_text_is_the_outcome_where_a_real_process_is_killed_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let outcome = words(CHUNKS).concat();
    let engine = Engine::builder().sqlite(folder.path().join("agent.db")).client().start().await.unwrap();
    let mut reader = Reader { text: StreamText::default(), seq: 0 };
    for kill_after in [0, 1, 5, 3, 8, 13] {
        let mut child = process(folder.path());
        let run = loop {
            if let Ok(run) = engine.handle::<answer_slowly>("a").await {
                break run;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let mut events = reader.of(&run);
        for _ in 0..kill_after {
            reader.take(&in_time(events.next()).await.unwrap().unwrap(), &outcome);
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let mut last = process(folder.path());
    let run = engine.handle::<answer_slowly>("a").await.unwrap();
    let events = reader.of(&run);
    assert_eq!(reader.go_on(events, &outcome).await, outcome);
    assert_eq!(in_time(run.result()).await.unwrap(), outcome);
    assert!(last.wait().unwrap().success());
    engine.shutdown().await.unwrap();
}
