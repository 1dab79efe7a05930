//! Keys that are unique in the whole store: whoever dies, loses a race or fails, no two bodies run under one, and none
//! stays taken without a call.

use std::sync::Arc;
use std::time::Duration;

use aether::StepError;
use aether::error::{KeyHolder, StartError};
use aether::prelude::*;
use aether::store::Store;
use aether_testing::Sim;
use aether_testing::crash::{CrashPoint, CrashStore};
use futures::future::join_all;

use crate::seeds::kit::{Calls, Place, builder, in_time, run_id, stores};

/// Bill an order; nobody must do it twice.
#[step(effect = "tool", irreversible, scope = "store", key = |order| order, retry(max_retries = 2, delay = "1ms"))]
async fn bill(cx: &mut StepCx, order: String, how: String) -> Result<String> {
    Calls::note(cx)?;
    match how.as_str() {
        "fails" => Err(Failure::permanent("no money")),
        _ => Ok(format!("billed {order}")),
    }
}

/// Bill, and say what became of it.
#[workflow]
async fn billing(cx: &mut Cx, hows: Vec<String>) -> Result<Vec<String>> {
    let mut said = Vec::new();
    for how in hows {
        said.push(match bill(cx, "order 7".to_owned(), how).await {
            Ok(billed) => billed,
            Err(StepError::Taken(KeyHolder { run, in_doubt, .. })) => format!("taken by {run} {in_doubt}"),
            Err(StepError::InDoubt(_)) => "in doubt".to_owned(),
            Err(other) => other.to_string(),
        });
    }
    Ok(said)
}

async fn billed(engine: &Engine, run: &str, how: &str) -> String {
    let run = engine.start::<billing>(vec![how.to_owned()]).id(run).await.unwrap();
    in_time(run.result()).await.unwrap().remove(0)
}

/// Starts run `one` on a process that dies at `point`.
async fn dies(place: &Place, calls: &Calls, lease: Duration, point: CrashPoint) {
    let crashing = Arc::new(CrashStore::new(place.store.clone(), Some(point)));
    let store: Arc<dyn Store> = crashing.clone();
    let engine = builder(&store, calls).lease(lease).start().await.unwrap();
    let starting = tokio::spawn(async move {
        let _never_answered = engine.start::<billing>(vec!["pays".to_owned()]).id("one").await;
        std::future::pending::<()>().await;
    });
    in_time(crashing.crashed()).await;
    starting.abort();
}

/// Around the reservation, the intent and the outcome of the first call of a run.
const POINTS: [CrashPoint; 6] = [
    CrashPoint::BeforeReserve(1),
    CrashPoint::AfterReserve(1),
    CrashPoint::Before(2),
    CrashPoint::After(2),
    CrashPoint::Before(3),
    CrashPoint::After(3),
];

#[tokio::test]
async fn a_run_that_died_keeps_its_key_only_where_it_may_have_used_it() {
    let expected = ["billed order 7", "taken by one true", "taken by one true", "taken by one true"];
    let expected = expected.into_iter().chain(["taken by one true", "taken by one false"]);
    for (point, expected) in POINTS.into_iter().zip(expected) {
        let (place, calls) = (Place::memory(), Calls::default());
        // Nobody takes the run over: its worker may only be slow.
        dies(&place, &calls, Duration::from_secs(3_600), point).await;
        let engine = builder(&place.store, &calls).start().await.unwrap();
        assert_eq!(billed(&engine, "two", "pays").await, expected, "{point}");
        assert!(calls.of("bill") <= 1, "{point}: {:?}", calls.keys("bill"));
    }
}

#[tokio::test]
async fn a_run_that_is_taken_over_and_one_that_asks_make_one_call() {
    for point in POINTS {
        let (place, calls) = (Place::memory(), Calls::default());
        dies(&place, &calls, Duration::from_millis(50), point).await;
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let two = billed(&engine, "two", "pays").await;
        let one = engine.handle::<billing>("one").await.unwrap();
        let one = in_time(one.result()).await.unwrap().remove(0);
        let bodies = calls.of("bill");
        let paid = [&one, &two].into_iter().filter(|said| *said == "billed order 7").count();
        assert!(bodies <= 1 && (paid == 1) != (one == "in doubt"), "{point}: {one}, {two}, {bodies} bodies");
        assert!(paid == bodies || one == "in doubt", "{point}: {one}, {two}, {bodies} bodies");
        engine.verify(&run_id("one")).await.unwrap();
        engine.verify(&run_id("two")).await.unwrap();
    }
}

#[tokio::test]
async fn a_run_that_ends_without_the_call_gives_the_key_to_the_next() {
    let (place, calls) = (Place::memory(), Calls::default());
    dies(&place, &calls, Duration::from_millis(50), CrashPoint::AfterReserve(1)).await;
    let engine = builder(&place.store, &calls).start().await.unwrap();
    engine.terminate(&run_id("one"), "it is not wanted", "ann").await.unwrap();
    let one = engine.handle::<billing>("one").await.unwrap();
    let _ended = in_time(one.end()).await.unwrap();
    let before = calls.of("bill");
    let said = billed(&engine, "two", "pays").await;
    let expected = if before == 0 { "billed order 7" } else { "taken by one true" };
    assert!(said == expected || (before == 1 && said == "taken by one false"), "{said}");
    assert_eq!(calls.of("bill"), 1);
}

#[tokio::test]
async fn a_run_uses_a_key_again_after_its_own_call_has_failed() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let hows = ["fails", "fails", "pays", "pays"].map(str::to_owned).to_vec();
        let run = engine.start::<billing>(hows).id("one").await.unwrap();
        let said = in_time(run.result()).await.unwrap();
        assert_eq!(said, ["no money", "no money", "billed order 7", "taken by one false"]);
        engine.verify(run.id()).await.unwrap();
    }
}

#[tokio::test]
async fn of_many_runs_on_two_workers_one_makes_the_call() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engines = [
            builder(&place.store, &calls).start().await.unwrap(),
            builder(&place.again(), &calls).start().await.unwrap(),
        ];
        let asked = (0..24).map(|n| {
            let (engine, run) = (&engines[n % 2], format!("run{n}"));
            async move { billed(engine, &run, "pays").await }
        });
        let said = join_all(asked).await;
        let holder = said.iter().position(|said| said == "billed order 7").unwrap();
        for (n, said) in said.iter().enumerate().filter(|(n, _)| *n != holder) {
            assert!(said.starts_with(&format!("taken by run{holder} ")), "run{n}: {said}");
        }
        assert_eq!(calls.of("bill"), 1);
    }
}

/// A call that fails at first.
#[workflow]
async fn billing_again(cx: &mut Cx) -> Result<String> {
    Ok(bill(cx, "order 8".into(), "pays".into()).await?)
}

#[tokio::test]
async fn a_crash_around_a_reservation_changes_no_outcome() {
    let sim = Sim::new::<billing_again>()
        .fail_times::<bill>(2, Failure::retryable("busy"))
        .stub::<bill>(|(order, _)| Ok(format!("billed {order}")));
    let report = sim.crash_at_every_boundary(()).await;
    for number in 1..=3 {
        for point in [CrashPoint::BeforeReserve(number), CrashPoint::AfterReserve(number)] {
            assert!(report.same.contains(&point), "{point}: {report:?}");
        }
    }
}

#[tokio::test]
async fn a_run_keeps_the_trace_context_that_it_was_started_in() {
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let start = || engine.start::<billing>(vec!["pays".to_owned()]);
        let run = start().id("one").traceparent(trace).await.unwrap();
        in_time(run.result()).await.unwrap();
        let record = place.store.run(run.id()).await.unwrap().unwrap();
        assert_eq!(record.traceparent.as_deref(), Some(trace));
        let refused = start().id("two").traceparent("00-1-2-3").await.unwrap_err();
        assert!(matches!(refused, StartError::Traceparent { .. }), "{refused}");
        assert!(refused.to_string().contains("`traceparent`"), "{refused}");
        assert_eq!(place.store.run(&run_id("two")).await, Ok(None));
    }
}
