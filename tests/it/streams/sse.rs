//! Streams over HTTP: a real client over loopback, cut off at every event, comes back and has the whole text once.

use std::time::Duration;

use aether::id::CommandId;
use aether::sse::StreamServer;
use serde_json::Value;

use super::*;

/// Serves an engine's streams; gives the URL.
async fn served(engine: &Engine) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let app = StreamServer::new(engine.clone()).heartbeat(Duration::from_millis(20)).router();
    tokio::spawn(async move { axum::serve(listener, app).await });
    url
}

fn connections() -> reqwest::Client {
    aether::http::HttpClient::connections_builder().unwrap().build().unwrap()
}

/// A client of events, as a browser is one.
struct Client {
    url: String,
    id: Option<String>,
    text: StreamText,
    comments: usize,
    closed: Option<String>,
}

impl Client {
    fn new(url: &str, run: &str, stream: &str) -> Self {
        let url = format!("{url}/runs/{run}/streams/{stream}");
        Self { url, id: None, text: StreamText::default(), comments: 0, closed: None }
    }

    fn again(&self) -> Self {
        let (url, id, text) = (self.url.clone(), self.id.clone(), self.text.clone());
        Self { url, id, text, comments: 0, closed: None }
    }

    async fn ask(&self) -> reqwest::Response {
        let mut request = connections().get(&self.url);
        if let Some(id) = &self.id {
            request = request.header("Last-Event-ID", id);
        }
        in_time(request.send()).await.unwrap()
    }

    /// Reads so many events, or all that come.
    async fn read(&mut self, count: usize) -> usize {
        let mut response = self.ask().await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let (mut unread, mut read) = (String::new(), 0);
        while read < count {
            let Some(bytes) = in_time(response.chunk()).await.unwrap() else { break };
            unread.push_str(std::str::from_utf8(&bytes).unwrap());
            while let Some((event, rest)) = unread.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                unread = rest;
                if read < count && self.take(&event) {
                    read += 1;
                }
            }
        }
        read
    }

    /// Takes an event in; says whether it was one.
    fn take(&mut self, event: &str) -> bool {
        let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let Some(data) = field("data:") else {
            self.comments += usize::from(event.starts_with(':'));
            return false;
        };
        let data: Value = serde_json::from_str(data).unwrap();
        let number = |name: &str| data[name].as_u64().unwrap_or_else(|| panic!("{name} of {data}"));
        let command = || CommandId::from(data["command"].as_str().unwrap().to_owned());
        match field("event:").unwrap() {
            "chunk" => self.text.apply(&StreamEvent::Chunk {
                seq: number("seq"),
                first: number("first"),
                command: command(),
                items: serde_json::from_value::<Vec<String>>(data["items"].clone()).unwrap(),
            }),
            "restarted" => {
                let (seq, from) = (number("seq"), number("from"));
                self.text.apply::<String>(&StreamEvent::Restarted { seq, command: command(), from });
                // What takes the place of something comes with it.
                self.id = field("id:").map(str::to_owned).or(self.id.take());
                return false;
            }
            "committed" => {
                let (seq, digest) = (number("seq"), data["digest"].as_str().unwrap().to_owned());
                self.text.apply::<String>(&StreamEvent::Committed { seq, command: command(), digest });
            }
            "closed" => self.closed = data["status"].as_str().map(str::to_owned),
            other => panic!("an event `{other}`"),
        }
        self.id = field("id:").map(str::to_owned).or(self.id.take());
        true
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_cut_off_at_any_event_has_the_text_once() {
    const WORDS: usize = 12;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let cut = Cut::default();
    let engine = builder(&store, &Calls::default()).provide(cut.clone()).start().await.unwrap();
    let url = served(&engine).await;
    let mut client = Client::new(&url, "a", "reply");
    let mut cuts = vec![client.again()];
    let run = engine.start::<answer>(WORDS).id("a").await.unwrap();
    // Cut off after each chunk while it is written: each word comes alone.
    for word in 1..=WORDS {
        in_time(cut.reached.notified()).await;
        cut.at.store(word, Ordering::SeqCst);
        cut.goes_on.notify_one();
        assert_eq!(client.read(1).await, 1);
        assert_eq!(client.text.to_string(), words(word).concat());
        cuts.push(client.again());
    }
    assert_eq!(in_time(run.result()).await.unwrap(), words(WORDS).concat());
    for _ in 0..2 {
        assert_eq!(client.read(1).await, 1);
        cuts.push(client.again());
    }
    // All of them come back when the chunks were joined, and one event at a time.
    for mut cut in cuts {
        let from = cut.id.clone();
        while cut.closed.is_none() && cut.id.as_deref() != Some("closed") {
            assert_eq!(cut.read(1).await, 1, "from {from:?}");
        }
        assert_eq!(cut.text.to_string(), words(WORDS).concat(), "from {from:?}");
        assert_eq!(cut.ask().await.status(), 204, "nothing follows");
    }
    engine.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_kept_open_and_ends_with_its_run() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let cut = Cut::default();
    let engine = builder(&store, &Calls::default()).provide(cut.clone()).start().await.unwrap();
    let url = served(&engine).await;
    let run = engine.start::<answer>(3).id("a").await.unwrap();
    in_time(cut.reached.notified()).await;
    let mut client = Client::new(&url, "a", "reply");
    let reading = tokio::spawn(async move {
        client.read(usize::MAX).await;
        client
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    cut.go_on();
    in_time(run.result()).await.unwrap();
    let client = in_time(reading).await.unwrap();
    assert_eq!((client.text.to_string(), client.closed.as_deref()), (words(3).concat(), Some("completed")));
    assert!(client.comments > 0, "something was sent while nothing was written");
    engine.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_refused_with_a_reason() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = builder(&store, &Calls::default()).provide(Cut::never()).start().await.unwrap();
    let url = served(&engine).await;
    let run = engine.start::<answer>(3).id("a").await.unwrap();
    in_time(run.result()).await.unwrap();
    let long = "x".repeat(300);
    for (run, stream, id, status, says) in [
        ("nobody", "reply", None, 404, "nobody"),
        ("%20%0A", "reply", None, 400, "run"),
        ("a", &*long, None, 400, "at most 200 bytes"),
        ("a", "%00", None, 400, "NUL"),
        ("a", "reply", Some("soon"), 400, "Last-Event-ID"),
        ("a", "reply", Some("-1"), 400, "Last-Event-ID"),
    ] {
        let client = Client { id: id.map(str::to_owned), ..Client::new(&url, run, stream) };
        let answer = client.ask().await;
        assert_eq!(answer.status(), status, "{run} {stream} {id:?}");
        let text = answer.text().await.unwrap();
        assert!(text.contains(says), "{text}");
    }
    let mut late = Client::new(&url, "a", "reply");
    late.url += "?after=1000";
    assert_eq!((late.read(9).await, late.text.to_string()), (1, String::new()), "closed, and nothing else");
    let mut other = Client::new(&url, "a", "another");
    assert_eq!((other.read(9).await, other.closed.as_deref()), (1, Some("completed")));
    engine.shutdown().await.unwrap();
}
