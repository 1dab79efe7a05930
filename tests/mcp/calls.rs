//! What a call sends and records, and what each answer means.

use std::time::{Duration, Instant};

use aether::error::RunError;
use aether::mcp::{KEY_FIELD, Mcp, Server};
use aether::people::Waiting;
use aether::store::{MemoryStore, StepLimit, Store};
use serde_json::json;

use crate::http_server::{Age, HttpServer, Manner, tool};
use crate::kit::{Became, Declared, bank, call_all, engine, paid, pay, pay_limited, recorded_text};

#[tokio::test]
async fn a_call_carries_the_ledgers_key_and_no_credential_is_recorded() {
    let server = HttpServer::start(Age::Newer).await;
    let store = MemoryStore::new();
    let bank =
        bank(Server::http(&server.url).bearer("very-secret-token").header("x-tenant", "very-secret-7"));
    let engine = engine(&store, bank).await;
    assert_eq!(paid(&engine, Declared::Keyed).await, Became::Answered("paid".into()));
    let run = "r".parse().unwrap();
    let entries = store.entries(&run).await.unwrap();
    let sent = server.state.executed.lock().unwrap()[0].clone();
    let key = entries[0].key.to_string();
    assert_eq!((&sent["_meta"][KEY_FIELD], &sent["arguments"]["request_id"]), (&json!(key), &json!(key)));
    assert_eq!(sent["arguments"]["to"], "ann");
    let text = recorded_text(&store, &run).await;
    assert!(!text.contains("very-secret"), "{text}");
    assert!(!text.contains("request_id"), "the key is no argument that is recorded: {text}");

    let verified = engine.verify(&run).await.unwrap();
    assert_eq!((verified.recorded, server.executed()), (verified.matched, 1));
}

/// Lets trace contexts be sent on, and does nothing else.
#[derive(Debug)]
struct Sent;

impl aether::otel::TraceBodies for Sent {
    fn around(
        &self,
        _: &aether::otel::TraceContext,
        _: &tracing::Span,
        body: aether::otel::TracedBody,
    ) -> aether::otel::TracedBody {
        body
    }
}

#[tokio::test]
async fn a_call_carries_the_trace_context_of_its_attempt_where_the_engine_sends_it_and_records_none() {
    let caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let mut recorded = Vec::new();
    for sends in [true, false] {
        let (server, store) = (HttpServer::start(Age::Newer).await, MemoryStore::new());
        let builder = aether::Engine::builder().store(std::sync::Arc::new(store.clone()));
        let builder = builder.provide(bank(Server::http(&server.url)));
        let builder = if sends { builder.trace_bodies(std::sync::Arc::new(Sent)) } else { builder };
        let engine = builder.start().await.unwrap();
        let run = engine.start::<pay>(Declared::Keyed).id("r").traceparent(caller).await.unwrap();
        assert_eq!(run.result().await.unwrap(), Became::Answered("paid".into()));
        let sent = server.state.executed.lock().unwrap()[0].clone();
        let context = sent["_meta"]["traceparent"].as_str();
        assert_eq!(context.map(|context| &context[..36]), sends.then_some(&caller[..36]));
        assert_ne!(context, Some(caller), "it is the attempt's and not the caller's");
        let started = engine.view(run.id()).await.unwrap().steps.remove(0);
        recorded.push((started.command, started.input, started.result));
    }
    assert_eq!(recorded[0], recorded[1]);
}

#[tokio::test]
async fn a_lost_answer_of_an_idempotent_tool_is_asked_for_again_under_the_same_key() {
    let server = HttpServer::start(Age::Newer).await;
    server.cut(Some(crate::http_server::Cut::After("tools/call", 20)));
    let engine = engine(&MemoryStore::new(), bank(Server::http(&server.url))).await;
    let run = engine.start::<crate::kit::pay>(Declared::Idempotent).id("r").await.unwrap();
    while server.executed() == 0 {
        tokio::task::yield_now().await;
    }
    server.cut(None);
    assert_eq!(run.result().await.unwrap(), Became::Answered("paid".into()));
    let executed = server.state.executed.lock().unwrap().clone();
    assert!(executed.len() > 1, "{executed:?}");
    assert!(executed.iter().all(|call| call["_meta"][KEY_FIELD] == executed[0]["_meta"][KEY_FIELD]));
}

#[tokio::test]
async fn a_crash_during_a_call_is_in_doubt_and_calls_nothing_again() {
    let server = HttpServer::start(Age::Older).await;
    server.behave(Manner::Hangs);
    let store = MemoryStore::new();
    let first = engine(&store, bank(Server::http(&server.url))).await;
    let _run = first.start::<crate::kit::pay>(Declared::Not).id("r").await.unwrap();
    while server.executed() == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    drop(first);
    server.behave(Manner::Answers);
    let second = engine(&store, bank(Server::http(&server.url))).await;
    let became = paid(&second, Declared::Not).await;
    assert!(matches!(became, Became::InDoubt(_)), "{became:?}");
    assert_eq!(server.executed(), 1);
}

#[tokio::test]
async fn a_server_that_hangs_is_in_doubt_after_the_timeout() {
    let server = HttpServer::start(Age::Newer).await;
    server.behave(Manner::Hangs);
    let engine = engine(&MemoryStore::new(), bank(Server::http(&server.url))).await;
    let became = paid(&engine, Declared::Short).await;
    assert!(matches!(&became, Became::InDoubt(text) if text.contains("no answer within")), "{became:?}");
    assert_eq!(server.executed(), 1);
}

/// What became of a call that is answered like this, and how often it was sent.
async fn answered(manner: Manner) -> (Became, usize) {
    // An answer without a message is waited for until the time is over.
    let declared = match manner {
        Manner::Says("202 Accepted") => Declared::Short,
        _ => Declared::Not,
    };
    let server = HttpServer::start(Age::Older).await;
    server.behave(manner);
    let engine = engine(&MemoryStore::new(), bank(Server::http(&server.url))).await;
    let became = paid(&engine, declared).await;
    (became, server.asked("tools/call"))
}

#[tokio::test]
async fn what_the_server_did_not_take_failed_and_is_not_sent_again() {
    for status in [
        "404 Not Found",
        "429 Too Many Requests\r\nretry-after: 1",
        "401 Unauthorized\r\nwww-authenticate: Bearer",
    ] {
        let (became, sent) = answered(Manner::Says(status)).await;
        assert!(matches!(became, Became::Failed(_)), "{status}: {became:?}");
        assert_eq!(sent, 1, "{status}");
    }
}

#[tokio::test]
async fn what_says_nothing_about_the_tool_is_in_doubt_and_is_not_sent_again() {
    let elsewhere = "307 Temporary Redirect\r\nlocation: /elsewhere";
    for manner in [
        Manner::Says("500 Internal Server Error"),
        Manner::Says("502 Bad Gateway"),
        Manner::Says("503 Service Unavailable"),
        Manner::Says("503 Service Unavailable\r\nretry-after: 1"),
        Manner::Says("408 Request Timeout"),
        Manner::Says("200 OK"),
        Manner::Says("202 Accepted"),
        Manner::Says(elsewhere),
        Manner::Error(-32603),
        Manner::Error(-32602),
        Manner::Error(-32601),
        Manner::Error(-32600),
        Manner::Error(-32700),
        Manner::Error(-32000),
        Manner::Result(json!(7)),
    ] {
        let (became, sent) = answered(manner.clone()).await;
        assert!(matches!(became, Became::InDoubt(_)), "{manner:?}: {became:?}");
        assert_eq!(sent, 1, "{manner:?}");
    }
}

#[tokio::test]
async fn a_read_that_the_server_refuses_fails_at_once() {
    for code in [-32602, -32601, -32600, -32700] {
        let server = HttpServer::start(Age::Newer).await;
        server.behave(Manner::Error(code));
        let engine = engine(&MemoryStore::new(), bank(Server::http(&server.url))).await;
        let became = paid(&engine, Declared::Read).await;
        assert!(matches!(&became, Became::Failed(text) if text.contains("refused")), "{code}: {became:?}");
        assert_eq!(server.asked("tools/call"), 1, "{code}");
    }
}

#[tokio::test]
async fn an_error_of_the_tool_is_an_answer() {
    let content = json!([{ "type": "text", "text": "no money" }]);
    let (became, _) = answered(Manner::Result(json!({ "content": content, "isError": true }))).await;
    assert_eq!(became, Became::Answered("no money".into()));
}

#[tokio::test]
async fn nobody_there_is_a_plain_failure() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    drop(listener);
    for (server, words) in [
        (Server::http(format!("{url}?key=very-secret")), "no connection"),
        (Server::http("very-secret"), "is not a URL"),
        (Server::http("http://localhost/").header("a b", "c"), "is not the name of a header"),
        (Server::stdio("/nowhere/at-all"), "cannot be started"),
    ] {
        let engine = engine(&MemoryStore::new(), bank(server)).await;
        let became = paid(&engine, Declared::Not).await;
        assert!(matches!(&became, Became::Failed(text) if text.contains(words)), "{words}: {became:?}");
        assert!(!format!("{became:?}").contains("very-secret"), "{became:?}");
    }
    let engine =
        engine(&MemoryStore::new(), Mcp::new().server("shop", Server::http("http://localhost/"))).await;
    let became = paid(&engine, Declared::Not).await;
    assert!(matches!(&became, Became::Failed(text) if text.contains("there are: shop")), "{became:?}");
}

#[tokio::test]
async fn a_session_that_the_server_forgot_is_made_anew_by_the_next_call() {
    let server = HttpServer::start(Age::Older).await;
    let engine = engine(&MemoryStore::new(), bank(Server::http(&server.url))).await;
    let call = async |id: &str| {
        engine.start::<crate::kit::pay>(Declared::Not).id(id).await.unwrap().result().await.unwrap()
    };
    assert_eq!(call("a").await, Became::Answered("paid".into()));
    server.behave(Manner::Says("404 Not Found"));
    assert!(matches!(call("b").await, Became::Failed(_)));
    assert_eq!((server.executed(), server.asked("initialize")), (1, 1));
    server.behave(Manner::Answers);
    assert_eq!(call("c").await, Became::Answered("paid".into()));
    assert_eq!((server.executed(), server.asked("initialize")), (2, 2));
}

#[tokio::test]
async fn a_read_is_tried_again() {
    let server = HttpServer::start(Age::Newer).await;
    server.behave(Manner::Says("503 Service Unavailable"));
    let engine = engine(&MemoryStore::new(), bank(Server::http(&server.url))).await;
    assert!(matches!(paid(&engine, Declared::Read).await, Became::Failed(_)));
    assert_eq!(server.asked("tools/call"), 2);
}

#[tokio::test]
async fn a_list_of_tools_is_recorded_and_a_server_may_change_them() {
    let server = HttpServer::start(Age::Newer).await;
    *server.state.tools.lock().unwrap() = vec![
        tool("pay", json!({})),
        tool("balance", json!({ "readOnlyHint": true })),
        tool("close", json!({ "idempotentHint": true, "destructiveHint": true })),
    ];
    let store = MemoryStore::new();
    let first = engine(&store, bank(Server::http(&server.url))).await;
    let run = first.start::<call_all>(()).id("r").await.unwrap();
    let list = run.result().await.unwrap();
    let names: Vec<_> = list.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["balance", "close", "pay"]);
    assert_eq!(list.get("close").unwrap().hints.destructive, Some(true));
    let entries = store.entries(run.id()).await.unwrap();
    assert_eq!(entries.len(), 2, "`balance` changes nothing, and needs no row");

    *server.state.tools.lock().unwrap() = vec![tool("transfer", json!({}))];
    let requests = server.requests();
    let verified = first.verify(run.id()).await.unwrap();
    assert_eq!((verified.recorded, server.requests()), (verified.matched, requests));
}

#[tokio::test]
async fn a_list_of_tools_is_not_longer_than_a_message_over_all_its_pages() {
    for (pages, fits) in [(3, true), (50, false)] {
        let server = HttpServer::start(Age::Newer).await;
        server.state.pages.store(pages, std::sync::atomic::Ordering::SeqCst);
        let mcp = bank(Server::http(&server.url).max_message(4_000));
        let engine = engine(&MemoryStore::new(), mcp).await;
        let ended = engine.start::<call_all>(()).id("r").await.unwrap().result().await;
        match &ended {
            Ok(list) => assert!(fits && list.tools.len() == 1 && server.asked("tools/list") == pages),
            Err(RunError::Failed(why)) => {
                assert!(!fits && why.to_string().contains("all its pages"), "{why}");
                assert!(server.asked("tools/list") < pages);
            }
            Err(_) => panic!("{ended:?}"),
        }
    }
}

#[tokio::test]
async fn calls_that_wait_for_a_connect_that_fails_share_its_error() {
    // It takes connections, and answers nothing.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let mcp = bank(Server::http(url).connect_timeout(Duration::from_secs(1)));
    let engine = engine(&MemoryStore::new(), mcp).await;
    let (began, mut runs) = (Instant::now(), Vec::new());
    for number in 0..8 {
        runs.push(engine.start::<pay>(Declared::Not).id(format!("r{number}")).await.unwrap());
    }
    for run in runs {
        let became = run.result().await.unwrap();
        assert!(
            matches!(&became, Became::Failed(text) if text.contains("no agreement within")),
            "{became:?}"
        );
    }
    // One after the other they would take eight seconds.
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_limit_on_steps_holds_for_a_call() {
    let server = HttpServer::start(Age::Newer).await;
    let engine = engine(&MemoryStore::new(), bank(Server::http(&server.url))).await;
    let limit = StepLimit::new("bank").unwrap().calls(1, Duration::from_secs(3_600)).unwrap();
    engine.step_limits().set(limit).await.unwrap();
    let first = engine.start::<pay_limited>(()).id("first").await.unwrap();
    assert_eq!(first.result().await.unwrap(), "paid");
    let second = engine.start::<pay_limited>(()).id("second").await.unwrap();
    let is_limit = |wait: &aether::people::Pending| wait.waiting == Waiting::Limit && wait.name == "bank";
    while !engine.pending(second.id()).await.unwrap().iter().any(is_limit) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(server.executed(), 1);
}
