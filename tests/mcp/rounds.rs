//! Tools that ask in the middle of a call: each round is a recorded question, and the call stays one call.

use std::sync::Arc;
use std::time::Duration;

use aether::mcp::{InputAnswer, InputQuestion, Server};
use aether::people::Waiting;
use aether::prelude::*;
use aether::store::{MemoryStore, Store};
use aether_testing::crash::{CrashPoint, CrashStore};
use serde_json::{Value, json};

use crate::http_server::HttpServer;
use crate::kit::{Became, Declared, answered, bank, engine, pay};
use crate::slow::{Slow, form, page};

fn seven() -> InputAnswer {
    InputAnswer::accept(&json!({ "amount": 7 }))
}

fn three_rounds() -> Vec<Value> {
    vec![
        json!({ "amount": form() }),
        json!({ "again": form(), "login": page() }),
        json!({ "amount": form() }),
    ]
}

async fn asking(rounds: Vec<Value>) -> HttpServer {
    HttpServer::slow(Slow { rounds, ..Slow::default() }).await
}

/// The first question that the run asks.
async fn question(engine: &Engine, run: &aether::id::RunId) -> aether::people::Pending {
    loop {
        let pending = engine.pending(run).await.unwrap();
        if let Some(wait) = pending.into_iter().find(|wait| wait.waiting == Waiting::Question) {
            return wait;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Answers every question: forms with a number, pages without.
async fn fill_in(engine: &Engine, run: &aether::id::RunId) {
    loop {
        let wait = question(engine, run).await;
        let asked: InputQuestion = wait.question.as_ref().unwrap().decode().unwrap();
        let answer = if asked.url.is_some() { InputAnswer::Accept { content: None } } else { seven() };
        let _late = engine.answer(run, &wait, &answer, "ann").await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn filled_in(engine: &Engine, declared: Declared) -> Became {
    let run = engine.start::<pay>(declared).id("r").await.unwrap();
    tokio::select! {
        became = run.result() => became.unwrap(),
        () = fill_in(engine, run.id()) => unreachable!(),
    }
}

#[tokio::test]
async fn three_rounds_are_questions_and_one_call() {
    let server = asking(three_rounds()).await;
    let store = MemoryStore::new();
    let engine = engine(&store, bank(Server::http(&server.url))).await;
    let run = engine.start::<pay>(Declared::Not).id("r").await.unwrap();
    let wait = question(&engine, run.id()).await;
    let asked: InputQuestion = wait.question.as_ref().unwrap().decode().unwrap();
    assert_eq!((wait.name.as_str(), asked.message.as_str()), ("bank.pay: amount", "How much?"));
    assert_eq!((asked.server.as_str(), asked.tool.as_str(), asked.url), ("bank", "pay", None));
    assert_eq!(asked.schema.unwrap()["required"], json!(["amount"]));
    assert_eq!(filled_in(&engine, Declared::Not).await, Became::Answered("paid".into()));

    {
        let slow = server.state.slow.lock().unwrap();
        let accepted = json!({ "action": "accept", "content": { "amount": 7 } });
        let both = json!({ "again": accepted, "login": { "action": "accept" } });
        let one = json!({ "amount": accepted });
        let answers = [("s1".to_owned(), one.clone()), ("s2".to_owned(), both), ("s3".to_owned(), one)];
        assert_eq!(slow.answers, answers);
        assert_eq!(slow.keys.len(), 4);
        assert!(slow.keys.iter().all(|key| key.is_string() && *key == slow.keys[0]), "{:?}", slow.keys);
    }
    let (executed, requests) = (server.executed(), server.requests());
    let verified = engine.verify(run.id()).await.unwrap();
    assert_eq!((verified.recorded, server.requests()), (verified.matched, requests));
    assert_eq!(executed, 1);
}

#[tokio::test]
async fn an_answer_that_does_not_fit_the_form_is_refused_and_the_question_stays() {
    let server = asking(vec![json!({ "amount": form() })]).await;
    let engine = engine(&MemoryStore::new(), bank(Server::http(&server.url))).await;
    let run = engine.start::<pay>(Declared::Not).id("r").await.unwrap();
    let wait = question(&engine, run.id()).await;
    let much = InputAnswer::accept(&json!({ "amount": "much" }));
    engine.answer(run.id(), &wait, &much, "ann").await.unwrap();
    let refused = loop {
        let wait = question(&engine, run.id()).await;
        if !wait.refused.is_empty() {
            break wait.refused;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    };
    assert!(refused[0].0 == "ann" && refused[0].1.contains("a whole number"), "{refused:?}");
    assert_eq!(server.asked("tools/call"), 1, "nothing was sent");
    engine.answer(run.id(), "bank.pay: amount", &seven(), "ann").await.unwrap();
    assert_eq!(run.result().await.unwrap(), Became::Answered("paid".into()));
}

#[tokio::test]
async fn no_and_no_answer_are_told_to_the_tool() {
    for (declared, answer, action) in
        [(Declared::Not, InputAnswer::Decline, "decline"), (Declared::Not, InputAnswer::Cancel, "cancel")]
    {
        let server = asking(vec![json!({ "amount": form() })]).await;
        let engine = engine(&MemoryStore::new(), bank(Server::http(&server.url))).await;
        assert_eq!(answered(&engine, declared, &answer).await, Became::Answered("nobody agreed".into()));
        assert_eq!(server.state.slow.lock().unwrap().answers[0].1, json!({ "amount": { "action": action } }));
        assert_eq!(server.executed(), 0);
    }
    let server = asking(vec![json!({ "amount": form() })]).await;
    let engine = engine(&MemoryStore::new(), bank(Server::http(&server.url))).await;
    assert_eq!(crate::kit::paid(&engine, Declared::Expiring).await, Became::Answered("nobody agreed".into()));
    assert_eq!(server.state.slow.lock().unwrap().answers[0].1, json!({ "amount": { "action": "cancel" } }));
}

#[tokio::test]
async fn the_program_may_answer() {
    let server = asking(vec![json!({ "amount": form() })]).await;
    let engine = engine(&MemoryStore::new(), bank(Server::http(&server.url))).await;
    assert_eq!(crate::kit::paid(&engine, Declared::Answering).await, Became::Answered("paid".into()));

    let server = asking(vec![json!({ "login": page() })]).await;
    let engine = crate::kit::engine(&MemoryStore::new(), bank(Server::http(&server.url))).await;
    assert_eq!(
        crate::kit::paid(&engine, Declared::Answering).await,
        Became::Answered("nobody agreed".into())
    );
}

#[tokio::test]
async fn what_this_client_does_not_offer_ends_the_call_and_so_do_endless_rounds() {
    let sampling =
        json!({ "method": "sampling/createMessage", "params": { "messages": [], "maxTokens": 1 } });
    let server = asking(vec![json!({ "model": sampling })]).await;
    let engine = engine(&MemoryStore::new(), bank(Server::http(&server.url))).await;
    let became = crate::kit::paid(&engine, Declared::Not).await;
    assert!(matches!(&became, Became::Failed(text) if text.contains("sampling/createMessage")), "{became:?}");
    assert_eq!((server.executed(), server.asked("tools/call")), (0, 1));

    let server = asking(vec![json!({ "amount": form() }); 100]).await;
    let engine = crate::kit::engine(&MemoryStore::new(), bank(Server::http(&server.url))).await;
    let became = crate::kit::paid(&engine, Declared::Answering).await;
    assert!(matches!(&became, Became::Failed(text) if text.contains("more than 20 rounds")), "{became:?}");
    assert_eq!(server.executed(), 0);
}

#[tokio::test]
async fn a_server_that_asks_for_nothing_but_another_try_gets_it() {
    let server = asking(vec![json!({})]).await;
    let engine = engine(&MemoryStore::new(), bank(Server::http(&server.url))).await;
    assert_eq!(crate::kit::paid(&engine, Declared::Not).await, Became::Answered("paid".into()));
    assert_eq!(server.state.slow.lock().unwrap().answers, [("s1".to_owned(), Value::Null)]);
}

/// The process dies at `point` of a call with three rounds; another one takes over. Whether it died, and what became of it.
async fn dies_at(point: CrashPoint, declared: Declared) -> (bool, Became, HttpServer) {
    let server = asking(three_rounds()).await;
    server.state.slow.lock().unwrap().dedups = true;
    let store = MemoryStore::new();
    let dying = Arc::new(CrashStore::new(Arc::new(store.clone()), Some(point)));
    let mcp = bank(Server::http(&server.url));
    let lease = Duration::from_millis(200);
    let died = {
        let builder = Engine::builder().store(dying.clone()).provide(mcp.clone()).lease(lease);
        let first = builder.start().await.unwrap();
        tokio::select! {
            () = dying.crashed() => true,
            _ended = filled_in(&first, declared) => false,
        }
    };
    let store: Arc<dyn Store> = Arc::new(store);
    let second = Engine::builder().store(store).provide(mcp).lease(lease).start().await.unwrap();
    let became = filled_in(&second, declared).await;
    second.verify(&"r".parse().unwrap()).await.unwrap();
    (died, became, server)
}

#[tokio::test]
async fn a_crash_at_any_append_of_three_rounds_executes_once() {
    for point in [CrashPoint::Before, CrashPoint::After] {
        let mut died = 0;
        for write in 1.. {
            let (crashed, became, server) = dies_at(point(write), Declared::Idempotent).await;
            assert_eq!(
                (became, server.executed()),
                (Became::Answered("paid".into()), 1),
                "{:?}",
                point(write)
            );
            let keys = server.state.slow.lock().unwrap().keys.clone();
            assert!(keys.iter().all(|key| *key == keys[0]), "{:?}: {keys:?}", point(write));
            if !crashed {
                break;
            }
            died += 1;
        }
        assert!(died >= 12, "{died} appends");
    }
}

#[tokio::test]
async fn a_crash_at_any_append_of_an_undeclared_tool_sends_no_round_twice() {
    let (mut in_doubt, mut answered) = (0, 0);
    for write in 1..30 {
        let (_, became, server) = dies_at(CrashPoint::Before(write), Declared::Not).await;
        match became {
            Became::InDoubt(_) => in_doubt += 1,
            Became::Answered(_) => answered += 1,
            Became::Failed(why) => panic!("{write}: {why}"),
        }
        assert!(server.executed() <= 1, "{write}");
        assert!(server.asked("tools/call") <= 4, "{write}: a round was sent twice");
    }
    assert!(in_doubt >= 3 && answered >= 4, "{in_doubt} {answered}");
}
