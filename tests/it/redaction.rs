//! Credentials that come up wherever a program can put them, or a server or a library says them: none is in the database, an
//! export, a log or a stream.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aether::Secret;
use aether::http::{CxHttp, HttpClient, StepHttp};
use aether::id::RunId;
use aether::llm::{ChatRequest, ChatResponse, CxLlm, ModelClient, ModelError, Models};
use aether::prelude::*;
use aether::recording::Masking;
use aether::resource::{Inspection, Verifier};
use aether::sqlite::SqliteStore;
use aether::store::Store;
use aether::store::event::StateChanged;
use aether::stream::StreamEvent;
use aether::view::Status;
use futures::future::BoxFuture;
use tracing_subscriber::EnvFilter;
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use crate::seeds::kit::{in_time, until_waiting};

/// What must not be seen.
const PLANTED: &str = "hunter2-8f3a";

/// What bodies need.
#[derive(Clone)]
struct Desk {
    server: String,
}

/// Says it in every way.
#[step(effect = "tool", retry(max_retries = 0), heartbeat = "5m", irreversible, key = |said| said)]
async fn red_say(cx: &mut StepCx, said: String) -> Result<String> {
    assert!(!said.contains(PLANTED), "a body gets what is recorded");
    cx.stream("reply").send(&format!("the key is {PLANTED}"));
    cx.heartbeat(format!("at {PLANTED}"));
    cx.changed("file", &format!("/keys/{PLANTED}"), "write").external_ref(PLANTED);
    let base = &cx.dep::<Desk>()?.server;
    let answer = cx.http().post(format!("{base}/echo?api_key={PLANTED}")).bearer(&Secret::from(PLANTED));
    let answer = answer.header("x-request-id", PLANTED).body(format!("my {PLANTED}")).send().await?;
    // The value itself is at hand in the body.
    assert!(answer.text().contains(PLANTED));
    Ok(format!("{said} {}", answer.text()))
}

/// Fails with what a server says.
#[step(effect = "read", retry(max_retries = 1, delay = "1ms"))]
async fn red_refused(cx: &mut StepCx) -> Result<String> {
    let base = &cx.dep::<Desk>()?.server;
    let answer = cx.http().get(format!("{base}/no?token={PLANTED}")).send().await?;
    Ok(answer.error_for_status()?.text())
}

/// Fails with what a library says: the URL is in its error.
#[step(effect = "http")]
async fn red_unreachable(cx: &mut StepCx) -> Result<String> {
    let _cx = cx;
    let url = format!("http://127.0.0.1:1/{PLANTED}?key={PLANTED}");
    let client = HttpClient::connections_builder().map_err(Failure::permanent)?.build()?;
    Ok(client.get(url).send().await?.text().await?)
}

/// Panics with it.
#[step(effect = "read", retry(max_retries = 0))]
async fn red_panics(cx: &mut StepCx) -> Result<u32> {
    let _cx = cx;
    panic!("no access with {PLANTED}")
}

/// Everything.
#[workflow]
async fn red_all(cx: &mut Cx, input: (String, String)) -> Result<String> {
    let (said, base) = input;
    let mut seen = vec![said.clone()];
    seen.push(red_say(cx, format!("say {PLANTED}")).await?);
    seen.push(red_refused(cx).await.unwrap_err().to_string());
    seen.push(red_unreachable(cx).await.unwrap_err().to_string());
    seen.push(red_panics(cx).await.unwrap_err().to_string());
    seen.push(cx.llm("plan").model("m").system(format!("use {PLANTED}")).user(PLANTED).text().await?);
    let sent = cx.http().post(format!("{base}/echo")).json(&PLANTED).send().await?;
    seen.push(sent.text());
    seen.push(cx.child::<red_child>(format!("child {PLANTED}")).await.unwrap_err().to_string());
    seen.push(cx.signal::<String>("word").await?);
    let asked: String = cx.ask(format!("is it {PLANTED}?")).await?;
    seen.push(asked);
    for text in &seen {
        assert!(!text.contains(PLANTED), "a workflow sees what is recorded: {text}");
    }
    Err(Failure::permanent(format!("at the end: {PLANTED} {}", seen.join(" "))))
}

/// Panics with what it was given.
#[workflow]
async fn red_child(cx: &mut Cx, said: String) -> Result<u32> {
    let _cx = cx;
    panic!("{said} {PLANTED}")
}

/// Repeats the prompt.
#[derive(Debug, Default, Clone)]
struct Parrot(Arc<Mutex<Vec<String>>>);

impl ModelClient for Parrot {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'_, std::result::Result<ChatResponse, ModelError>> {
        self.0.lock().unwrap().push(format!("{request:?}"));
        let content = Some(format!("you said {PLANTED}"));
        Box::pin(std::future::ready(Ok(ChatResponse {
            model: "m".into(),
            content,
            ..ChatResponse::default()
        })))
    }
}

/// All that is logged on this thread.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn holds(bytes: &[u8]) -> bool {
    bytes.windows(PLANTED.len()).any(|window| window == PLANTED.as_bytes())
}

/// What a run of everything leaves behind: each with its name.
async fn left_behind(redacts: bool) -> Vec<(String, Vec<u8>)> {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new("aether=trace"))
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _listening = tracing::subscriber::set_default(subscriber);
    let server = MockServer::start().await;
    let echo = |request: &Request| {
        let body = String::from_utf8_lossy(&request.body).into_owned();
        ResponseTemplate::new(200)
            .insert_header("x-request-id", PLANTED)
            .set_body_string(format!("{body} {PLANTED}"))
    };
    Mock::given(method("POST")).respond_with(echo).mount(&server).await;
    let refusal = ResponseTemplate::new(503).set_body_string(format!("key {PLANTED} is not known"));
    Mock::given(method("GET")).respond_with(refusal).mount(&server).await;

    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(folder.path().join("agent.db")).unwrap());
    let parrot = Parrot::default();
    let mut builder = Engine::builder()
        .store(store.clone())
        .poll_interval(Duration::from_millis(20))
        .provide(Desk { server: server.uri() })
        .provide(Models::new(parrot.clone()));
    if redacts {
        builder = builder.redact(Masking::only().text(PLANTED));
    }
    let engine = builder.start().await.unwrap();
    let run = engine.start::<red_all>((format!("begin {PLANTED}"), server.uri())).id("all").await.unwrap();
    // The same start again is the same run.
    engine.start::<red_all>((format!("begin {PLANTED}"), server.uri())).id("all").await.unwrap();
    let mut reader = run.stream::<String>("reply");
    let mut left = Vec::new();
    if let Some(StreamEvent::Chunk { items, .. }) = in_time(reader.next()).await.unwrap() {
        left.push(("stream".to_owned(), items.concat().into_bytes()));
    }
    engine.signal(run.id(), "word", "1", &format!("told {PLANTED}")).await.unwrap();
    let question = in_time(async {
        loop {
            let pending = engine.pending(run.id()).await.unwrap();
            if let Some(wait) =
                pending.into_iter().find(|wait| wait.waiting == aether::people::Waiting::Question)
            {
                return wait;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    engine.answer(run.id(), &question.command, &format!("yes {PLANTED}"), "ann").await.unwrap();
    let ended = in_time(run.result()).await.unwrap_err().to_string();
    left.push(("result".to_owned(), ended.into_bytes()));
    let view = engine.view(run.id()).await.unwrap();
    assert_eq!(view.status, Status::Failed);
    left.push((
        "view".to_owned(),
        format!("{view:?} {}", engine.trace(run.id()).await.unwrap()).into_bytes(),
    ));
    let recording = engine.export_with(run.id(), &Masking::off()).await.unwrap();
    left.push(("export".to_owned(), format!("{recording:?}").into_bytes()));
    engine.verify(run.id()).await.unwrap();
    left.push(("model".to_owned(), parrot.0.lock().unwrap().join(" ").into_bytes()));
    engine.shutdown().await.unwrap();
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let path = file.unwrap().path();
        if path.is_file() {
            left.push((format!("{:?}", path.file_name().unwrap()), std::fs::read(&path).unwrap()));
        }
    }
    left.push(("log".to_owned(), lines.0.lock().unwrap().clone()));
    left
}

#[tokio::test]
async fn a_credential_is_nowhere_whoever_said_it() {
    let shown = |left: Vec<(String, Vec<u8>)>| -> Vec<String> {
        left.into_iter().filter(|(_, bytes)| holds(bytes)).map(|(name, _)| name).collect()
    };
    assert_eq!(shown(left_behind(true).await), Vec::<String>::new());
}

/// Asks for the same with a credential that has changed.
#[tokio::test]
async fn what_is_redacted_is_the_same_argument_whatever_it_was() {
    let masking =
        || Masking::only().find(|text| text.match_indices("sk-").map(|(at, _)| at..text.len()).collect());
    let engine = Engine::builder().memory().redact(masking()).start().await.unwrap();
    let first = engine.start::<red_wait>("use sk-1".to_owned()).id("one").await.unwrap();
    let again = engine.start::<red_wait>("use sk-2".to_owned()).id("one").await.unwrap();
    assert_eq!(first.id(), again.id());
    assert_eq!(in_time(again.result()).await.unwrap(), "use ***");
    let panicking = Engine::builder().memory().redact(Masking::only().rule(|_, _| panic!("a broken rule")));
    let engine = panicking.start().await.unwrap();
    // Hidden as a whole, so that the workflow cannot read it: the run stops, and says nothing of it.
    let hidden = engine.start::<red_wait>("anything".to_owned()).await.unwrap();
    let stopped = in_time(hidden.result()).await.unwrap_err().to_string();
    assert!(stopped.contains("***") && !stopped.contains("anything"), "{stopped}");
}

#[tokio::test]
async fn json_in_strings_in_json_is_redacted_or_hidden_however_deep_it_is() {
    let engine = Engine::builder().memory().redact(Masking::standard()).start().await.unwrap();
    for (levels, arrays) in [(1, 90), (4, 20), (12, 99)] {
        let said = (0..levels).fold(format!(r#"{{"password":"{PLANTED}"}}"#), |inner, _| {
            let quoted = serde_json::to_string(&inner).unwrap();
            format!("{}{quoted}{}", "[".repeat(arrays), "]".repeat(arrays))
        });
        let run = engine.start::<red_wait>(said).await.unwrap();
        let kept = in_time(run.result()).await.unwrap();
        assert!(kept.contains("***") && !kept.contains(PLANTED), "{levels} levels of {arrays}: {kept}");
    }
}

/// Waits, and gives back what it got.
#[workflow]
async fn red_wait(cx: &mut Cx, said: String) -> Result<String> {
    cx.sleep(Duration::from_millis(1)).await;
    Ok(said)
}

/// Nobody knows whether it happened.
#[step(effect = "tool", on_unknown = "probe", probe = red_look)]
async fn red_unknown(cx: &mut StepCx, how: u32) -> Result<String> {
    let (_cx, _how) = (cx, how);
    Err(Failure::unknown("the line went dead"))
}

/// Says it in every way in which a probe can.
async fn red_look(cx: &mut StepCx, how: u32) -> Result<Probe<String>> {
    let _cx = cx;
    match how {
        0 => Ok(Probe::Happened(format!("done with {PLANTED}"))),
        1 => Err(Failure::new(format!("no access with {PLANTED}"))),
        _ => panic!("no eyes for {PLANTED}"),
    }
}

/// Change two files.
#[step(effect = "tool", changes = ["file"], confirm = "warn")]
async fn red_change(cx: &mut StepCx) -> Result<u32> {
    cx.changed("file", "a", "write");
    cx.changed("file", "b", "write");
    Ok(1)
}

/// Finds other files than were left.
#[derive(Debug)]
struct RedFiles;

impl Verifier for RedFiles {
    fn name(&self) -> &str {
        "files"
    }

    fn look<'a>(&'a self, _: &'a RunId, _: &'a StateChanged) -> BoxFuture<'a, Result<Inspection>> {
        let (expected, found) = (format!("not {PLANTED}"), format!("now {PLANTED}"));
        Box::pin(std::future::ready(Ok(Inspection::Differs { expected, found })))
    }
}

/// Plan, and be in doubt.
#[workflow]
async fn red_doubtful(cx: &mut Cx) -> Result<String> {
    let mut seen: Vec<String> =
        cx.plan("route", async |_: &mut Cx| Ok::<_, Failure>(vec![format!("by {PLANTED}")])).await?;
    for how in 0..3 {
        seen.push(red_unknown(cx, how).await.unwrap_or_else(|error| error.to_string()));
    }
    red_change(cx).await?;
    seen.push(cx.signal("word").await?);
    Ok(seen.join(" "))
}

#[tokio::test]
async fn a_credential_is_not_in_what_probes_plans_and_verifiers_say() {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new("aether=trace"))
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _listening = tracing::subscriber::set_default(subscriber);
    let folder = tempfile::tempdir().unwrap();
    let start = async || {
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(folder.path().join("agent.db")).unwrap());
        let builder = Engine::builder().store(store).poll_interval(Duration::from_millis(20));
        let builder = builder.verifier("file", RedFiles).redact(Masking::only().text(PLANTED));
        builder.start().await.unwrap()
    };
    let engine = start().await;
    let run = engine.start::<red_doubtful>(()).id("doubtful").await.unwrap();
    let id = run.id().clone();
    in_time(until_waiting(&run)).await;
    drop(run);
    engine.shutdown().await.unwrap();
    // The files are looked at when the run is resumed.
    let engine = start().await;
    engine.signal(&id, "word", "1", &"on").await.unwrap();
    let result = in_time(engine.handle::<red_doubtful>("doubtful").await.unwrap().result()).await.unwrap();
    assert!(result.starts_with("by *** done with ***") && result.contains("no eyes for ***"), "{result}");
    let recording = format!("{:?}", engine.export_with(&id, &Masking::off()).await.unwrap());
    assert!(recording.contains("now ***") && recording.contains("not ***"), "{recording}");
    engine.shutdown().await.unwrap();
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let path = file.unwrap().path();
        assert!(!path.is_file() || !holds(&std::fs::read(&path).unwrap()), "{path:?}");
    }
    assert!(!holds(&lines.0.lock().unwrap()), "in the log");
}

/// Only plans.
#[workflow]
async fn red_planned(cx: &mut Cx) -> Result<String> {
    let plan = cx.plan("route", async |_: &mut Cx| Ok::<_, Failure>(format!("by {PLANTED}"))).await?;
    cx.sleep(Duration::from_millis(1)).await;
    Ok(plan)
}

#[tokio::test]
async fn an_answer_that_a_fork_replaces_is_redacted() {
    let engine = Engine::builder().memory().redact(Masking::only().text(PLANTED)).start().await.unwrap();
    let run = engine.start::<red_planned>(()).id("planned").await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), "by ***");
    let plan = engine.fork(run.id()).at_end().plan().await.unwrap();
    let fork = plan.answer("0:plan.route", &format!("over {PLANTED}")).start("ann").await.unwrap();
    let handle = engine.handle::<red_planned>(fork.id().as_str()).await.unwrap();
    assert_eq!(in_time(handle.result()).await.unwrap(), "over ***");
    let recording = format!("{:?}", engine.export_with(fork.id(), &Masking::off()).await.unwrap());
    assert!(!recording.contains(PLANTED), "{recording}");
    engine.shutdown().await.unwrap();
}
