//! A model for those who have none: a small server on loopback that speaks the chat-completions protocol and answers
//! by the rules in `script.rs`.
//!
//! Promise: the same conversation gives the same answer. It searches, reads and quotes for real; it does not think.

mod evidence;
mod script;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// What it calls itself.
pub(crate) const NAME: &str = "offline-model";

/// Longest request accepted, in bytes.
const MAX_BODY: usize = 16 << 20;
/// Longest head of a request accepted, in bytes.
const MAX_HEAD: u64 = 64 << 10;

/// Starts the server; returns its base URL. It ends with the process.
pub(crate) async fn start() -> std::io::Result<String> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let url = format!("http://{}/v1", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    Ok(url)
}

/// One request, one response: a client that hangs up early is its own affair.
async fn serve(mut stream: TcpStream) {
    let (status, body) = match read(&mut stream).await {
        Ok(body) => answer(&body),
        Err(error) => ("400 Bad Request", refusal(&error.to_string())),
    };
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let _sent_or_gone = stream.write_all(format!("{head}{body}").as_bytes()).await;
    let _sent_or_gone = stream.shutdown().await;
}

/// The body of a `POST …/chat/completions`.
async fn read(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut reader = BufReader::new(stream);
    let mut head = (&mut reader).take(MAX_HEAD);
    let mut line = String::new();
    head.read_line(&mut line).await?;
    if !line.starts_with("POST ") || !line.contains("/chat/completions ") {
        return Err(std::io::Error::other("this server knows only POST /v1/chat/completions"));
    }
    let mut length = 0;
    loop {
        line.clear();
        if head.read_line(&mut line).await? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().map_err(std::io::Error::other)?;
        }
    }
    if length > MAX_BODY {
        return Err(std::io::Error::other("the request is too long"));
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).await?;
    Ok(body)
}

fn answer(body: &[u8]) -> (&'static str, Value) {
    let messages = serde_json::from_slice::<Value>(body).map(|request| request["messages"].clone());
    match messages.and_then(serde_json::from_value) {
        Ok(messages) => ("200 OK", completion(script::next(messages), body.len())),
        Err(error) => ("400 Bad Request", refusal(&error.to_string())),
    }
}

/// A reply in the protocol's words.
fn completion(reply: script::Reply, asked: usize) -> Value {
    let (message, reason) = match reply {
        script::Reply::Text(text) => (json!({ "role": "assistant", "content": text }), "stop"),
        script::Reply::Calls(calls) => {
            let calls: Vec<Value> = calls.into_iter().map(wire_call).collect();
            (json!({ "role": "assistant", "content": null, "tool_calls": calls }), "tool_calls")
        }
    };
    let (sent, back) = (asked / 4, message.to_string().len() / 4);
    json!({
        "id": "offline",
        "object": "chat.completion",
        "created": 0,
        "model": NAME,
        "choices": [{ "index": 0, "message": message, "finish_reason": reason }],
        "usage": { "prompt_tokens": sent, "completion_tokens": back, "total_tokens": sent + back },
    })
}

fn wire_call(call: script::Call) -> Value {
    let function = json!({ "name": call.name, "arguments": call.arguments.to_string() });
    json!({ "id": call.id, "type": "function", "function": function })
}

fn refusal(reason: &str) -> Value {
    json!({ "error": { "message": reason, "type": "invalid_request_error" } })
}
