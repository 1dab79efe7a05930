//! Runs that are ended before their code asks for what is known of them: an outcome that is in the journal or the effect
//! store counts, and is undone.

use std::sync::Arc;
use std::time::Duration;

use aether::effect::Payload;
use aether::engine::{Limits, RunEnd};
use aether::id::IdempotencyKey;
use aether::prelude::*;
use aether::sqlite::rusqlite::Connection;
use aether::store::event::Event;
use aether::store::journal::{BlobRef, Frame, LargeValue};
use aether::store::ledger::LedgerStatus;
use aether::store::{Store, StoredEffect};
use aether::view::{RunView, Status};

use crate::seeds::kit::{Calls, Journal, Place, Rows, builder, in_time, resume, run_id, stores};

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

/// Book a seat, which takes its time.
#[step(effect = "transaction", compensate = unbook)]
async fn book_slowly(cx: &mut StepCx, seat: u32) -> Result<u32> {
    Calls::note(cx)?;
    take_a_while();
    Ok(seat)
}

fn take_a_while() {
    std::thread::sleep(Duration::from_millis(60));
}

/// Look around.
#[step(effect = "read")]
async fn look(cx: &mut StepCx) -> Result<()> {
    Calls::note(cx)
}

/// Book a seat, and panic at what is seen meanwhile.
#[workflow]
async fn startled(cx: &mut Cx, seat: u32) -> Result<u32> {
    let (booked, ()) = cx
        .join((
            async |cx: &mut Cx| book_slowly(cx, seat).await,
            async |cx: &mut Cx| {
                let seen = look(cx).await;
                assert!(seen.is_err(), "a ghost");
            },
        ))
        .await;
    Ok(booked?)
}

/// Book many seats.
#[workflow]
async fn book_many(cx: &mut Cx, seats: u32) -> Result<()> {
    let booked = cx.each(0..seats, async |cx: &mut Cx, seat: u32| book(cx, seat).await).await;
    assert_eq!(booked.len() as u32, seats);
    let _word: () = cx.signal("go").await?;
    Ok(())
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
async fn transactions_that_are_committed_at_the_end_are_undone_in_the_reverse_order_of_their_sql() {
    let place = Place::sqlite();
    let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
    engine.start::<book_many>(12).id("group").await.unwrap();
    let mut cut = until_recorded(&place, "group", "wait_started").await;
    engine.shutdown().await.unwrap();
    let kept = ["run_created", "node_started", "transaction_finished"];
    cut.events.retain(|event| kept.contains(&event.kind().as_str()));
    let finished = cut.events.iter().filter(|event| matches!(event, Event::TransactionFinished(_)));
    let undone: Vec<String> =
        finished.rev().map(|event| format!("undo.{}:unbook", event.command().unwrap().place())).collect();
    assert_eq!(undone.len(), 12);

    let (place, calls) = (Place::sqlite(), Calls::default());
    cut.plant(&place.store, Rows::Follow).await;
    let (_engine, view) = ended(&place.store, &calls, "group", false).await;
    assert_eq!(view.uncompensated, []);
    let keys = calls.keys("unbook");
    assert!(keys.iter().zip(&undone).all(|(key, undone)| key.contains(undone.as_str())), "{keys:?}");
    assert_eq!(keys.len(), 12);
}

#[tokio::test]
async fn what_is_known_is_said_in_one_append_with_how_the_run_ends() {
    let (place, calls) = (Place::sqlite(), Calls::default());
    let engine = builder(&place.store, &calls).start().await.unwrap();
    let run = engine.start::<startled>(7).id("ghost").await.unwrap();
    let end = in_time(run.end()).await.unwrap();
    assert!(matches!(end, RunEnd::Failed { .. }), "{end:?}");
    assert_eq!((calls.of("book_slowly"), calls.of("unbook")), (1, 1));
    engine.shutdown().await.unwrap();
    let whole = Journal::read(&place.store, "ghost").await;
    let frames = place.store.load(&run_id("ghost"), 0).await.unwrap();
    let cuts: Vec<usize> = frames.iter().skip(1).map(|frame| frame.position as usize).collect();
    let at = |kind: &str| whole.kinds().iter().position(|found| found == kind).unwrap();
    let between = at("compensation_recorded") + 1..=at("run_unwinding");
    assert!(!cuts.iter().any(|cut| between.contains(cut)), "{cuts:?} in {:?}", whole.kinds());
    // Wherever the process dies, the run fails and is not parked, and what it did is undone once.
    for cut in cuts {
        let (journal, place, calls) = (whole.first(cut), Place::sqlite(), Calls::default());
        journal.plant(&place.store, Rows::Follow).await;
        let (engine, ended) = resume::<startled>(&place.store, "ghost", &calls).await;
        let view = engine.view(&run_id("ghost")).await.unwrap();
        assert_eq!(view.status, Status::Failed, "cut at {cut}: {ended:?}");
        let undone_before = journal.count("tool_invocation_finished", "unbook");
        assert_eq!(calls.of("unbook") + undone_before, 1, "cut at {cut}");
        assert_eq!(view.uncompensated, []);
        engine.shutdown().await.unwrap();
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
    plant_outcome(place, &[]).await;
}

/// As well, with an outcome whose values like these are apart from it.
async fn plant_outcome(place: &Place, large: &[LargeValue]) {
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
    let (frame, status) = (Frame::referring(&outcome, large).unwrap(), Some(LedgerStatus::Succeeded));
    let effect = StoredEffect { run: run_id("night"), key, frame, status };
    place.store.put_effect(effect, hand.epoch, large.to_vec()).await.unwrap();
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

#[tokio::test]
async fn a_run_can_be_ended_whose_outcome_is_damaged_in_the_effect_store() {
    for terminated in [false, true] {
        for damage in ["DELETE FROM aether_blobs", "UPDATE aether_blobs SET bytes = x'39'"] {
            let (place, calls) = (Place::sqlite(), Calls::default());
            let value = Payload::encode(&8_u32).unwrap();
            plant_outcome(&place, &[LargeValue { at: BlobRef::of(&value), value }]).await;
            let db = Connection::open(place.file()).unwrap();
            assert_eq!(db.execute(damage, []).unwrap(), 1);
            let (engine, view) = ended(&place.store, &calls, "night", terminated).await;
            assert_eq!((calls.of("hold_room"), calls.of("let_room_go")), (0, 0));
            // What it did is not known.
            assert_eq!(view.in_doubt().len(), 1, "{view:?}");
            engine.shutdown().await.unwrap();
        }
    }
}
