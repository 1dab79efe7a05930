//! What a check says of a run is what a recovery does with it.

use aether::engine::RunEnd;
use aether::prelude::*;
use aether::store::event::Event;
use aether::store::{RunFilter, Store};
use std::sync::Arc;
use std::time::Duration;

use crate::seeds::kit::{Calls, Journal, Place, Rows, builder, in_time, run_id};

/// Look up a rate.
#[step(effect = "read")]
async fn rate_of(cx: &mut StepCx, claim: u32) -> Result<u32> {
    Calls::note(cx)?;
    Ok(claim)
}

/// Panics once it knows the rate.
#[workflow]
async fn rating(cx: &mut Cx, claim: u32) -> Result<u32> {
    let rate = rate_of(cx, claim).await?;
    assert!(rate > 100, "a rate that is too low");
    Ok(rate)
}

/// Pay a claim, with somebody's consent.
#[step(effect = "tool", approval = "required")]
async fn pay_out(cx: &mut StepCx, cents: u32) -> Result<u32> {
    Calls::note(cx)?;
    Ok(cents)
}

/// Pay, once.
#[workflow]
async fn paying(cx: &mut Cx, cents: u32) -> Result<u32> {
    Ok(pay_out(cx, cents).await?)
}

/// Set money aside.
#[step(effect = "tool", compensate = put_back)]
async fn set_aside(cx: &mut StepCx, cents: u32) -> Result<u32> {
    Calls::note(cx)?;
    Ok(cents)
}

/// Put it back.
#[step(effect = "tool", idempotent)]
async fn put_back(cx: &mut StepCx, cents: u32, aside: Option<u32>) -> Result<()> {
    let _ = (cents, aside);
    Calls::note(cx)
}

/// Set money aside, and fail.
#[workflow]
async fn failing(cx: &mut Cx, cents: u32) -> Result<u32> {
    set_aside(cx, cents).await?;
    Err(Failure::new("not wanted"))
}

/// The verdict of a check on the one run of a store.
async fn verdict(store: &Arc<dyn Store>, calls: &Calls) -> String {
    let client = builder(store, calls).client().start().await.unwrap();
    let report = client.check(RunFilter::new()).await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(report.is_clean(), report.problems().next().is_none());
    report.runs[0].verdict.to_string()
}

/// The journal with another text in place of one in the events of this kind.
fn edited(journal: &Journal, kind: &str, from: &str, to: &str) -> Journal {
    let edit = |event: &Event| {
        if event.kind() != kind {
            return event.clone();
        }
        let text = serde_json::to_string(event).unwrap();
        assert!(text.contains(from), "{text}");
        serde_json::from_str(&text.replace(from, to)).unwrap()
    };
    Journal { run: journal.run.clone(), events: journal.events.iter().map(edit).collect() }
}

/// The check says that the run parks, and so it does.
async fn parks(journal: &Journal) {
    let (place, calls) = (Place::sqlite(), Calls::default());
    journal.plant(&place.store, Rows::Follow).await;
    assert_eq!(verdict(&place.store, &calls).await, "parks");
    let engine = builder(&place.store, &calls).start().await.unwrap();
    let run = run_id(&journal.run);
    in_time(async {
        while !place.store.run(&run).await.unwrap().unwrap().parked {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(calls.all(), 0);
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_panic_in_code_that_is_new_to_the_run_fails_it_and_the_check_says_so() {
    let journal = Journal::record::<rating>("rated", 7).await;
    let (place, calls) = (Place::sqlite(), Calls::default());
    journal.through("step_committed", "rate_of").plant(&place.store, Rows::Follow).await;
    assert_eq!(verdict(&place.store, &calls).await, "fails");
    let engine = builder(&place.store, &calls).start().await.unwrap();
    let end = in_time(engine.find("rated").await.unwrap().end()).await.unwrap();
    assert!(matches!(&end, RunEnd::Failed { message, .. } if message.contains("too low")), "{end:?}");
}

#[tokio::test]
async fn a_panic_of_other_code_before_it_is_seen_to_fit_parks_the_run_and_the_check_says_so() {
    let mut journal = Journal::record::<rating>("rated", 7).await.through("step_committed", "rate_of");
    for event in &mut journal.events {
        if let Event::RunCreated(created) = event {
            created.fingerprint = "f".repeat(64);
        }
    }
    parks(&journal).await;
}

#[tokio::test]
async fn edited_arguments_that_do_not_read_park_the_run_and_the_check_says_so() {
    let place = Place::memory();
    let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
    let run = engine.start::<paying>(500).id("paid").await.unwrap();
    let asked = in_time(async {
        loop {
            if let Some(asked) = engine.pending(run.id()).await.unwrap().pop() {
                return asked.command;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    engine.approve_with(run.id(), &asked, &serde_json::json!({"cents": 4711}), "ann").await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), 4711);
    let decided = Journal::read(&place.store, "paid").await.through("approval_decided", "pay_out");
    parks(&edited(&decided, "approval_decided", "4711", "\"much\"")).await;
}

#[tokio::test]
async fn an_undoing_call_that_does_not_read_parks_the_run_and_the_check_says_so() {
    let failed = Journal::record::<failing>("failed", 4711).await;
    let unwinding = failed.through("run_unwinding", "");
    parks(&edited(&unwinding, "compensation_recorded", "4711", "\"much\"")).await;
}
