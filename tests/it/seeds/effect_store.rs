//! The effect store: rows 48, 49 and 51 of the seeds, and large values everywhere else.

use std::sync::Arc;
use std::time::Duration;

use aether::effect::{Outcome, Payload};
use aether::engine::{EngineBuilder, Limits, RunEnd};
use aether::error::{Fault, VerifyError};
use aether::prelude::*;
use aether::recording::Masking;
use aether::sqlite::SqliteStore;
use aether::store::MemoryStore;
use aether::store::StoredEffect;
use aether::store::event::Event;
use aether::store::journal::BlobRef;
use aether::store::journal::{Frame, StoredFrame};
use aether::store::ledger::LedgerStatus;
use aether::store::{Store, StoreError};
use aether::view::RunView;
use aether_testing::{CrashPoint, CrashStore, FailingStore, Sim};

use super::chain::seed_chain;
use super::kit::{
    Calls, Hand, Journal, Place, Rows, builder, failed, flushed, in_time, run_id, stores, stores_at,
};

/// A text of 100 KiB, over the default threshold of 64 KiB.
fn long(c: char) -> String {
    std::iter::repeat_n(c, 100 << 10).collect()
}

/// Look at something large.
#[step(effect = "read")]
async fn look_at_much(cx: &mut StepCx, c: char) -> Result<String> {
    Calls::note(cx)?;
    Ok(long(c))
}

/// Ask for a long answer to a long question.
#[step(effect = "llm")]
async fn think_much(cx: &mut StepCx, question: &str) -> Result<String> {
    Calls::note(cx)?;
    Ok(question.replace('a', "b"))
}

/// Make something large, with something large.
#[step(effect = "tool", changes = ["file"])]
async fn make_much(cx: &mut StepCx, of: String) -> Result<String> {
    Calls::note(cx)?;
    drop(cx.changed("file", "much", "write").version("v1"));
    Ok(of.replace('b', "c"))
}

/// Fail at length, once.
#[step(effect = "external", idempotent, retry(max_retries = 2, delay = "1ms"))]
async fn fail_at_length(cx: &mut StepCx) -> Result<String> {
    Calls::note(cx)?;
    match cx.attempt() {
        0 => Err(Failure::retryable(long('e'))),
        _ => Ok(long('f')),
    }
}

/// Large values of every class.
#[workflow]
async fn seed_much(cx: &mut Cx, start: String) -> Result<String> {
    let seen = look_at_much(cx, 'a').await?;
    let thought = think_much(cx, &seen).await?;
    let made = make_much(cx, thought).await?;
    let failed = fail_at_length(cx).await?;
    Ok(format!("{start}{}{}", &made[..2], &failed[..2]))
}

/// What a run of [`seed_much`] gives.
const RESULT: &str = "sccff";
const STEPS: [&str; 4] = ["look_at_much", "think_much", "make_much", "fail_at_length"];

/// An engine whose dead predecessor's lease runs out soon.
fn hasty(store: &Arc<dyn Store>, calls: &Calls, limits: Limits) -> EngineBuilder {
    builder(store, calls).lease(Duration::from_millis(100)).limits(limits).verifier("file", AsLeft)
}

/// Finds everything as it was left.
#[derive(Debug)]
struct AsLeft;

impl aether::resource::Verifier for AsLeft {
    fn name(&self) -> &str {
        "as left"
    }

    fn look<'a>(
        &'a self,
        _: &'a aether::id::RunId,
        _: &'a aether::store::event::StateChanged,
    ) -> aether::__private::BoxFuture<'a, Result<aether::resource::Inspection>> {
        Box::pin(std::future::ready(Ok(aether::resource::Inspection::Unchanged)))
    }
}

/// Everything goes to the effect store, or what is large.
fn thresholds() -> [Limits; 2] {
    [Limits::default(), Limits { inline: 0, ..Limits::default() }]
}

/// Runs [`seed_much`] on `place` until the process dies at `point`.
async fn die(place: &Place, calls: &Calls, limits: Limits, point: CrashPoint) {
    let store = Arc::new(CrashStore::new(place.store.clone(), Some(point)));
    let shared: Arc<dyn Store> = store.clone();
    let engine = hasty(&shared, calls, limits).start().await.unwrap();
    tokio::select! {
        run = engine.start::<seed_much>("s".into()).id("much") => {
            let _run = run.unwrap();
            in_time(store.crashed()).await;
        }
        () = store.crashed() => {}
    }
    flushed(&place.store).await;
}

async fn go_on(place: &Place, calls: &Calls, limits: Limits) -> (Engine, Result<String>) {
    let engine = hasty(&place.store, calls, limits).start().await.unwrap();
    let run = in_time(engine.start::<seed_much>("s".into()).id("much").into_future()).await.unwrap();
    let result = match in_time(run.result()).await {
        Ok(value) => Ok(value),
        error => Err(failed(error)),
    };
    (engine, result)
}

/// A run without a crash: its journal, and its writes to the store and to the effect store.
async fn whole(limits: Limits) -> (Journal, u64, u64) {
    let place = Place::memory();
    let store = Arc::new(CrashStore::new(place.store.clone(), None));
    let shared: Arc<dyn Store> = store.clone();
    let engine = hasty(&shared, &Calls::default(), limits).start().await.unwrap();
    let run = engine.start::<seed_much>("s".into()).id("much").await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), RESULT);
    engine.verify(run.id()).await.unwrap();
    (Journal::read(&place.store, "much").await, store.writes(), store.effects())
}

/// The facts, and not when an attempt was due again or how long it took.
fn facts(journal: &Journal) -> Vec<Event> {
    let mut facts = journal.facts();
    facts.retain(|event| !matches!(event, Event::StateConfirmed(_)));
    // A model whose answer was lost is asked again, and the lost question stays.
    facts.dedup_by(|a, b| a == b && a.kind() == "command_emitted");
    for event in &mut facts {
        if let Event::StepRetried(e) = event {
            (e.due, e.spent_ms) = (super::kit::past(), None);
        }
    }
    facts
}

#[tokio::test]
async fn s048_what_reached_the_effect_store_is_taken_over_without_a_call() {
    for limits in thresholds() {
        let (reference, _, effects) = whole(limits).await;
        assert!(effects >= 5, "{effects}");
        for write in 1..=effects {
            for place in stores_at(write as usize) {
                let (place, calls) = (place(), Calls::default());
                die(&place, &calls, limits, CrashPoint::AfterEffect(write)).await;
                let (engine, result) = go_on(&place, &calls, limits).await;
                assert_eq!(result.unwrap(), RESULT, "after effect {write}");
                let counts = STEPS.map(|step| calls.of(step));
                assert_eq!(
                    counts,
                    [1, 1, 1, 2],
                    "no call but those of the first process: after effect {write}"
                );
                let journal = Journal::read(&place.store, "much").await;
                assert_eq!(facts(&journal), facts(&reference), "after effect {write}");
                engine.verify(&run_id("much")).await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn s048_before_the_effect_store_the_policy_decides() {
    let limits = Limits::default();
    let (_, _, effects) = whole(limits).await;
    for place in stores() {
        let mut in_doubt = 0;
        for write in 1..=effects {
            let (place, calls) = (place(), Calls::default());
            die(&place, &calls, limits, CrashPoint::BeforeEffect(write)).await;
            let (_engine, result) = go_on(&place, &calls, limits).await;
            match result {
                Ok(value) => assert_eq!(value, RESULT),
                Err(failure) => {
                    assert!(failure.to_string().contains("not known whether"), "{failure}");
                    in_doubt += 1;
                }
            }
            assert!(calls.of("make_much") <= 1 && calls.of("fail_at_length") <= 2, "never a blind call");
        }
        // The outcome of `make_much`, and of each attempt of `fail_at_length`.
        assert_eq!(in_doubt, 3);
    }
}

#[tokio::test]
async fn s049_the_ledger_and_the_effect_store_hold_together_at_every_write() {
    for limits in thresholds() {
        let (reference, writes, _) = whole(limits).await;
        for write in 1..=writes {
            for place in stores_at(write as usize) {
                let (place, calls) = (place(), Calls::default());
                die(&place, &calls, limits, CrashPoint::After(write)).await;
                let (engine, result) = go_on(&place, &calls, limits).await;
                let Ok(value) = result else {
                    // The intent was durable and the body was not called any more.
                    continue;
                };
                assert_eq!(value, RESULT, "after write {write}");
                let journal = Journal::read(&place.store, "much").await;
                assert_eq!(facts(&journal), facts(&reference), "after write {write}");
                assert_eq!(calls.of("make_much"), 1);
                let rows = engine.ledger(&run_id("much")).await.unwrap();
                let made = rows.iter().find(|row| row.tool == "make_much").unwrap();
                assert!(
                    made.committed
                        && matches!(made.status, LedgerStatus::Succeeded | LedgerStatus::Confirmed)
                );
                assert_eq!(made.result, Some(Payload::encode(&long('c')).unwrap()));
            }
        }
    }
}

#[tokio::test]
async fn s049_a_simulation_dies_at_every_write_of_both() {
    let sim = || {
        Sim::new::<seed_much>()
            .stub::<look_at_much>(|c| Ok(long(c)))
            .stub::<think_much>(|question| Ok(question.replace('a', "b")))
            .stub::<make_much>(|of| Ok(of.replace('b', "c")))
            .fail_times::<fail_at_length>(1, Failure::retryable(long('e')))
            .stub::<fail_at_length>(|()| Ok(long('f')))
    };
    for limits in thresholds() {
        let report = sim().limits(limits).crash_at_every_append("s".to_owned()).await;
        assert!(report.effects >= 5, "{report:?}");
        assert!(report.same.contains(&CrashPoint::AfterEffect(report.effects)), "{report:?}");
    }
}

#[tokio::test]
async fn s051_the_effect_store_alone_does_not_complete_a_step() {
    let (limits, calls) = (Limits::default(), Calls::default());
    for place in stores() {
        let place = place();
        // The third outcome; the large inputs of the second and third step are writes of their own.
        die(&place, &calls, limits, CrashPoint::AfterEffect(5)).await;
        let stored = place.store.effects(&run_id("much")).await.unwrap();
        assert!(stored.last().unwrap().key.as_str().contains("make_much"), "{stored:?}");
        assert_eq!(stored.last().unwrap().status, Some(LedgerStatus::Succeeded));
        let view = RunView::load(&*place.store, &run_id("much")).await.unwrap();
        let step = view.steps.iter().find(|step| step.command.name() == "make_much").unwrap();
        assert_eq!((step.outcome, step.finished, &step.result), (None, false, &None));
        assert!(!view.completed().contains(&step.command));
        assert!(step.in_doubt, "for all that the journal tells");
    }
}

/// The same large value, three times.
#[workflow]
async fn seed_same(cx: &mut Cx) -> Result<usize> {
    let (a, b) = (look_at_much(cx, 'a').await?, look_at_much(cx, 'a').await?);
    let c = make_much(cx, a.clone()).await?;
    Ok(a.len() + b.len() + c.len())
}

#[tokio::test]
async fn equal_values_are_kept_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).unwrap());
    let engine = builder(&store, &Calls::default()).start().await.unwrap();
    let run = engine.start::<seed_same>(()).id("same").await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), 3 * (100 << 10));
    let count = |sql: &str| -> i64 {
        rusqlite::Connection::open(&path).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
    };
    // The arguments of `make_much` are an object around the value; its result is the value.
    assert_eq!(count("SELECT count(*) FROM aether_blobs"), 2);
    assert_eq!(count("SELECT count(*) FROM aether_effects"), 3);
    assert!(count("SELECT max(length(events)) FROM aether_journal") < 2_000, "the journal is small");
    assert_eq!(count("SELECT count(*) FROM aether_ledger WHERE result IS NOT NULL"), 0);
}

/// Copies the frames of a run up to its end, and not what they refer to.
async fn copy_frames(from: &Arc<dyn Store>, run: &str, to: &Arc<dyn Store>) {
    let frames = from.load(&run_id(run), 0).await.unwrap();
    let mut hand = Hand::create(to, run, &frames[0].events().unwrap()[0]).await;
    for frame in &frames[1..frames.len() - 1] {
        let count = u32::try_from(frame.events().unwrap().len()).unwrap();
        hand.append_frame(Frame { count, text: frame.text.clone() }, None, Vec::new()).await;
    }
    hand.let_go().await;
}

fn corrupt(error: &StoreError, hash: &str, what: &str) {
    let StoreError::Corrupt { reason, .. } = error else { panic!("{error}") };
    for part in ["`same`", "look_at_much", hash, what] {
        assert!(reason.contains(part), "{part} is not in: {reason}");
    }
}

#[tokio::test]
async fn a_missing_or_altered_value_is_an_error_and_nothing_is_lost() {
    let calls = Calls::default();
    let source = Place::memory();
    let engine = builder(&source.store, &calls).start().await.unwrap();
    in_time(engine.start::<seed_same>(()).id("same").await.unwrap().result()).await.unwrap();
    let value = Payload::encode(&long('a')).unwrap();
    let at = BlobRef::of(&value);
    for place in stores() {
        for altered in [None, Some(long('x'))] {
            let (place, calls) = (place(), Calls::default());
            copy_frames(&source.store, "same", &place.store).await;
            let what = if altered.is_some() { "altered" } else { "missing" };
            if let Some(altered) = &altered {
                place
                    .store
                    .put_blob(&run_id("same"), &at.sha256, altered.clone().into_bytes())
                    .await
                    .unwrap();
            }
            let before = place.store.load(&run_id("same"), 0).await.unwrap();
            corrupt(&RunView::load(&*place.store, &run_id("same")).await.unwrap_err(), &at.sha256, what);
            let engine = builder(&place.store, &calls).start().await.unwrap();
            match engine.verify(&run_id("same")).await {
                Err(VerifyError::Fault(Fault::Store(error))) => corrupt(&error, &at.sha256, what),
                other => panic!("{other:?}"),
            }
            match in_time(engine.handle::<seed_same>("same").await.unwrap().end()).await.unwrap() {
                RunEnd::Stopped(Fault::Store(error)) => corrupt(&error, &at.sha256, what),
                other => panic!("{other:?}"),
            }
            assert_eq!(place.store.load(&run_id("same"), 0).await.unwrap(), before, "nothing was written");
            engine.shutdown().await.unwrap();
            assert_eq!(calls.all(), 0);
        }
    }
}

#[tokio::test]
async fn a_restored_value_lets_the_run_go_on() {
    let calls = Calls::default();
    let source = Place::memory();
    let engine = builder(&source.store, &calls).start().await.unwrap();
    in_time(engine.start::<seed_same>(()).id("same").await.unwrap().result()).await.unwrap();
    let (place, calls) = (Place::memory(), Calls::default());
    copy_frames(&source.store, "same", &place.store).await;
    let values = [long('a'), long('c')].map(|text| Payload::encode(&text).unwrap());
    let args = Payload::encode(&serde_json::json!({ "of": long('a') })).unwrap();
    for value in values.into_iter().chain([args]) {
        place
            .store
            .put_blob(&run_id("same"), &BlobRef::of(&value).sha256, value.as_str().into())
            .await
            .unwrap();
    }
    let engine = builder(&place.store, &calls).verifier("file", AsLeft).start().await.unwrap();
    let run = engine.handle::<seed_same>("same").await.unwrap();
    assert_eq!((in_time(run.result()).await.unwrap(), calls.all()), (3 * (100 << 10), 0));
}

/// Give back what was given.
#[step(effect = "tool")]
async fn echo(cx: &mut StepCx, value: Payload) -> Result<Payload> {
    Calls::note(cx)?;
    Ok(value)
}

/// A value that looks like a reference.
#[workflow]
async fn seed_lookalike(cx: &mut Cx, value: Payload) -> Result<Payload> {
    let echoed = echo(cx, value).await?;
    cx.signal::<u32>("go").await?;
    Ok(echoed)
}

#[tokio::test]
async fn a_value_that_looks_like_a_reference_is_a_value() {
    let hash = "ab".repeat(32);
    let text = format!(r#"{{"stored":{{"result":{{"sha256":"{hash}","bytes":3}}}},"result":null}}"#);
    let value = Payload::from_text(text).unwrap();
    for place in stores() {
        for limits in thresholds() {
            let (place, calls) = (place(), Calls::default());
            let engine = hasty(&place.store, &calls, limits).start().await.unwrap();
            engine.start::<seed_lookalike>(value.clone()).id("alike").await.unwrap();
            in_time(async {
                while !Journal::read(&place.store, "alike").await.kinds().contains(&"wait_started".into()) {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            })
            .await;
            engine.shutdown().await.unwrap();
            let engine = hasty(&place.store, &calls, limits).start().await.unwrap();
            engine.signal(&run_id("alike"), "go", "1", &1).await.unwrap();
            let run = engine.handle::<seed_lookalike>("alike").await.unwrap();
            assert_eq!((in_time(run.result()).await.unwrap(), calls.all()), (value.clone(), 1));
        }
    }
}

#[tokio::test]
async fn everything_works_with_all_values_in_the_effect_store() {
    let limits = Limits { inline: 0, ..Limits::default() };
    let expected = Journal::record::<seed_chain>("chain", 7).await;
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = hasty(&place.store, &calls, limits).start().await.unwrap();
        let run = engine.start::<seed_chain>(7).id("chain").await.unwrap();
        in_time(run.result()).await.unwrap();
        let journal = Journal::read(&place.store, "chain").await;
        assert_eq!(journal.facts(), expected.facts(), "read whole, the journal is the same");
        let raw = place.store.load(run.id(), 0).await.unwrap();
        let text = |frame: &StoredFrame| frame.decoded.clone().unwrap_or_else(|| frame.text.clone());
        assert!(raw.iter().any(|frame| text(frame).contains("\"stored\":{")));
        engine.verify(run.id()).await.unwrap();
        let view = engine.view(run.id()).await.unwrap();
        let plain = RunView::fold(run_id("chain"), expected.events.clone());
        let told = |view: &RunView| -> Vec<_> {
            view.effects.iter().map(|e| (e.command.clone(), e.input.clone(), e.output.clone())).collect()
        };
        assert_eq!(told(&view), told(&plain));
        let again = engine.start::<seed_chain>(7).id("chain").await.unwrap();
        assert_eq!(in_time(again.result()).await.unwrap(), in_time(run.result()).await.unwrap());
        // A recording holds the values themselves, so that it reads alone.
        let recording = engine.export_with(run.id(), &Masking::off()).await.unwrap();
        let other: Arc<dyn Store> = Arc::new(MemoryStore::new());
        recording.import(&*other).await.unwrap();
        let elsewhere = builder(&other, &calls).start().await.unwrap();
        elsewhere.verify(run.id()).await.unwrap();
        assert_eq!(Journal::read(&other, "chain").await.facts(), expected.facts());
    }
}

#[tokio::test]
async fn an_effect_store_that_fails_stops_the_run_and_loses_nothing() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let broken = StoreError::Corrupt { store: "disk".into(), reason: "it is broken".into() };
        let failing: Arc<dyn Store> =
            Arc::new(FailingStore::new(place.store.clone()).effect_fails(1, broken.clone()));
        let engine = hasty(&failing, &calls, Limits::default()).start().await.unwrap();
        let run = engine.start::<seed_much>("s".into()).id("much").await.unwrap();
        match in_time(run.end()).await.unwrap() {
            RunEnd::Stopped(Fault::Store(error)) => assert_eq!(error, broken),
            other => panic!("{other:?}"),
        }
        engine.shutdown().await.unwrap();
        let (engine, _) = (hasty(&place.store, &calls, Limits::default()).start().await.unwrap(), ());
        let run = engine.handle::<seed_much>("much").await.unwrap();
        run.advance().await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), RESULT);
        assert_eq!(STEPS.map(|step| calls.of(step)), [2, 1, 1, 2], "only the read was made again");
    }
}

#[tokio::test]
async fn a_record_of_other_arguments_is_not_taken_over() {
    let (reference, ..) = whole(Limits::default()).await;
    let (place, calls) = (Place::memory(), Calls::default());
    let created = reference.first(1);
    created.plant(&place.store, Rows::Follow).await;
    // What another version of the code may have left: a look at something else.
    let other = Journal::record::<seed_other>("much", ()).await;
    let outcome = other.of("look_at_much");
    let frame = Frame::encode(&outcome).unwrap();
    let key = aether::id::IdempotencyKey::new(&run_id("much"), outcome[0].command().unwrap(), 0);
    let effect = StoredEffect { run: run_id("much"), key, frame, status: None };
    let epoch = place.store.run(&run_id("much")).await.unwrap().unwrap().epoch;
    place.store.put_effect(effect, epoch, Vec::new()).await.unwrap();
    let (_engine, result) = go_on(&place, &calls, Limits::default()).await;
    assert_eq!((result.unwrap().as_str(), calls.of("look_at_much")), (RESULT, 1));
    let journal = Journal::read(&place.store, "much").await;
    let Some(Event::CommandCommitted(e)) =
        journal.of("look_at_much").into_iter().find(|e| e.kind() == "command_committed")
    else {
        panic!("{:?}", journal.kinds())
    };
    assert_eq!((e.outcome, e.caught_up), (Outcome::Success, false));
}

/// Look at something else.
#[workflow]
async fn seed_other(cx: &mut Cx) -> Result<usize> {
    Ok(look_at_much(cx, 'z').await?.len())
}
