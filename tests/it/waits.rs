//! Signals and questions: kept, deduplicated, durable.

use std::time::Duration;

use aether::id::CommandId;
use aether::prelude::*;
use aether::store::Sent;
use aether::view::Status;

use crate::seeds::kit::{Calls, builder, eager_engine, in_time, run_id, stores, until_waiting};

#[workflow]
async fn payments(cx: &mut Cx) -> Result<Vec<u32>> {
    let first: u32 = cx.signal("paid").await?;
    let second: u32 = cx.signal("paid").await?;
    Ok(vec![first, second])
}

#[workflow]
async fn confirmed(cx: &mut Cx, amount: u32) -> Result<bool> {
    Ok(cx.ask(format!("Pay {amount}?")).await?)
}

#[workflow]
async fn paid_in_time(cx: &mut Cx, millis: u64) -> Result<Option<u32>> {
    let first = cx
        .race((
            async |cx: &mut Cx| cx.signal("paid").await.map(Some),
            async |cx: &mut Cx| {
                cx.sleep(Duration::from_millis(millis)).await;
                Ok(None)
            },
        ))
        .await?;
    Ok(first)
}

#[tokio::test]
async fn signals_are_kept_deduplicated_and_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let first = eager_engine(&path).await;
    let run = first.start::<payments>(()).id("r").await.unwrap();
    until_waiting(&run).await;
    let id = run.id().clone();
    assert_eq!(first.signal(&id, "other", "x", &9).await, Ok(Sent::Delivered));
    assert_eq!(first.signal(&id, "paid", "a", &1).await, Ok(Sent::Delivered));
    assert_eq!(first.signal(&id, "paid", "a", &7).await, Ok(Sent::Duplicate));
    first.shutdown().await.unwrap();

    let second = eager_engine(&path).await;
    let run = second.handle::<payments>("r").await.unwrap();
    assert_eq!(second.signal(&id, "paid", "b", &2).await, Ok(Sent::Delivered));
    assert_eq!(run.result().await.unwrap(), [1, 2]);
    assert_eq!(second.signal(&id, "paid", "c", &3).await, Ok(Sent::RunEnded(Status::Completed)));
    assert!(second.verify(&id).await.is_ok());
    assert!(second.view(&id).await.unwrap().illegal.is_empty());
}

#[tokio::test]
async fn a_question_waits_for_its_answer() {
    let dir = tempfile::tempdir().unwrap();
    let engine = eager_engine(&dir.path().join("a.db")).await;
    let run = engine.start::<confirmed>(3).id("r").await.unwrap();
    until_waiting(&run).await;
    let view = engine.view(run.id()).await.unwrap();
    assert_eq!(view.steps[0].status, Status::Waiting);
    assert_eq!(view.steps[0].input.as_ref().unwrap().as_str(), "\"Pay 3?\"");
    let question: CommandId = view.steps[0].command.clone();
    engine.answer(run.id(), &question, &true, "ann").await.unwrap();
    assert!(run.result().await.unwrap());
    assert!(engine.verify(run.id()).await.is_ok());
}

#[tokio::test]
async fn a_wait_may_race_a_timer() {
    let dir = tempfile::tempdir().unwrap();
    let engine = eager_engine(&dir.path().join("a.db")).await;
    let late = engine.start::<paid_in_time>(30).id("late").await.unwrap();
    assert_eq!(late.result().await.unwrap(), None);
    let early = engine.start::<paid_in_time>(3_600_000).id("early").await.unwrap();
    engine.signal(early.id(), "paid", "a", &5).await.unwrap();
    assert_eq!(early.result().await.unwrap(), Some(5));
    for run in [late.id(), early.id()] {
        assert!(engine.verify(run).await.is_ok());
    }
}

/// A letterbox that the program may forget to provide.
struct Letterbox;

#[step(effect = "tool")]
async fn post(cx: &mut StepCx, letter: String) -> Result<String> {
    cx.dep::<Letterbox>()?;
    Ok(letter)
}

#[workflow]
async fn posting(cx: &mut Cx) -> Result<String> {
    Ok(post(cx, "hello".into()).await?)
}

#[tokio::test]
async fn a_program_that_provides_too_little_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let poor = eager_engine(&path).await;
    let run = poor.start::<posting>(()).id("r").await.unwrap();
    let error = run.result().await.unwrap_err().to_string();
    assert!(error.contains("Letterbox") && error.contains("0:post") && error.contains("nothing"), "{error}");
    poor.shutdown().await.unwrap();

    let rich = Engine::builder().sqlite(&path).provide(Letterbox).start().await.unwrap();
    let run = rich.handle::<posting>("r").await.unwrap();
    run.advance().await.unwrap();
    assert_eq!(run.result().await.unwrap(), "hello");
    let keys: Vec<_> =
        rich.ledger(run.id()).await.unwrap().into_iter().map(|row| row.key.to_string()).collect();
    assert_eq!(
        keys.last().map(String::as_str),
        Some("aether:r:0:post:1"),
        "a denied attempt gets no second try"
    );
}

#[step(effect = "tool", on_unknown = "ask")]
async fn transfer(cx: &mut StepCx, amount: u32) -> Result<u32> {
    let _ = cx;
    Err(Failure::unknown(format!("the bank hung up at {amount}")))
}

#[workflow]
async fn transferring(cx: &mut Cx) -> Result<u32> {
    Ok(transfer(cx, 5).await?)
}

#[tokio::test]
async fn a_resolution_of_another_type_is_refused_and_the_reason_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let engine = eager_engine(&dir.path().join("a.db")).await;
    let run = engine.start::<transferring>(()).id("r").await.unwrap();
    until_waiting(&run).await;
    let row = engine.ledger(run.id()).await.unwrap().remove(0);
    assert!(row.error.unwrap().as_str().contains("the bank hung up at 5"));
    let happened = |json: &str| {
        aether::people::Resolution::Happened(aether::effect::Payload::from_text(json.into()).unwrap())
    };
    let refused = engine.resolve(run.id(), &row.invocation, happened("\"text\""), "ann").await;
    assert!(matches!(refused, Err(aether::people::DecideError::Misfit { .. })), "{refused:?}");
    assert_eq!(run.status().await.unwrap(), Status::Waiting);
    engine.resolve(run.id(), &row.invocation, happened("7"), "ann").await.unwrap();
    assert_eq!(run.result().await.unwrap(), 7);
    assert!(engine.verify(run.id()).await.is_ok());
}

/// A program beside the service: it starts a run, sees what waits, and decides; the service alone calls steps.
#[tokio::test]
async fn a_client_decides_and_advances_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agent.db");
    let client = Engine::builder().sqlite(&file).client().start().await.unwrap();
    let run = client.start::<consented>(()).id("r").await.unwrap();
    assert!(!run.advance().await.unwrap());
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(run.status().await.unwrap(), Status::Pending);

    let service = Engine::builder().sqlite(&file).start().await.unwrap();
    in_time(async {
        while client.pending(run.id()).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    client.approve(run.id(), "consent", "ann").await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), "ann");
    client.shutdown().await.unwrap();
    service.shutdown().await.unwrap();
}

/// Ask for consent.
#[workflow]
async fn consented(cx: &mut Cx) -> Result<String> {
    Ok(cx.approval("consent").await?.granted()?)
}

/// What somebody is asked to agree to.
static CENTS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

#[derive(serde::Serialize)]
struct Payout {
    to: Vec<&'static str>,
    cents: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
}

fn payout() -> Payout {
    match CENTS.load(std::sync::atomic::Ordering::SeqCst) {
        // The same in another order, and with a member more that says nothing.
        1 => Payout { to: vec!["bob", "ann"], cents: 100, note: Some("") },
        cents => Payout { to: vec!["ann", "bob"], cents, note: None },
    }
}

/// Ask for consent.
#[workflow]
async fn agreed(cx: &mut Cx) -> Result<bool> {
    Ok(cx.approval("payout").details(&payout()).await?.is_approved())
}

#[tokio::test]
async fn consent_to_one_thing_is_none_to_another() {
    let set = |cents| CENTS.store(cents, std::sync::atomic::Ordering::SeqCst);
    for place in stores() {
        let place = place();
        let start = || builder(&place.store, &Calls::default()).start();
        set(100);
        let engine = start().await.unwrap();
        for id in ["same", "other"] {
            let run = engine.start::<agreed>(()).id(id).await.unwrap();
            in_time(until_waiting(&run)).await;
        }
        engine.shutdown().await.unwrap();
        set(1);
        let engine = start().await.unwrap();
        engine.approve(&run_id("same"), "0:approval", "ann").await.unwrap();
        let same = engine.handle::<agreed>("same").await.unwrap();
        assert!(in_time(same.result()).await.unwrap());
        engine.shutdown().await.unwrap();
        set(9_000);
        let engine = start().await.unwrap();
        engine.approve(&run_id("other"), "0:approval", "ann").await.unwrap();
        let other = engine.handle::<agreed>("other").await.unwrap();
        let stopped = in_time(other.result()).await.unwrap_err().to_string();
        assert!(stopped.contains("0:approval"), "{stopped}");
        engine.shutdown().await.unwrap();
        // Nothing is lost: the code that asked for it gets the consent.
        set(100);
        let engine = start().await.unwrap();
        let other = engine.handle::<agreed>("other").await.unwrap();
        other.advance().await.unwrap();
        assert!(in_time(other.result()).await.unwrap());
        engine.shutdown().await.unwrap();
    }
}
