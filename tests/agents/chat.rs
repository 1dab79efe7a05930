//! The chat example is killed in the middle of a sentence, and its reader never sees a word twice.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use aether::engine::RunEnd;
use aether::id::CommandId;
use aether::prelude::*;
use aether::stream::{StreamEvent, StreamText};
use serde_json::Value;

use crate::example;

const PATIENCE: Duration = Duration::from_secs(120);

/// A free port, which the next process of the chat listens to as well.
fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The example, as a process that dies with the test.
struct Chat(Child);

impl Chat {
    fn start(db: &Path, port: u16) -> Self {
        let mut command = Command::new(example("chat"));
        command.arg("--db").arg(db).args(["--port", &port.to_string(), "--pause", "25"]);
        command.env_remove("OPENAI_API_KEY").env_remove("OPENAI_BASE_URL");
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }

    /// As `kill -9` does.
    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Chat {
    fn drop(&mut self) {
        let _dead_already = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// A reader of server-sent events, which connects again as a browser does.
struct Reader {
    url: String,
    last: Option<String>,
    text: StreamText,
    /// Every text that a reader would have shown.
    shown: Vec<String>,
    /// The events, as a page gets them.
    events: Vec<(String, Value)>,
    connections: usize,
}

impl Reader {
    fn of(port: u16, number: usize) -> Self {
        let url = format!("http://127.0.0.1:{port}/chats/ada/turns/{number}/events");
        Self {
            url,
            last: None,
            text: StreamText::default(),
            shown: Vec::new(),
            events: Vec::new(),
            connections: 0,
        }
    }

    /// Reads until `until` says so, or to the end of the stream: whether that was reached.
    async fn read(&mut self, until: impl Fn(&str) -> bool) -> bool {
        loop {
            let mut request = reqwest::Client::new().get(&self.url);
            if let Some(last) = &self.last {
                request = request.header("last-event-id", last);
            }
            if let Ok(answer) = request.send().await.and_then(reqwest::Response::error_for_status) {
                self.connections += 1;
                if let Some(closed) = self.follow(answer, &until).await {
                    return closed;
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Reads one connection; `None` when it broke.
    async fn follow(&mut self, mut answer: reqwest::Response, until: &impl Fn(&str) -> bool) -> Option<bool> {
        let mut read = String::new();
        while let Ok(Some(bytes)) = answer.chunk().await {
            read.push_str(std::str::from_utf8(&bytes).unwrap());
            while let Some((event, rest)) = read.split_once("\n\n") {
                let closed = self.take(event);
                read = rest.to_owned();
                if closed || until(&self.text.to_string()) {
                    return Some(closed);
                }
            }
        }
        None
    }

    /// Takes in one event; whether it was the last.
    fn take(&mut self, event: &str) -> bool {
        let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        let (Some(kind), Some(data)) = (field("event"), field("data")) else { return false };
        self.last = field("id").map(str::to_owned);
        let data: Value = serde_json::from_str(data).unwrap();
        self.events.push((kind.to_owned(), data.clone()));
        let number = |name: &str| data[name].as_u64().unwrap();
        let command = || data["command"].as_str().unwrap().parse::<CommandId>().unwrap();
        let event = match kind {
            "chunk" => StreamEvent::Chunk {
                seq: number("seq"),
                first: number("first"),
                command: command(),
                items: data["items"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|i| i.as_str().unwrap().to_owned())
                    .collect(),
            },
            "restarted" => {
                StreamEvent::Restarted { seq: number("seq"), command: command(), from: number("from") }
            }
            "committed" => StreamEvent::Committed {
                seq: number("seq"),
                command: command(),
                digest: data["digest"].as_str().unwrap().to_owned(),
            },
            _ => return kind == "closed",
        };
        self.text.apply(&event);
        self.shown.push(self.text.to_string());
        false
    }
}

/// Every text that the page's own script shows of the events.
fn on_the_page(events: &[(String, Value)]) -> Vec<String> {
    const SHOW: &str = r"
        const page = require('fs').readFileSync(process.argv[1], 'utf8');
        const script = page.split('<script>')[1].split('</script>')[0];
        const module_ = { exports: {} };
        new Function('module', script)(module_);
        const answer = new module_.exports.Answer(), shown = [];
        for (const [kind, event] of JSON.parse(require('fs').readFileSync(0, 'utf8'))) {
            if (kind === 'closed') continue;
            answer.apply(kind, event);
            shown.push(answer.toString());
        }
        console.log(JSON.stringify(shown));
    ";
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/chat/page.html");
    let mut node = Command::new("node");
    node.arg("-e").arg(SHOW).arg(page).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut node = node.spawn().expect("the tests need Node: scripts/test installs it");
    serde_json::to_writer(node.stdin.take().unwrap(), events).unwrap();
    let said = node.wait_with_output().unwrap();
    assert!(said.status.success());
    serde_json::from_slice(&said.stdout).unwrap()
}

async fn ask(port: u16, number: usize, text: &str) {
    let url = format!("http://127.0.0.1:{port}/chats/ada/turns/{number}");
    for _ in 0..200 {
        match reqwest::Client::new().post(&url).body(text.to_owned()).send().await {
            Ok(answer) => {
                let status = answer.status();
                assert!(status.is_success(), "{status}: {}", answer.text().await.unwrap());
                return;
            }
            // The process has not come up yet.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
    panic!("the chat does not come up");
}

/// What the run has recorded as its result.
async fn recorded(db: &Path, number: usize) -> String {
    let engine = Engine::builder().sqlite(db).start().await.unwrap();
    let run: RunHandle<aether::engine::AnyWorkflow> =
        engine.find(format!("chat-ada-{number}")).await.unwrap();
    let RunEnd::Completed(value) = run.end().await.unwrap() else { panic!("it did not complete") };
    engine.shutdown().await.unwrap();
    value.decode().unwrap()
}

async fn chat_is_killed_after(words: &[usize]) {
    // The client speaks no TLS here, and wants a provider of it.
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let (db, port) = (folder.path().join("chat.db"), port());
    let mut chat = Chat::start(&db, port);
    ask(port, 0, "What is durable?").await;
    // A request that is sent again asks nothing again.
    ask(port, 0, "What is durable?").await;
    let mut first = Reader::of(port, 0);
    for words in words {
        let closed = first.read(|text| text.split_whitespace().count() >= *words).await;
        assert!(!closed, "the answer was over before the kill");
        chat.kill();
        chat = Chat::start(&db, port);
    }
    assert!(first.read(|_| false).await);
    assert!(first.connections > words.len());
    // The next question knows what was said, and a page that is opened late reads all of it.
    ask(port, 1, "And then?").await;
    let (mut second, mut late) = (Reader::of(port, 1), Reader::of(port, 0));
    assert!(second.read(|_| false).await && late.read(|_| false).await);
    chat.kill();

    for (number, reader) in [(0, first), (1, second), (0, late)] {
        let answer = recorded(&db, number).await;
        let question = ["What is durable?", "And then?"][number];
        assert!(
            answer.starts_with(&format!("You asked \"{question}\" as question {}.", number + 1)),
            "{answer}"
        );
        assert_eq!(reader.text.to_string(), answer);
        assert_eq!(on_the_page(&reader.events), reader.shown, "the page's own script");
        // The scripted model says the same again, so whatever a page has shown is a beginning of it: no character was
        // there twice, not even for a moment.
        for shown in &reader.shown {
            assert!(answer.starts_with(shown), "{shown:?} was shown of {answer:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_that_is_killed_in_a_sentence_shows_no_character_twice() {
    tokio::time::timeout(PATIENCE, chat_is_killed_after(&[9, 20, 31])).await.expect("it takes too long");
}
