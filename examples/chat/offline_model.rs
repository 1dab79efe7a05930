//! A model for those who have none: a small server on loopback that speaks chat completions, as a stream of events, a word
//! at a time.
//!
//! Promise: the same conversation gives the same answer. It does not think.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// What it calls itself.
pub(crate) const NAME: &str = "offline-model";

const SENTENCES: [&str; 3] = [
    "A durable run keeps a journal, and every answer stands in it before anybody can rely on it.",
    "When its process is killed, the next one reads the journal and goes on where it stopped.",
    "What a page has shown of a half answer is taken back, and no word is shown twice.",
];

/// Starts the server, which waits `pause` before each word; returns its base URL. It ends with the process.
pub(crate) async fn start(pause: Duration) -> std::io::Result<String> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let url = format!("http://{}/v1", listener.local_addr()?);
    let router = Router::new().route("/v1/chat/completions", post(complete)).with_state(pause);
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(url)
}

async fn complete(State(pause): State<Duration>, body: Bytes) -> Response {
    let question: Value = serde_json::from_slice(&body).unwrap_or_default();
    let text = answer(&question);
    if question["stream"] != true {
        return axum::Json(whole(&text)).into_response();
    }
    let mut parts: Vec<String> = text.split_inclusive(' ').map(|word| event(&delta(word))).collect();
    parts.push(event(&end()));
    parts.push("data: [DONE]\n\n".into());
    let words = futures::stream::unfold(parts.into_iter(), move |mut parts| async move {
        let part = parts.next()?;
        tokio::time::sleep(pause).await;
        Some((Ok::<_, std::io::Error>(part), parts))
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(words)).into_response()
}

fn answer(question: &Value) -> String {
    let messages = question["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let asked = messages.iter().filter(|message| message["role"] == "user");
    let (turn, last) = asked
        .enumerate()
        .last()
        .map_or((0, ""), |(turn, message)| (turn, message["content"].as_str().unwrap_or_default()));
    format!("You asked \"{last}\" as question {}. {}", turn + 1, SENTENCES.join(" "))
}

fn chunk(delta: Value, finish: Value) -> Value {
    json!({
        "id": "chatcmpl-offline", "object": "chat.completion.chunk", "created": 0, "model": NAME,
        "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }],
    })
}

fn delta(word: &str) -> Value {
    chunk(json!({ "content": word }), Value::Null)
}

fn end() -> Value {
    chunk(json!({}), json!("stop"))
}

fn whole(text: &str) -> Value {
    json!({
        "id": "chatcmpl-offline", "object": "chat.completion", "created": 0, "model": NAME,
        "choices": [{ "index": 0, "message": { "role": "assistant", "content": text }, "finish_reason": "stop" }],
    })
}

fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}
