//! Runs that are ended before their code asks for what is known of them: an outcome that is in the journal or the effect
//! store counts, and is undone.

use std::sync::Arc;
use std::time::Duration;

use aether::engine::Limits;
use aether::id::IdempotencyKey;
use aether::prelude::*;
use aether::store::event::Event;
use aether::store::journal::Frame;
use aether::store::ledger::LedgerStatus;
use aether::store::{Store, StoredEffect};
use aether::view::{RunView, Status};

use crate::seeds::kit::{Calls, Journal, Place, Rows, builder, in_time, run_id, stores};

/// Book a seat.
#[step(effect = "transaction", compensate = unbook)]
async fn book(cx: &mut StepCx, seat: u32) -> Result<u32> {
    Calls::note(cx)?;
    Ok(seat)
}

/// Give the seat back.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn unbook(cx: &mut StepCx, seat: u32, booked: Option<u32>) -> Result<()> {
    assert_eq!(booked, Some(seat));
    Calls::note(cx)
}

/// Book a seat, and wait for a word.
#[workflow]
async fn travel(cx: &mut Cx, seat: u32) -> Result<u32> {
    let booked = book(cx, seat).await?;
    let _word: () = cx.signal("go").await?;
    Ok(booked)
}

/// Hold a room.
#[step(effect = "tool", compensate = let_room_go)]
async fn hold_room(cx: &mut StepCx, room: u32) -> Result<u32> {
    Calls::note(cx)?;
    Ok(room)
}

/// Let it go.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn let_room_go(cx: &mut StepCx, room: u32, held: Option<u32>) -> Result<()> {
    assert_eq!(held, Some(room));
    Calls::note(cx)
}

/// Hold a room, and wait for a word.
#[workflow]
async fn stay_over(cx: &mut Cx, room: u32) -> Result<u32> {
    let held = hold_room(cx, room).await?;
    let _word: () = cx.signal("go").await?;
    Ok(held)
}

/// What `travel` records until it waits.
async fn travelling() -> Journal {
    let place = Place::sqlite();
    let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
    engine.start::<travel>(7).id("trip").await.unwrap();
    until_recorded(&place, "trip", "wait_started").await
}

async fn until_recorded(place: &Place, run: &str, kind: &str) -> Journal {
    in_time(async {
        loop {
            let journal = Journal::read(&place.store, run).await;
            if journal.kinds().iter().any(|found| found == kind) {
                return journal;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await
}

/// The journal as if its workflow had another name.
fn of_a_workflow_that_is_gone(journal: &Journal) -> Journal {
    let mut renamed = journal.clone();
    for event in &mut renamed.events {
        if let Event::RunCreated(created) = event {
            created.workflow = "gone_since".into();
        }
    }
    renamed
}

/// The run, once an engine on this store has obeyed what a client has asked for.
async fn ended(store: &Arc<dyn Store>, calls: &Calls, run: &str, terminated: bool) -> (Engine, RunView) {
    let client = builder(store, calls).client().start().await.unwrap();
    match terminated {
        false => client.cancel(&run_id(run), "not wanted", "ann").await.unwrap(),
        true => client.terminate(&run_id(run), "not wanted", "ann").await.unwrap(),
    };
    client.shutdown().await.unwrap();
    let engine = builder(store, calls).start().await.unwrap();
    let view = in_time(async {
        loop {
            let view = engine.view(&run_id(run)).await.unwrap();
            if view.status.is_terminal() {
                return view;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(view.status, Status::Cancelled);
    (engine, view)
}

#[tokio::test]
async fn a_transaction_that_is_durable_is_undone_when_its_run_is_cancelled_before_it_is_committed() {
    let cut = travelling().await.through("transaction_finished", "book");
    for journal in [cut.clone(), of_a_workflow_that_is_gone(&cut)] {
        let (place, calls) = (Place::sqlite(), Calls::default());
        journal.plant(&place.store, Rows::Follow).await;
        let (engine, view) = ended(&place.store, &calls, "trip", false).await;
        assert_eq!((calls.of("book"), calls.of("unbook")), (0, 1));
        assert_eq!(view.uncompensated, []);
        let whole = Journal::read(&place.store, "trip").await;
        let committed = ["compensation_recorded", "command_committed", "node_finished", "step_committed"];
        assert_eq!(whole.kinds_of("book")[2..], committed);
        if journal == cut {
            engine.verify(&run_id("trip")).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_transaction_whose_step_is_not_linked_is_named_by_the_end_of_its_run() {
    let mut cut = travelling().await.through("transaction_finished", "book");
    for event in &mut cut.events {
        if let Event::NodeStarted(started) = event {
            started.path = Some("elsewhere::book".into());
        }
    }
    let (place, calls) = (Place::sqlite(), Calls::default());
    of_a_workflow_that_is_gone(&cut).plant(&place.store, Rows::Follow).await;
    let (_engine, view) = ended(&place.store, &calls, "trip", false).await;
    assert_eq!(calls.of("unbook"), 0);
    let left = &view.uncompensated[0];
    assert_eq!((view.uncompensated.len(), left.step.to_string()), (1, "0:book".to_owned()));
    assert!(left.message.contains("`elsewhere::book` is not linked"), "{left}");
}

#[tokio::test]
async fn a_transaction_that_failed_or_was_not_made_leaves_nothing_to_undo() {
    let whole = travelling().await;
    let begun = whole.through("node_started", "book");
    let (place, calls) = (Place::sqlite(), Calls::default());
    begun.plant(&place.store, Rows::Follow).await;
    let (_engine, view) = ended(&place.store, &calls, "trip", false).await;
    assert_eq!((calls.of("unbook"), view.uncompensated), (0, Vec::new()));
}

/// Plants a run whose process died between the write of an outcome to the effect store and that to the journal.
async fn plant_between_the_phases(place: &Place) {
    let whole = {
        let place = Place::memory();
        let limits = Limits { inline: 0, ..Limits::default() };
        let engine = builder(&place.store, &Calls::default()).limits(limits).start().await.unwrap();
        engine.start::<stay_over>(8).id("night").await.unwrap();
        until_recorded(&place, "night", "wait_started").await
    };
    let begun = whole.through("tool_invocation_started", "hold_room");
    let outcome: Vec<Event> = whole.of("hold_room").split_off(begun.of("hold_room").len());
    let hand = begun.hold(&place.store, Rows::Follow).await;
    let key = IdempotencyKey::new(&run_id("night"), outcome[0].command().unwrap(), 0);
    let (frame, status) = (Frame::encode(&outcome).unwrap(), Some(LedgerStatus::Succeeded));
    let effect = StoredEffect { run: run_id("night"), key, frame, status };
    place.store.put_effect(effect, hand.epoch, Vec::new()).await.unwrap();
    hand.let_go().await;
}

#[tokio::test]
async fn an_outcome_in_the_effect_store_is_known_when_its_run_is_ended() {
    for terminated in [false, true] {
        for place in stores() {
            let (place, calls) = (place(), Calls::default());
            plant_between_the_phases(&place).await;
            let (engine, view) = ended(&place.store, &calls, "night", terminated).await;
            let undone = usize::from(!terminated);
            assert_eq!((calls.of("hold_room"), calls.of("let_room_go")), (0, undone));
            assert!(view.in_doubt().is_empty() && view.uncompensated.is_empty(), "{view:?}");
            let journal = Journal::read(&place.store, "night").await;
            assert_eq!(journal.count("invocation_abandoned", "hold_room"), 0);
            let rows = engine.ledger(&run_id("night")).await.unwrap();
            assert!(
                rows.iter().all(|row| row.committed && row.status == LedgerStatus::Succeeded),
                "{rows:?}"
            );
            engine.verify(&run_id("night")).await.unwrap();
        }
    }
}
