//! Calls of served workflows that wait for their runs: what a wait costs, and that it ends when nobody wants to know any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aether::encryption::{CodecError, EncodedPayload, PayloadCodec, PayloadPlace};
use aether::mcp::{KEY_FIELD, serve};
use aether::people::Waiting;
use aether::prelude::*;
use serde_json::json;

/// Counts how many recorded events are read: each look into a journal reads some, and one at a run's record none.
#[derive(Clone, Debug, Default)]
struct Reads(Arc<AtomicUsize>);

impl Reads {
    fn so_far(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// How many there are in the next second.
    async fn in_a_second(&self) -> usize {
        let before = self.so_far();
        tokio::time::sleep(Duration::from_secs(1)).await;
        self.so_far() - before
    }
}

impl PayloadCodec for Reads {
    fn encode(&self, plain: &[u8], _: &PayloadPlace<'_>) -> Result<Option<EncodedPayload>, CodecError> {
        Ok(Some(EncodedPayload { key: "counted".to_owned(), bytes: plain.to_vec() }))
    }

    fn decode(&self, encoded: &EncodedPayload, place: &PayloadPlace<'_>) -> Result<Vec<u8>, CodecError> {
        if place.to_string().starts_with("event ") {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
        Ok(encoded.bytes.clone())
    }

    fn keyed_digest(&self, _: &[u8]) -> Result<Option<[u8; 32]>, CodecError> {
        Ok(None)
    }
}

/// Sleep so often, and give the word back.
#[workflow]
pub(crate) async fn ticks(cx: &mut Cx, word: String, times: u32, millis: u64) -> Result<String> {
    for _ in 0..times {
        cx.sleep(Duration::from_millis(millis)).await;
    }
    Ok(word)
}

/// A call of `ticks` over plain HTTP, by a client that can neither answer nor wait for tasks.
fn call(server: &aether::mcp::HttpServer, times: u32, millis: u64) -> reqwest::RequestBuilder {
    let web = aether::http::HttpClient::connections_builder().unwrap().build().unwrap();
    let arguments = json!({ "word": "hey", "times": times, "millis": millis });
    let params = json!({ "name": "ticks", "arguments": arguments, "_meta": { KEY_FIELD: "k" } });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let post = web.post(server.url()).bearer_auth(server.token()).body(body.to_string());
    post.header("accept", "application/json, text/event-stream").header("content-type", "application/json")
}

async fn serving(reads: &Reads) -> (Engine, aether::mcp::HttpServer) {
    let engine = Engine::builder().memory().payload_codec(reads.clone()).start().await.unwrap();
    let server = serve(&engine).workflow::<ticks>().http("127.0.0.1:0").await.unwrap();
    (engine, server)
}

async fn until_it_sleeps(engine: &Engine) {
    let run: aether::id::RunId = "mcp:ticks:k".parse().unwrap();
    let sleeps = async || {
        let pending = engine.pending(&run).await.unwrap_or_default();
        pending.iter().any(|wait| wait.waiting == Waiting::Timer)
    };
    while !sleeps().await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_wait_does_not_read_the_journal_of_a_run_that_sleeps() {
    let reads = Reads::default();
    let (engine, server) = serving(&reads).await;
    let waiting = tokio::spawn(call(&server, 1, 1_000_000_000).send());
    until_it_sleeps(&engine).await;
    // Once more at most, for what was added last.
    reads.in_a_second().await;
    let read = reads.in_a_second().await;
    assert!(read < 5, "{read}");
    waiting.abort();
}

#[tokio::test]
async fn a_client_that_gives_up_is_waited_for_no_longer() {
    let reads = Reads::default();
    let (engine, server) = serving(&reads).await;
    let waiting = tokio::spawn(call(&server, 100_000, 20).send());
    until_it_sleeps(&engine).await;
    while reads.in_a_second().await < 5 {}
    waiting.abort();
    while reads.in_a_second().await >= 5 {}
    // The run goes on, and a call with the same key waits for it again.
    let again = tokio::spawn(call(&server, 100_000, 20).send());
    while reads.in_a_second().await < 5 {}
    again.abort();
}

#[tokio::test]
async fn a_server_that_ends_does_not_wait_for_runs() {
    let (engine, server) = serving(&Reads::default()).await;
    let waiting = tokio::spawn(call(&server, 1, 1_000_000_000).send());
    until_it_sleeps(&engine).await;
    tokio::time::timeout(Duration::from_secs(30), server.close()).await.expect("it ends");
    let said = waiting.await.unwrap().unwrap().text().await.unwrap();
    assert!(said.contains("goes on"), "{said}");
    assert_eq!(engine.count(aether::store::RunFilter::default()).await.unwrap(), 1);
}
