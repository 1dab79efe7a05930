//! Types that still read what was recorded: no run notices.

use aether::Failure;
use aether::definition::Workflow;
use aether::effect::Payload;
use aether::error::StartError;
use aether::store::event::Event;

use super::{attend, deployed, moved, new, old, recorded};
use crate::seeds::kit::{Calls, Journal, Place, Rows, builder, in_time, run_id, until_waiting};

/// Resumes a run of the old build in the build `to`, from every event on.
async fn survives<W, R>(to: &str, rules: R)
where
    W: Workflow<Output = Vec<u32>, Error = Failure>,
    R: Clone + Send + Sync + 'static,
{
    let recorded = recorded().await;
    let whole = deployed(&recorded.run, to);
    for length in 1..whole.events.len() {
        let (place, calls) = (Place::sqlite(), Calls::default());
        for child in &recorded.children {
            deployed(child, to).plant(&place.store, Rows::Follow).await;
        }
        whole.first(length).plant(&place.store, Rows::Follow).await;
        let engine = builder(&place.store, &calls).provide(rules.clone()).start().await.unwrap();
        let run = engine.handle::<W>("order").await.unwrap();
        let result = attend(&engine, &run).await;
        let stopped = || format!("behind {:?}", whole.events[length - 1]);
        assert_eq!(result.unwrap_or_else(|error| panic!("{error}, {}", stopped())), recorded.result);
        for name in ["shape_charge", "shape_refund", "shape_book"] {
            assert!(calls.of(name) <= 1, "{name} {}", stopped());
        }
        if let Err(error) = engine.verify(run.id()).await {
            let after = Journal::read(&place.store, "order").await;
            for event in &after.events {
                eprintln!("{}", serde_json::to_string(event).unwrap());
            }
            panic!("{error}, {}", stopped());
        }
        let after = Journal::read(&place.store, "order").await;
        assert_eq!(after.count("node_started", "shape_charge"), 1);
    }
}

#[tokio::test]
async fn a_member_more_in_every_type_changes_no_run_wherever_it_stopped() {
    survives::<new::program::shape_order, _>("new", new::receipt(3)).await;
}

#[tokio::test]
async fn types_that_accept_their_former_ones_change_no_run_wherever_it_stopped() {
    survives::<moved::program::shape_order, _>("moved", moved::receipt(3)).await;
}

#[tokio::test]
async fn a_start_that_is_repeated_by_a_newer_build_finds_its_run() {
    let recorded = recorded().await;
    let place = Place::sqlite();
    deployed(&recorded.run, "new").plant(&place.store, Rows::Follow).await;
    let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
    let again = engine.start::<new::program::shape_order>(new::ticket(2)).id("order").await.unwrap();
    assert_eq!(in_time(again.result()).await.unwrap(), recorded.result);
    let vip = new::Ticket { vip: Some(true), ..new::ticket(2) };
    for other in [new::ticket(3), vip] {
        let other = engine.start::<new::program::shape_order>(other).id("order").await.unwrap_err();
        assert!(matches!(&other, StartError::IdTaken { difference: "another input", .. }), "{other}");
    }
}

#[tokio::test]
async fn a_start_that_is_repeated_after_the_run_continued_as_new_is_compared_with_the_first_input() {
    let place = Place::sqlite();
    let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
    let run = engine.start::<old::program::shape_renewed>(old::ticket(2)).id("renewed").await.unwrap();
    in_time(until_waiting(&run)).await;
    let journal = Journal::read(&place.store, "renewed").await;
    assert!(matches!(&journal.events[1], Event::RunContinued(e) if e.first_input.is_some()));
    let again = engine.start::<new::program::shape_renewed>(new::ticket(2)).id("renewed").await.unwrap();
    assert_eq!(again.id(), run.id());
    for other in [new::ticket(0), new::ticket(3), new::Ticket { vip: Some(true), ..new::ticket(2) }] {
        let other = engine.start::<new::program::shape_renewed>(other).id("renewed").await.unwrap_err();
        assert!(matches!(&other, StartError::IdTaken { difference: "another input", .. }), "{other}");
    }
}

#[tokio::test]
async fn arguments_that_differ_are_shown_as_values() {
    let mut changed = recorded().await.run;
    // As if the code passed another ticket than it did: its input is another one.
    if let Event::RunCreated(created) = &mut changed.events[0] {
        created.input = Payload::from_text(r#"{"ticket":{"id":3}}"#.to_owned()).unwrap();
    }
    let place = Place::sqlite();
    changed.open().plant(&place.store, Rows::Follow).await;
    let engine = builder(&place.store, &Calls::default()).provide(old::receipt(3)).start().await.unwrap();
    let error = engine.verify(&run_id("order")).await.unwrap_err();
    let differs = error.divergence().unwrap();
    assert_eq!(differs.changes.to_string(), "`ticket.id`: recorded 2, now 3");
    let text = error.to_string();
    assert!(text.contains("0:shape_price") && text.contains("`ticket.id`: recorded 2, now 3"), "{text}");
}
