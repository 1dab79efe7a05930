//! Calls that become tasks of the server: one `tools/call`, polled durably, re-attached by id, and told to end.

use std::path::Path;
use std::time::Duration;

use aether::error::RunError;
use aether::mcp::{InputAnswer, Server};
use aether::people::Waiting;
use aether::prelude::*;
use aether::store::MemoryStore;
use serde_json::{Value, json};

use crate::http_server::{HttpServer, Manner};
use crate::kit::{Became, Declared, answered, bank, engine, paid, pay, pay_for_good, pay_within};
use crate::slow::{Slow, Task, form};

fn completed() -> Value {
    json!({ "status": "completed", "result": { "content": [{ "type": "text", "text": "paid" }] } })
}

fn task(working: usize, end: Value) -> Task {
    Task { working, poll_ms: 100, asks: None, end, obeys: true }
}

async fn tasking(task: Task) -> HttpServer {
    HttpServer::slow(Slow { task: Some(task), ..Slow::default() }).await
}

async fn until(what: impl Fn() -> bool) {
    while !what() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_task_is_polled_until_it_ends_and_a_replay_asks_nothing() {
    let server = tasking(task(3, completed())).await;
    let engine = engine(&MemoryStore::new(), bank(Server::http(&server.url))).await;
    assert_eq!(paid(&engine, Declared::Not).await, Became::Answered("paid".into()));
    let looks = server.state.slow.lock().unwrap().looks;
    assert_eq!((looks, server.asked("tools/call"), server.executed()), (4, 1, 1));
    let requests = server.requests();
    let verified = engine.verify(&"r".parse().unwrap()).await.unwrap();
    assert_eq!((verified.recorded, server.requests()), (verified.matched, requests));
}

#[tokio::test]
async fn a_run_that_waits_for_a_task_sleeps_as_long_as_the_server_says() {
    let server = tasking(Task { poll_ms: 60_000, ..task(3, completed()) }).await;
    let engine = engine(&MemoryStore::new(), bank(Server::http(&server.url))).await;
    let run = engine.start::<pay>(Declared::Not).id("r").await.unwrap();
    let timer = loop {
        let pending = engine.pending(run.id()).await.unwrap();
        if let Some(wait) = pending.into_iter().find(|wait| wait.waiting == Waiting::Timer) {
            break wait;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let wait = timer.until.unwrap().duration_since(timer.since);
    assert!((59..=60).contains(&wait.as_secs()), "{wait}");
    assert_eq!(server.state.slow.lock().unwrap().looks, 0);
}

#[tokio::test]
async fn a_task_survives_twenty_restarts_with_one_call() {
    let folder = tempfile::tempdir().unwrap();
    let server = tasking(task(usize::MAX, completed())).await;
    let start = async || {
        let mcp = bank(Server::http(&server.url));
        Engine::builder().sqlite(folder.path().join("a.db")).provide(mcp).start().await.unwrap()
    };
    let mut looks = 0;
    for restart in 0..20 {
        let engine = start().await;
        let _run = engine.start::<pay>(Declared::Not).id("r").await.unwrap();
        until(|| server.state.slow.lock().unwrap().looks > looks).await;
        looks = server.state.slow.lock().unwrap().looks;
        // Some are dropped as a killed process is, with everything in flight.
        if restart % 2 == 0 {
            engine.shutdown().await.unwrap();
        }
    }
    server.state.slow.lock().unwrap().task.as_mut().unwrap().working = 0;
    let engine = start().await;
    assert_eq!(paid(&engine, Declared::Not).await, Became::Answered("paid".into()));
    assert_eq!((server.asked("tools/call"), server.executed()), (1, 1));
    engine.verify(&"r".parse().unwrap()).await.unwrap();
}

#[tokio::test]
async fn what_a_task_asks_for_is_a_question_and_is_told_once() {
    let asks = Some(json!({ "amount": form() }));
    let server = tasking(Task { asks, ..task(1, completed()) }).await;
    let engine = engine(&MemoryStore::new(), bank(Server::http(&server.url))).await;
    let seven = InputAnswer::accept(&json!({ "amount": 7 }));
    assert_eq!(answered(&engine, Declared::Not, &seven).await, Became::Answered("paid".into()));
    let updates = server.state.slow.lock().unwrap().updates.clone();
    assert_eq!(updates, [json!({ "amount": { "action": "accept", "content": { "amount": 7 } } })]);
    assert_eq!(server.asked("tools/call"), 1);
}

#[tokio::test]
async fn a_raised_call_says_the_same_again_where_it_is_asked_again_and_is_made_once() {
    let asks = || Some(json!({ "amount": form() }));
    for (busy, deaf) in [(0, 0), (0, 1), (0, 3), (2, 0), (3, 2)] {
        let task = Some(Task { asks: asks(), ..task(1, completed()) });
        let server = HttpServer::slow(Slow { task, busy, deaf, ..Slow::default() }).await;
        let engine = engine(&MemoryStore::new(), bank(Server::http(&server.url))).await;
        let run = engine.start::<pay_for_good>(Declared::Answering).id("r").await.unwrap();
        let [first, second] = run.result().await.unwrap();
        assert_eq!(first, Became::Answered("paid".into()), "{busy} {deaf}");
        assert!(matches!(&second, Became::Failed(text) if text.contains("same business key")), "{second:?}");
        let updates = server.state.slow.lock().unwrap().updates.clone();
        assert!(updates.iter().all(|update| *update == updates[0]), "{updates:?}");
        assert_eq!((updates.len(), server.asked("tools/call")), (deaf + 1, busy + 1), "{busy} {deaf}");
        let verified = engine.verify(run.id()).await.unwrap();
        assert_eq!(verified.recorded, verified.matched);
    }
}

#[tokio::test]
async fn an_end_without_a_result_is_typed_and_in_doubt_unless_it_changes_nothing() {
    let failed = |code: i64| json!({ "status": "failed", "error": { "code": code, "message": "no" } });
    for (end, kind) in [
        (failed(-32603), "Some(Failed)"),
        (failed(-32602), "Some(Failed)"),
        (json!({ "status": "cancelled" }), "Some(Cancelled)"),
        (Value::Null, "Some(Expired)"),
    ] {
        let server = tasking(task(0, end.clone())).await;
        let engine = engine(&MemoryStore::new(), bank(Server::http(&server.url))).await;
        let became = paid(&engine, Declared::Not).await;
        assert!(matches!(&became, Became::InDoubt(text) if text.starts_with(kind)), "{end}: {became:?}");
        assert_eq!(server.asked("tools/call"), 1);

        let server = tasking(task(0, end.clone())).await;
        let engine = crate::kit::engine(&MemoryStore::new(), bank(Server::http(&server.url))).await;
        let became = paid(&engine, Declared::ReadTask).await;
        assert!(matches!(&became, Became::Failed(_)), "{end}: {became:?}");
    }
}

#[tokio::test]
async fn a_task_that_takes_too_long_is_cancelled() {
    let server = tasking(task(usize::MAX, completed())).await;
    let engine = engine(&MemoryStore::new(), bank(Server::http(&server.url))).await;
    let became = paid(&engine, Declared::ShortTask).await;
    assert!(matches!(&became, Became::InDoubt(text) if text.starts_with("Some(TimedOut)")), "{became:?}");
    assert_eq!((server.state.slow.lock().unwrap().cancels, server.asked("tools/call")), (1, 1));

    // One that ends all the same has a result.
    let server = tasking(Task { obeys: false, ..task(usize::MAX, completed()) }).await;
    let engine = crate::kit::engine(&MemoryStore::new(), bank(Server::http(&server.url))).await;
    let run = engine.start::<pay>(Declared::ShortTask).id("r").await.unwrap();
    until(|| server.state.slow.lock().unwrap().cancels == 1).await;
    server.state.slow.lock().unwrap().task.as_mut().unwrap().working = 0;
    assert_eq!(run.result().await.unwrap(), Became::Answered("paid".into()));
}

#[tokio::test]
async fn a_task_that_is_not_told_what_it_asks_for_is_cancelled_and_in_doubt() {
    let sampling =
        json!({ "method": "sampling/createMessage", "params": { "messages": [], "maxTokens": 1 } });
    let asking = || Task { asks: Some(json!({ "model": sampling })), ..task(0, completed()) };
    let server = tasking(asking()).await;
    let engine = engine(&MemoryStore::new(), bank(Server::http(&server.url))).await;
    let became = paid(&engine, Declared::Not).await;
    assert!(matches!(&became, Became::InDoubt(text) if text.starts_with("Some(Unanswered)")), "{became:?}");
    assert_eq!((server.state.slow.lock().unwrap().cancels, server.asked("tools/call")), (1, 1));

    let server = tasking(asking()).await;
    let engine = crate::kit::engine(&MemoryStore::new(), bank(Server::http(&server.url))).await;
    let became = paid(&engine, Declared::ReadTask).await;
    assert!(matches!(&became, Became::Failed(text) if text.contains("asks for")), "{became:?}");

    // One that goes on without it has a result.
    let server = tasking(Task { obeys: false, ..asking() }).await;
    let engine = crate::kit::engine(&MemoryStore::new(), bank(Server::http(&server.url))).await;
    let run = engine.start::<pay>(Declared::Not).id("r").await.unwrap();
    until(|| server.state.slow.lock().unwrap().cancels == 1).await;
    server.state.slow.lock().unwrap().task.as_mut().unwrap().asks = None;
    assert_eq!(run.result().await.unwrap(), Became::Answered("paid".into()));
}

#[tokio::test]
async fn a_cancelled_run_ends_its_task_also_after_a_crash() {
    for crash in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let server = tasking(task(usize::MAX, completed())).await;
        let open = |path: &Path| {
            let mcp = bank(Server::http(&server.url));
            Engine::builder().sqlite(path.join("a.db")).provide(mcp).start()
        };
        let mut engine = open(folder.path()).await.unwrap();
        let mut run = engine.start::<pay>(Declared::Not).id("r").await.unwrap();
        until(|| server.state.slow.lock().unwrap().looks > 0).await;
        if crash {
            drop((run, engine));
            engine = open(folder.path()).await.unwrap();
            run = engine.handle::<pay>("r").await.unwrap();
        }
        engine.cancel(run.id(), "ann", "enough").await.unwrap();
        let ended = run.result().await;
        assert!(matches!(ended, Err(RunError::Cancelled { .. })), "{ended:?}");
        assert_eq!(
            (server.state.slow.lock().unwrap().cancels, server.asked("tools/call")),
            (1, 1),
            "{crash}"
        );
    }
}

#[tokio::test]
async fn a_run_that_fails_later_leaves_a_task_alone_that_has_ended() {
    let server = tasking(task(0, completed())).await;
    let engine = engine(&MemoryStore::new(), bank(Server::http(&server.url))).await;
    let run = engine.start::<crate::kit::pay_and_fail>(()).id("r").await.unwrap();
    assert!(matches!(run.result().await, Err(RunError::Failed(_))));
    assert_eq!(server.state.slow.lock().unwrap().cancels, 0);
}

const CHALLENGES: [&str; 2] = [
    "401 Unauthorized\r\nwww-authenticate: Bearer",
    "403 Forbidden\r\nwww-authenticate: Bearer error=\"insufficient_scope\"",
];

fn refuses(server: &HttpServer, manner: Option<Manner>) {
    server.state.slow.lock().unwrap().refuses = manner;
}

#[tokio::test]
async fn a_challenge_does_not_lose_a_task_which_is_asked_about_again() {
    for status in CHALLENGES {
        let server = tasking(task(0, completed())).await;
        refuses(&server, Some(Manner::Says(status)));
        let engine = engine(&MemoryStore::new(), bank(Server::http(&server.url))).await;
        let run = engine.start::<pay>(Declared::Not).id("r").await.unwrap();
        until(|| server.asked("tasks/get") >= 2).await;
        refuses(&server, None);
        assert_eq!(run.result().await.unwrap(), Became::Answered("paid".into()), "{status}");
        assert_eq!((server.asked("tools/call"), server.executed()), (1, 1));
    }
}

#[tokio::test]
async fn a_server_that_does_not_tell_how_a_task_stands_has_not_forgotten_it() {
    for code in [-32601, -32600] {
        let server = tasking(task(0, completed())).await;
        refuses(&server, Some(Manner::Error(code)));
        let engine = engine(&MemoryStore::new(), bank(Server::http(&server.url))).await;
        let became = paid(&engine, Declared::Not).await;
        assert!(
            matches!(&became, Became::InDoubt(text) if text.starts_with("None") && text.contains("cannot be asked about")),
            "{code}: {became:?}"
        );
        assert_eq!(server.asked("tools/call"), 1);
    }
}

/// Cancels a run whose task runs, while the server answers like this; what could not be undone, and the cancels of the task.
async fn cancelled_while(manner: Manner, recovers: bool) -> (usize, usize) {
    let server = tasking(Task { poll_ms: 60_000, ..task(usize::MAX, completed()) }).await;
    let engine = engine(&MemoryStore::new(), bank(Server::http(&server.url))).await;
    let run = engine.start::<pay>(Declared::Not).id("r").await.unwrap();
    while !engine.pending(run.id()).await.unwrap().iter().any(|wait| wait.waiting == Waiting::Timer) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    refuses(&server, Some(manner));
    engine.cancel(run.id(), "ann", "enough").await.unwrap();
    if recovers {
        until(|| server.asked("tasks/get") > 0).await;
        refuses(&server, None);
    }
    let ended = run.result().await;
    let Err(RunError::Cancelled { uncompensated, .. }) = ended else { panic!("{ended:?}") };
    (uncompensated.len(), server.state.slow.lock().unwrap().cancels)
}

#[tokio::test]
async fn a_task_of_which_nothing_is_told_is_not_undone() {
    assert_eq!(cancelled_while(Manner::Says(CHALLENGES[0]), true).await, (0, 1));
    assert_eq!(cancelled_while(Manner::Says(CHALLENGES[0]), false).await, (1, 0));
    assert_eq!(cancelled_while(Manner::Error(-32601), false).await, (1, 0));
}

#[tokio::test]
async fn a_budget_that_is_used_up_does_not_lose_a_task() {
    let server = tasking(task(5, completed())).await;
    let engine = engine(&MemoryStore::new(), bank(Server::http(&server.url))).await;
    let run = engine.start::<pay_within>(Declared::Not).id("r").await.unwrap();
    assert_eq!(run.result().await.unwrap(), Became::Answered("paid".into()));
    let looks = server.state.slow.lock().unwrap().looks;
    assert_eq!((looks, server.asked("tools/call")), (6, 1));

    // What it asks for is told to it, and it is told to end.
    let asks = Some(json!({ "amount": form() }));
    let server = tasking(Task { asks, ..task(4, completed()) }).await;
    let engine = crate::kit::engine(&MemoryStore::new(), bank(Server::http(&server.url))).await;
    let run = engine.start::<pay_within>(Declared::Answering).id("r").await.unwrap();
    assert_eq!(run.result().await.unwrap(), Became::Answered("paid".into()));
    assert_eq!(server.state.slow.lock().unwrap().updates.len(), 1);

    let server = tasking(task(usize::MAX, completed())).await;
    let engine = crate::kit::engine(&MemoryStore::new(), bank(Server::http(&server.url))).await;
    let run = engine.start::<pay_within>(Declared::ShortTask).id("r").await.unwrap();
    let became = run.result().await.unwrap();
    assert!(matches!(&became, Became::InDoubt(text) if text.starts_with("Some(TimedOut)")), "{became:?}");
    assert_eq!(server.state.slow.lock().unwrap().cancels, 1);
}
