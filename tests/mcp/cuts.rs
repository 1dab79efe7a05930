//! The connection is dropped at every message and every byte: what is executed is executed once, and what became of the
//! call is what the server knows, or in doubt.

use aether::mcp::Server;
use aether::store::MemoryStore;

use crate::http_server::{Age, Cut, HttpServer, Manner};
use crate::kit::{Became, Declared, bank, engine, paid};

/// One run against a server with this cut; then what a program without the cut makes of it, which is the same.
async fn judged(age: Age, manner: Manner, cut: Cut) -> (Became, usize) {
    let server = HttpServer::start(age).await;
    server.behave(manner.clone());
    server.cut(Some(cut));
    let store = MemoryStore::new();
    let first = engine(&store, bank(Server::http(&server.url))).await;
    let became = paid(&first, Declared::Not).await;
    let at = format!("{age:?} {manner:?} {cut:?}: {became:?}");
    let (executed, calls) = (server.executed(), server.asked("tools/call"));
    assert!(calls <= 1, "{at}: {calls} calls were sent");
    match &became {
        Became::Answered(text) => assert_eq!((text.as_str(), executed), ("paid", 1), "{at}"),
        Became::Failed(_) => assert_eq!(executed, 0, "{at}"),
        Became::InDoubt(_) => assert!(executed <= 1, "{at}"),
    }
    first.shutdown().await.unwrap();

    server.cut(None);
    let second = engine(&store, bank(Server::http(&server.url))).await;
    assert_eq!(paid(&second, Declared::Not).await, became, "{at}");
    assert_eq!((server.executed(), server.asked("tools/call")), (executed, calls), "{at}");
    (became, executed)
}

async fn requests_and_bytes(age: Age, manner: &Manner) -> (usize, usize) {
    let server = HttpServer::start(age).await;
    server.behave(manner.clone());
    let engine = engine(&MemoryStore::new(), bank(Server::http(&server.url))).await;
    assert_eq!(paid(&engine, Declared::Not).await, Became::Answered("paid".into()));
    engine.shutdown().await.unwrap();
    (server.requests(), server.longest())
}

async fn every_message(age: Age) {
    let (requests, _) = requests_and_bytes(age, &Manner::Answers).await;
    assert!(requests >= 2, "{requests}");
    let (mut answered, mut failed, mut in_doubt) = (0, 0, 0);
    // One more, for requests that come late.
    for number in 0..=requests {
        for cut in [Cut::Unread(number), Cut::Before(number)] {
            match judged(age, Manner::Answers, cut).await.0 {
                Became::Answered(_) => answered += 1,
                Became::Failed(_) => failed += 1,
                Became::InDoubt(_) => in_doubt += 1,
            }
        }
    }
    assert!(answered > 0 && failed > 0 && in_doubt > 0, "{answered} {failed} {in_doubt}");
}

async fn every_byte(age: Age, manner: Manner, method: &'static str) {
    let (_, longest) = requests_and_bytes(age, &manner).await;
    for bytes in 0..=longest {
        let (became, executed) = judged(age, manner.clone(), Cut::After(method, bytes)).await;
        if method == "tools/call" {
            assert_eq!(executed, 1, "{bytes} bytes: {became:?}");
            assert!(!matches!(became, Became::Failed(_)), "{bytes} bytes: {became:?}");
            let is_whole = bytes == longest;
            assert!(!is_whole || became == Became::Answered("paid".into()), "{became:?}");
        }
    }
}

#[tokio::test]
async fn a_cut_at_any_message_of_an_older_server_executes_nothing_twice() {
    every_message(Age::Older).await;
}

#[tokio::test]
async fn a_cut_at_any_message_of_a_newer_server_executes_nothing_twice() {
    every_message(Age::Newer).await;
}

#[tokio::test]
async fn a_cut_at_any_byte_of_an_answer_is_in_doubt_or_answered() {
    every_byte(Age::Older, Manner::Answers, "tools/call").await;
}

#[tokio::test]
async fn a_cut_at_any_byte_of_a_stream_is_in_doubt_or_answered() {
    every_byte(Age::Newer, Manner::Streams, "tools/call").await;
}

#[tokio::test]
async fn a_cut_at_any_byte_of_the_handshake_calls_nothing() {
    every_byte(Age::Older, Manner::Answers, "initialize").await;
    every_byte(Age::Newer, Manner::Answers, "server/discover").await;
}
