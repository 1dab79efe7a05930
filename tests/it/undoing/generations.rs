//! What is begun to be undone in one generation of a run, and goes on in a later one.

use std::time::Duration;

use aether::prelude::*;
use aether::recording::Masking;
use aether::store::event::Event;
use aether::store::ledger::LedgerStatus;
use aether::store::{RunFilter, Store, check_integrity};
use aether::view::Status;

use super::{Stage, called, consent, ended, engine, lend_car, recorded};
use crate::seeds::kit::{Calls, Journal, Place, in_time, run_id, stores};

/// Take a deposit.
#[step(effect = "tool", compensate = return_deposit)]
async fn take_deposit(cx: &mut StepCx, cents: u32) -> Result<u32> {
    Calls::note(cx)?;
    Ok(cents)
}

/// Return it, when let go; fails at first where the stage says so, and is not sent again where its outcome is unknown.
#[step(effect = "tool", idempotent, retry(max_retries = 5, delay = "20ms"))]
async fn return_deposit(cx: &mut StepCx, cents: u32, taken: Option<u32>) -> Result<()> {
    let _ = (cents, taken);
    Calls::note(cx)?;
    let stage = cx.dep::<Stage>()?;
    if stage.fails() {
        return Err(Failure::retryable("503"));
    }
    stage.gate.acquire().await?.forget();
    Ok(())
}

/// Take a pledge.
#[step(effect = "tool", compensate = return_pledge)]
async fn take_pledge(cx: &mut StepCx, cents: u32) -> Result<u32> {
    Calls::note(cx)?;
    Ok(cents)
}

/// Return it, when let go; fails at first where the stage says so, and is sent again where its outcome is unknown.
#[step(effect = "tool", idempotent, on_unknown = "retry", retry(max_retries = 5, delay = "20ms"))]
async fn return_pledge(cx: &mut StepCx, cents: u32, taken: Option<u32>) -> Result<()> {
    let _ = (cents, taken);
    Calls::note(cx)?;
    let stage = cx.dep::<Stage>()?;
    if stage.fails() {
        return Err(Failure::retryable("503"));
    }
    stage.gate.acquire().await?.forget();
    Ok(())
}

/// Do `what`, lose a race while it is undone, and continue so many times; then it is undone, as `how` says.
#[workflow]
async fn undo_later(cx: &mut Cx, what: String, how: String, round: u32, last: u32) -> Result<usize> {
    if round == 0 {
        match what.as_str() {
            "deposit" => drop(take_deposit(cx, 7).await?),
            "pledge" => drop(take_pledge(cx, 8).await?),
            _ => drop(lend_car(cx, 9).await?),
        }
        cx.race((
            async |cx: &mut Cx| cx.compensate().await.len(),
            async |cx: &mut Cx| {
                let _word: () = cx.signal("go").await.unwrap_or_default();
                0
            },
        ))
        .await;
    }
    if round < last {
        return cx.continue_as_new::<undo_later>((what, how, round + 1, last)).await;
    }
    match how.as_str() {
        "code" => Ok(cx.compensate().await.len()),
        "fail" => Err(Failure::permanent("no hotel")),
        _ => Ok(cx.signal("never").await?),
    }
}

/// The ways in which a later generation undoes.
const HOW: [&str; 3] = ["code", "fail", "cancel"];

async fn start(engine: &Engine, what: &str, how: &str, last: u32) {
    let input = (what.to_owned(), how.to_owned(), 0, last);
    drop(engine.start::<undo_later>(input).id("later").await.unwrap());
}

/// The branch that undoes loses; returns once generation `last` has begun.
async fn go(engine: &Engine, place: &Place, how: &str, last: u32) {
    engine.signal(&run_id("later"), "go", "1", &()).await.unwrap();
    begun(place, last).await;
    if how == "cancel" {
        engine.cancel(&run_id("later"), "changed my mind", "ann").await.unwrap();
    }
}

/// Waits until a generation has begun.
async fn begun(place: &Place, generation: u32) {
    let is_it = |event: &Event| matches!(event, Event::RunContinued(e) if e.generation == generation);
    in_time(async {
        while !Journal::read(&place.store, "later").await.events.iter().any(is_it) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn an_attempt_in_doubt_is_not_made_again_in_a_later_generation() {
    for how in HOW {
        for last in [1, 2] {
            for place in stores() {
                let (place, calls, stage) = (place(), Calls::default(), Stage::new(1));
                let engine = engine(&place.store, &calls, &stage).await;
                start(&engine, "deposit", how, last).await;
                called(&calls, "return_deposit", 2).await;
                go(&engine, &place, how, last).await;
                stage.open();
                let view = ended(&engine, "later").await;
                assert_eq!(
                    calls.of("return_deposit"),
                    2,
                    "{how}, {last}: {:?}",
                    calls.keys("return_deposit")
                );
                let [left] = &view.uncompensated[..] else { panic!("{:?}", view.uncompensated) };
                assert!(left.in_doubt, "{how}, {last}: {left:?}");
                assert_eq!(view.illegal, Vec::<String>::new());
                engine.verify(&run_id("later")).await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn an_undoing_call_goes_on_under_its_key_in_a_later_generation() {
    for how in HOW {
        for last in [1, 2] {
            for place in stores() {
                let (place, calls, stage) = (place(), Calls::default(), Stage::new(1));
                let engine = engine(&place.store, &calls, &stage).await;
                start(&engine, "pledge", how, last).await;
                called(&calls, "return_pledge", 2).await;
                go(&engine, &place, how, last).await;
                stage.open();
                let view = ended(&engine, "later").await;
                let keys = calls.keys("return_pledge");
                assert_eq!(keys, [0, 1, 1].map(|at| keys[at].clone()), "{how}, {last}");
                assert_eq!(view.uncompensated, []);
                assert_eq!(view.illegal, Vec::<String>::new());
                engine.verify(&run_id("later")).await.unwrap();
                exports_whole(&engine, &place).await;
            }
        }
    }
}

/// One append of such a run begins several calls: what is carried over from the generation before.
async fn exports_whole(engine: &Engine, place: &Place) {
    let rows = async |store: &dyn Store| {
        let mut rows = store.entries(&run_id("later")).await.unwrap();
        rows.iter_mut().for_each(|row| row.epoch = 1);
        rows.sort_by(|a, b| a.key.cmp(&b.key));
        rows
    };
    let report = check_integrity(&*place.store, RunFilter::new(), |_| ()).await.unwrap();
    assert!(report.is_sound(), "{report}");
    let recording = engine.export_with(&run_id("later"), &Masking::off()).await.unwrap();
    for make in stores() {
        let other = make();
        recording.import(&*other.store).await.unwrap();
        assert_eq!(rows(&*other.store).await, rows(&*place.store).await);
        let report = check_integrity(&*other.store, RunFilter::new(), |_| ()).await.unwrap();
        assert!(report.is_sound(), "{report}");
    }
}

/// Lose two races, in each of which a pledge is returned, and continue; then both are returned, as `how` says.
#[workflow]
async fn undo_two_later(cx: &mut Cx, how: String, round: u32) -> Result<usize> {
    if round == 0 {
        for cents in [8, 9] {
            take_pledge(cx, cents).await?;
            cx.race((
                async |cx: &mut Cx| cx.compensate().await.len(),
                async |cx: &mut Cx| {
                    let _word: () = cx.signal("go").await.unwrap_or_default();
                    0
                },
            ))
            .await;
        }
        return cx.continue_as_new::<undo_two_later>((how, 1)).await;
    }
    match how.as_str() {
        "code" => Ok(cx.compensate().await.len()),
        _ => Err(Failure::permanent("no hotel")),
    }
}

#[tokio::test]
async fn calls_that_are_carried_over_together_are_exported_and_imported_with_their_rows() {
    for how in ["code", "fail"] {
        for failures in [0, 1, 2] {
            for place in stores() {
                let (place, calls, stage) = (place(), Calls::default(), Stage::new(failures));
                let engine = engine(&place.store, &calls, &stage).await;
                drop(engine.start::<undo_two_later>((how.to_owned(), 0)).id("later").await.unwrap());
                called(&calls, "return_pledge", failures as usize + 1).await;
                engine.signal(&run_id("later"), "go", "1", &()).await.unwrap();
                called(&calls, "return_pledge", failures as usize + 2).await;
                engine.signal(&run_id("later"), "go", "2", &()).await.unwrap();
                begun(&place, 1).await;
                stage.open();
                let view = ended(&engine, "later").await;
                assert_eq!(view.uncompensated, [], "{how}, {failures}");
                assert_eq!(view.illegal, Vec::<String>::new());
                engine.verify(&run_id("later")).await.unwrap();
                exports_whole(&engine, &place).await;
            }
        }
    }
}

#[tokio::test]
async fn who_has_agreed_to_an_undoing_call_is_not_asked_again_in_a_later_generation() {
    for how in HOW {
        for place in stores() {
            let (place, calls, stage) = (place(), Calls::default(), Stage::new(1));
            let engine = engine(&place.store, &calls, &stage).await;
            start(&engine, "car", how, 1).await;
            let wait = consent(&engine).await;
            engine.approve(&run_id("later"), &wait.command, "ann").await.unwrap();
            recorded(&place, "later", "step_retried", "take_car_back", 1).await;
            go(&engine, &place, how, 1).await;
            let view = ended(&engine, "later").await;
            let keys = calls.keys("take_car_back");
            assert!(keys.len() == 2 && keys[0] != keys[1], "{how}: {keys:?}");
            assert_eq!(view.uncompensated, [], "{how}");
            assert_eq!(view.illegal, Vec::<String>::new());
            engine.verify(&run_id("later")).await.unwrap();
        }
    }
}

#[tokio::test]
async fn consent_that_nobody_gave_is_asked_for_again_in_a_later_generation() {
    for how in HOW {
        for place in stores() {
            let (place, calls, stage) = (place(), Calls::default(), Stage::new(0));
            let engine = engine(&place.store, &calls, &stage).await;
            start(&engine, "car", how, 1).await;
            consent(&engine).await;
            go(&engine, &place, how, 1).await;
            recorded(&place, "later", "approval_requested", "take_car_back", 1).await;
            let wait = consent(&engine).await;
            engine.approve(&run_id("later"), &wait.command, "ann").await.unwrap();
            let view = ended(&engine, "later").await;
            assert_eq!((calls.of("take_car_back"), view.uncompensated.len()), (1, 0), "{how}");
            assert_eq!(view.illegal, Vec::<String>::new());
            engine.verify(&run_id("later")).await.unwrap();
        }
    }
}

#[tokio::test]
async fn an_undoing_call_of_an_earlier_generation_goes_on_after_a_crash() {
    for how in HOW {
        for place in stores() {
            let (place, calls, stage) = (place(), Calls::default(), Stage::new(1));
            let first = engine(&place.store, &calls, &stage).await;
            start(&first, "pledge", how, 1).await;
            called(&calls, "return_pledge", 2).await;
            go(&first, &place, how, 1).await;
            called(&calls, "return_pledge", 3).await;
            first.shutdown_within(Duration::ZERO).await.unwrap();
            stage.open();
            let second = engine(&place.store, &calls, &stage).await;
            let view = ended(&second, "later").await;
            let keys = calls.keys("return_pledge");
            assert_eq!(keys, [0, 1, 1, 1].map(|at| keys[at].clone()), "{how}");
            assert_eq!((view.uncompensated.len(), view.illegal.len()), (0, 0), "{how}: {:?}", view.illegal);
            second.verify(&run_id("later")).await.unwrap();
        }
    }
}

/// Lose a race while a pledge is returned, in each of two generations; then wait.
#[workflow]
async fn lose_twice(cx: &mut Cx, round: u32, returns: bool) -> Result<u32> {
    if round == 0 {
        take_pledge(cx, 8).await?;
    }
    cx.race((
        async |cx: &mut Cx| {
            let left = cx.compensate().await.len();
            cx.sleep(Duration::from_secs(600)).await;
            left
        },
        async |cx: &mut Cx| {
            let _word: () = cx.signal("go").await.unwrap_or_default();
            0
        },
    ))
    .await;
    if round == 0 {
        return cx.continue_as_new::<lose_twice>((1, returns)).await;
    }
    let word = cx.signal("more").await?;
    if !returns {
        assert_eq!(cx.compensate().await.len(), 0);
    }
    Ok(word)
}

#[tokio::test]
async fn what_lost_branches_of_two_generations_undo_is_not_asked_for_and_goes_on() {
    for returns in [true, false] {
        for place in stores() {
            let (place, calls, stage) = (place(), Calls::default(), Stage::new(1));
            let first = engine(&place.store, &calls, &stage).await;
            drop(first.start::<lose_twice>((0, returns)).id("later").await.unwrap());
            called(&calls, "return_pledge", 2).await;
            first.signal(&run_id("later"), "go", "1", &()).await.unwrap();
            called(&calls, "return_pledge", 3).await;
            if returns {
                stage.open();
                recorded(&place, "later", "step_compensated", "return_pledge", 1).await;
            }
            first.signal(&run_id("later"), "go", "2", &()).await.unwrap();
            recorded(&place, "later", "race_decided", "race", 1).await;
            first.shutdown().await.unwrap();
            stage.open();
            let second = engine(&place.store, &calls, &stage).await;
            second.signal(&run_id("later"), "more", "3", &7_u32).await.unwrap();
            let view = ended(&second, "later").await;
            assert_eq!(view.status, Status::Completed, "{:?}", view.result);
            let keys = calls.keys("return_pledge");
            assert!(keys[1..].iter().all(|key| *key == keys[1]), "returns: {returns}: {keys:?}");
            assert_eq!(keys.len(), if returns { 3 } else { 4 });
            second.verify(&run_id("later")).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_run_that_ends_shows_an_undoing_call_of_an_earlier_generation_that_is_in_doubt() {
    for place in stores() {
        let (place, calls, stage) = (place(), Calls::default(), Stage::new(1));
        let engine = engine(&place.store, &calls, &stage).await;
        start(&engine, "deposit", "wait", 1).await;
        called(&calls, "return_deposit", 2).await;
        go(&engine, &place, "wait", 1).await;
        engine.signal(&run_id("later"), "never", "2", &7_usize).await.unwrap();
        let view = ended(&engine, "later").await;
        let in_doubt: Vec<_> = view.in_doubt().iter().map(|step| step.command.name().to_owned()).collect();
        assert_eq!((view.status, in_doubt), (Status::Completed, vec!["return_deposit".into()]));
        let rows = place.store.entries(&run_id("later")).await.unwrap();
        assert_eq!(rows.iter().filter(|row| row.status == LedgerStatus::InDoubt).count(), 1);
        engine.verify(&run_id("later")).await.unwrap();
    }
}
