//! An MCP server over HTTP that can be rude: it counts what it executed, and drops connections where it is told to.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::slow::Slow;

/// Which protocol the server speaks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Age {
    /// `initialize`, and a session.
    Older,
    /// `server/discover`, and no session.
    Newer,
}

/// Where one connection is dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cut {
    /// The request of this number (from 0) is not read.
    Unread(usize),
    /// The request of this number is read and not executed.
    Before(usize),
    /// Requests of this method are executed, and so many bytes of the answer are sent.
    After(&'static str, usize),
}

/// What a call of the tool is answered with.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Manner {
    Answers,
    /// Answers as a stream of events.
    Streams,
    /// Executes, and never answers.
    Hangs,
    /// This status and these headers, and nothing is executed.
    Says(&'static str),
    /// Executes, and answers with this JSON-RPC error.
    Error(i64),
    /// Executes, and answers with this result.
    Result(Value),
    /// Asks first, or answers with a task.
    Slow,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) age: Age,
    pub(crate) cut: Mutex<Option<Cut>>,
    pub(crate) manner: Mutex<Manner>,
    pub(crate) tools: Mutex<Vec<Value>>,
    /// After how many pages the list of tools ends: each has all of them.
    pub(crate) pages: AtomicUsize,
    /// Parameters of every executed call.
    pub(crate) executed: Mutex<Vec<Value>>,
    /// What a tool that asks or takes long does and saw.
    pub(crate) slow: Mutex<Slow>,
    /// Methods of all requests that were read.
    pub(crate) asked: Mutex<Vec<String>>,
    /// How long a call is executed before it is answered, in milliseconds.
    pub(crate) takes_ms: AtomicUsize,
    requests: AtomicUsize,
    longest: AtomicUsize,
}

/// A running server.
#[derive(Clone, Debug)]
pub(crate) struct HttpServer {
    pub(crate) url: String,
    pub(crate) state: Arc<State>,
}

impl HttpServer {
    pub(crate) async fn start(age: Age) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let state = Arc::new(State {
            age,
            cut: Mutex::new(None),
            manner: Mutex::new(Manner::Answers),
            tools: Mutex::new(vec![tool("pay", json!({}))]),
            pages: AtomicUsize::new(1),
            executed: Mutex::default(),
            slow: Mutex::default(),
            asked: Mutex::default(),
            takes_ms: AtomicUsize::new(0),
            requests: AtomicUsize::new(0),
            longest: AtomicUsize::new(0),
        });
        let server = Self { url, state: Arc::clone(&state) };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&state)));
            }
        });
        server
    }

    pub(crate) fn executed(&self) -> usize {
        self.state.executed.lock().unwrap().len()
    }

    pub(crate) fn asked(&self, method: &str) -> usize {
        self.state.asked.lock().unwrap().iter().filter(|asked| *asked == method).count()
    }

    pub(crate) fn behave(&self, manner: Manner) {
        *self.state.manner.lock().unwrap() = manner;
    }

    /// A server whose tool asks or takes long.
    pub(crate) async fn slow(slow: Slow) -> Self {
        let server = Self::start(Age::Newer).await;
        server.behave(Manner::Slow);
        *server.state.slow.lock().unwrap() = slow;
        server
    }

    pub(crate) fn cut(&self, cut: Option<Cut>) {
        *self.state.cut.lock().unwrap() = cut;
    }

    /// How many requests came in all.
    pub(crate) fn requests(&self) -> usize {
        self.state.requests.load(Ordering::SeqCst)
    }

    /// Bytes of the longest answer.
    pub(crate) fn longest(&self) -> usize {
        self.state.longest.load(Ordering::SeqCst)
    }
}

pub(crate) fn tool(name: &str, annotations: Value) -> Value {
    json!({
        "name": name,
        "description": "Pays somebody.",
        "inputSchema": { "type": "object", "properties": { "to": { "type": "string" } } },
        "annotations": annotations,
    })
}

async fn serve(mut stream: TcpStream, state: Arc<State>) {
    let number = state.requests.fetch_add(1, Ordering::SeqCst);
    let cut = *state.cut.lock().unwrap();
    if cut == Some(Cut::Unread(number)) {
        return;
    }
    let Some((head, body)) = read(&mut stream).await else { return };
    if cut == Some(Cut::Before(number)) {
        return;
    }
    let Some(answer) = answer(&head, &body, &state) else { return std::future::pending().await };
    if body["method"] == "tools/call" {
        let takes = state.takes_ms.load(Ordering::SeqCst) as u64;
        tokio::time::sleep(std::time::Duration::from_millis(takes)).await;
    }
    state.longest.fetch_max(answer.len(), Ordering::SeqCst);
    let sent = match cut {
        Some(Cut::After(method, bytes)) if body["method"] == method => {
            &answer.as_bytes()[..bytes.min(answer.len())]
        }
        _ => answer.as_bytes(),
    };
    let _gone = stream.write_all(sent).await;
    let _gone = stream.shutdown().await;
}

async fn read(stream: &mut TcpStream) -> Option<(String, Value)> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
            });
            if body.len() >= length.unwrap_or(0) {
                return Some((head.to_owned(), serde_json::from_str(body).unwrap_or(Value::Null)));
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

/// The answer to one request; `None` where it never comes.
fn answer(head: &str, body: &Value, state: &State) -> Option<String> {
    if !head.starts_with("POST") {
        let status = if head.starts_with("DELETE") { "200 OK" } else { "405 Method Not Allowed" };
        return Some(plain(status));
    }
    let method = body["method"].as_str().unwrap_or_default();
    state.asked.lock().unwrap().push(method.to_owned());
    let result = |result: Value| {
        Some(reply(json!({ "jsonrpc": "2.0", "id": body["id"], "result": result }), state.age))
    };
    let error = |code: i64| {
        let error = json!({ "code": code, "message": "the server says no" });
        Some(reply(json!({ "jsonrpc": "2.0", "id": body["id"], "error": error }), state.age))
    };
    match (method, state.age) {
        ("initialize", Age::Older) => result(json!({
            "protocolVersion": "2025-06-18",
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "rude", "version": "1" },
        })),
        ("server/discover", Age::Newer) => result(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": { "tools": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } },
            "ttlMs": 0, "cacheScope": "private",
        })),
        ("tools/list", _) => {
            let tools = Value::from(state.tools.lock().unwrap().clone());
            let mut page =
                json!({ "resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private" });
            let cursor = body["params"]["cursor"].as_str().unwrap_or("1");
            let number: usize = cursor.parse().unwrap();
            if number < state.pages.load(Ordering::SeqCst) {
                page["nextCursor"] = (number + 1).to_string().into();
            }
            result(page)
        }
        ("tools/call", _) => {
            let manner = state.manner.lock().unwrap().clone();
            if let Manner::Says(status) = manner {
                return Some(plain(status));
            }
            if manner == Manner::Slow {
                let (answer, executed) = state.slow.lock().unwrap().call(&body["params"]);
                if executed {
                    state.executed.lock().unwrap().push(body["params"].clone());
                }
                return result(answer);
            }
            state.executed.lock().unwrap().push(body["params"].clone());
            let paid = json!({ "resultType": "complete", "content": [{ "type": "text", "text": "paid" }] });
            match manner {
                Manner::Hangs => None,
                Manner::Error(code) => error(code),
                Manner::Result(value) => result(value),
                Manner::Streams => {
                    let event = json!({ "jsonrpc": "2.0", "id": body["id"], "result": paid });
                    let event = format!("event: message\r\ndata: {event}\r\n\r\n");
                    Some(http("200 OK", "text/event-stream", &event))
                }
                Manner::Answers | Manner::Says(_) | Manner::Slow => result(paid),
            }
        }
        (method, _) if method.starts_with("tasks/") => {
            let mut slow = state.slow.lock().unwrap();
            match slow.refuses.clone() {
                Some(Manner::Says(status)) => Some(plain(status)),
                Some(Manner::Error(code)) => error(code),
                _ => slow.about_task(method, &body["params"]).map_or_else(|| error(-32602), result),
            }
        }
        (method, _) if method.starts_with("notifications/") => Some(plain("202 Accepted")),
        _ => error(-32601),
    }
}

fn reply(message: Value, age: Age) -> String {
    let session =
        if age == Age::Older { "application/json\r\nmcp-session-id: s1" } else { "application/json" };
    http("200 OK", session, &message.to_string())
}

fn plain(status: &str) -> String {
    http(status, "text/plain", "")
}

fn http(status: &str, kind: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}
