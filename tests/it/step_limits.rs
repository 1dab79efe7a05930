//! Limits on steps: shared by all runs and processes of a store, waited for durably, lowered by a provider.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aether::engine::Hold;
use aether::llm::{ChatRequest, ChatResponse, ModelClient, ModelError, Models, Usage};
use aether::people::Waiting;
use aether::prelude::*;
use aether::store::event::Event;
use aether::store::memory::MemoryStore;
use aether::store::{StepLimit, Store};
use aether::view::Status;
use aether_testing::SimEnvironment;
use aether_testing::crash::{CrashPoint, CrashStore};
use futures_util::future::BoxFuture;
use tokio::time::Instant;

use crate::seeds::kit::{Calls, Journal, Place, builder, in_time, run_id, stores, stores_at, until_waiting};

/// When it was asked, over all engines that share it; refuses the first so many questions.
#[derive(Clone, Debug, Default)]
struct Asked {
    at: Arc<Mutex<Vec<Instant>>>,
    refuses: Arc<Mutex<u32>>,
}

impl Asked {
    fn times(&self) -> Vec<Instant> {
        self.at.lock().unwrap().clone()
    }
}

const RETRY_AFTER: Duration = Duration::from_millis(600);

impl ModelClient for Asked {
    fn chat(&self, _: ChatRequest) -> BoxFuture<'_, Result<ChatResponse, ModelError>> {
        self.at.lock().unwrap().push(Instant::now());
        let mut refuses = self.refuses.lock().unwrap();
        let answer = if *refuses > 0 {
            *refuses -= 1;
            Err(ModelError::RateLimited { retry_after: Some(RETRY_AFTER), message: "slow down".into() })
        } else {
            let (content, usage) = (Some("yes".into()), Usage::of(5, 5));
            Ok(ChatResponse { model: "m".into(), content, usage, ..ChatResponse::default() })
        };
        Box::pin(std::future::ready(answer))
    }
}

/// Ask so often.
#[workflow]
async fn questions(cx: &mut Cx, times: u32) -> Result<u32> {
    for _ in 0..times {
        cx.llm("ask").limit("provider").max_tokens(10).user("Yes?").text().await?;
    }
    Ok(times)
}

/// Transfer money.
#[step(effect = "tool", limit = "bank", idempotent, on_unknown = "retry")]
async fn transfer(cx: &mut StepCx, cents: u32) -> Result<u32> {
    Calls::note(cx)?;
    Ok(cents)
}

/// Two transfers at once.
#[workflow]
async fn transfers(cx: &mut Cx) -> Result<u32> {
    let (one, other) =
        cx.join((async |cx: &mut Cx| transfer(cx, 1).await, async |cx: &mut Cx| transfer(cx, 2).await)).await;
    Ok(one? + other?)
}

async fn engine(store: &Arc<dyn Store>, asked: &Asked) -> Engine {
    let builder = builder(store, &Calls::default()).provide(Models::new(asked.clone()));
    builder.eviction_grace(Duration::from_millis(10)).start().await.unwrap()
}

fn per_second(name: &str, n: u64) -> StepLimit {
    StepLimit::new(name).unwrap().calls(n, Duration::from_secs(1)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_second_holds_more_calls_than_the_limit_whatever_the_number_of_runs_and_processes() {
    for place in stores() {
        let (place, asked) = (place(), Asked::default());
        let engines = [engine(&place.store, &asked).await, engine(&place.again(), &asked).await];
        engines[0].step_limits().set(per_second("provider", 20)).await.unwrap();
        let (began, mut runs) = (Instant::now(), Vec::new());
        for number in 0..10 {
            let of = &engines[number % 2];
            runs.push(of.start::<questions>(4).id(format!("run-{number}")).await.unwrap());
        }
        for run in &runs {
            assert_eq!(in_time(run.result()).await.unwrap(), 4);
        }
        let mut times = asked.times();
        times.sort();
        assert_eq!(times.len(), 40);
        // Two at once, then one for each nineteenth of a second. A call may be made later than that, but never earlier.
        for (before, time) in times.iter().enumerate() {
            let earliest = Duration::from_secs(1) * u32::try_from(before.saturating_sub(1)).unwrap() / 19;
            let passed = *time - began;
            assert!(passed + Duration::from_millis(2) >= earliest, "call {before} after {passed:?}");
        }
        // A replay asks nobody, and books nothing.
        let before = engines[0].step_limits().list().await.unwrap()[0].wait_ms;
        engines[0].verify(runs[0].id()).await.unwrap();
        let after = engines[0].step_limits().list().await.unwrap()[0].wait_ms;
        assert!(after <= before && asked.times().len() == 40, "{before} {after}");
    }
}

#[tokio::test]
async fn a_wait_for_a_limit_is_durable_says_why_and_ends_with_its_run() {
    for place in stores() {
        let (place, asked) = (place(), Asked::default());
        let engine = engine(&place.store, &asked).await;
        let limit = StepLimit::new("provider").unwrap().calls(1, Duration::from_secs(3_600)).unwrap();
        engine.step_limits().set(limit).await.unwrap();
        in_time(engine.start::<questions>(1).id("first").await.unwrap().result()).await.unwrap();
        let run = engine.start::<questions>(1).id("second").await.unwrap();
        in_time(until_waiting(&run)).await;
        let Hold::Waiting { on } = engine.why(run.id()).await.unwrap() else {
            panic!("it waits for a limit")
        };
        assert_eq!((on[0].waiting, &*on[0].name), (Waiting::Limit, "provider"));
        let until = on[0].until.unwrap();
        engine.shutdown().await.unwrap();

        // Another process goes on with the same wait, and takes no second place.
        let engine = self::engine(&place.again(), &asked).await;
        let run = engine.start::<questions>(1).id("second").await.unwrap();
        in_time(until_waiting(&run)).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        let Hold::Waiting { on } = engine.why(run.id()).await.unwrap() else {
            panic!("it waits for a limit")
        };
        assert_eq!(on[0].until, Some(until));
        let journal = Journal::read(&place.again(), "second").await;
        assert_eq!(journal.count("limit_awaited", "llm.ask"), 1);
        let wait = engine.step_limits().list().await.unwrap()[0].wait_ms;
        assert!((3_600_000..2 * 3_600_000).contains(&wait), "the third one: {wait}");
        engine.cancel(run.id(), "enough", "ann").await.unwrap();
        in_time(run.end()).await.unwrap();
        assert_eq!((run.status().await.unwrap(), asked.times().len()), (Status::Cancelled, 1));
    }
}

#[tokio::test]
async fn a_provider_that_asks_to_wait_is_heard_by_every_process() {
    for place in stores() {
        let (place, asked) = (place(), Asked::default());
        *asked.refuses.lock().unwrap() = 1;
        // Two processes, each with clients of its own.
        let (one, other) = (engine(&place.store, &asked).await, engine(&place.again(), &asked).await);
        one.step_limits().set(per_second("provider", 500)).await.unwrap();
        let first = one.start::<questions>(1).id("first").await.unwrap();
        let used = in_time(async {
            loop {
                let used = one.step_limits().list().await.unwrap().remove(0);
                if used.held_ms > 0 {
                    return used;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
        assert_eq!(used.percent, 75);
        let second = other.start::<questions>(1).id("second").await.unwrap();
        in_time(first.result()).await.unwrap();
        in_time(second.result()).await.unwrap();
        let times = asked.times();
        assert_eq!(times.len(), 3, "a refusal and two answers");
        assert!(times[1] - times[0] >= RETRY_AFTER - Duration::from_millis(20), "{:?}", times[1] - times[0]);
        assert_eq!(Journal::read(&place.store, "second").await.count("limit_awaited", "llm.ask"), 1);
    }
}

#[tokio::test]
async fn limits_are_changed_while_runs_wait_and_without_one_nothing_waits() {
    let (place, asked) = (Place::memory(), Asked::default());
    let engine = engine(&place.store, &asked).await;
    in_time(engine.start::<questions>(3).await.unwrap().result()).await.unwrap();
    assert_eq!(engine.step_limits().list().await.unwrap(), []);
    let tokens = StepLimit::new("provider").unwrap().tokens(100, Duration::from_secs(3_600)).unwrap();
    engine.step_limits().set(tokens).await.unwrap();
    // Its estimate is more than a tenth of the limit, but nothing was booked before.
    in_time(engine.start::<questions>(1).await.unwrap().result()).await.unwrap();
    // The answer took a tenth of the limit, and not the 28 tokens that were booked for it: one more waits for one.
    let waits = engine.step_limits().list().await.unwrap()[0].wait_ms;
    assert!(waits < 60_000, "{waits}");
    engine.step_limits().set(per_second("provider", 1_000)).await.unwrap();
    in_time(engine.start::<questions>(3).await.unwrap().result()).await.unwrap();
    assert!(engine.step_limits().remove("provider").await.unwrap());
    assert!(!engine.step_limits().remove("provider").await.unwrap());
    assert_eq!(asked.times().len(), 7);
}

#[tokio::test]
async fn a_process_that_dies_at_any_write_makes_no_call_before_its_time() {
    let limit = || StepLimit::new("bank").unwrap().calls(10, Duration::from_secs(1)).unwrap();
    let whole = Place::memory();
    let counted = Arc::new(CrashStore::new(whole.store.clone(), None));
    let store: Arc<dyn Store> = counted.clone();
    let engine = builder(&store, &Calls::default()).start().await.unwrap();
    engine.step_limits().set(limit()).await.unwrap();
    let run = engine.start::<transfers>(()).id("transfers").await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), 3);
    let writes = counted.writes();
    for write in 1..=writes {
        for place in stores_at(usize::try_from(write).unwrap()) {
            let (place, calls) = (place(), Calls::default());
            let point = CrashPoint::After(write);
            let crashing = Arc::new(CrashStore::new(place.store.clone(), Some(point)));
            let store: Arc<dyn Store> = crashing.clone();
            let dying = builder(&store, &calls).lease(Duration::from_millis(100)).start().await.unwrap();
            let starting = tokio::spawn(async move {
                let _never_answered = dying.step_limits().set(limit()).await;
                let _never_answered = dying.start::<transfers>(()).id("transfers").await;
                std::future::pending::<()>().await;
            });
            in_time(crashing.crashed()).await;
            starting.abort();
            let engine = builder(&place.store, &calls).start().await.unwrap();
            engine.step_limits().set(limit()).await.unwrap();
            let run = engine.start::<transfers>(()).id("transfers").await.unwrap();
            assert_eq!(in_time(run.result()).await.unwrap(), 3, "{point}");
            engine.verify(&run_id("transfers")).await.unwrap();
            let events = Journal::read(&place.store, "transfers").await.events;
            let waits = events.iter().filter(|event| matches!(event, Event::LimitAwaited(_))).count();
            assert!(waits <= 2, "{point}: {events:?}");
        }
    }
}

/// The limit's places were given while a process ran; it runs again when all of them are long past.
#[tokio::test(start_paused = true)]
async fn those_who_come_long_after_their_places_do_not_begin_together() {
    let (store, asked) = (MemoryStore::new(), Asked::default());
    let world = SimEnvironment::new("2026-01-02T03:04:05Z".parse().unwrap(), 7);
    let start = async || {
        let builder = Engine::builder().environment(Arc::new(world.clone())).store(Arc::new(store.clone()));
        builder.provide(Models::new(asked.clone())).start().await.unwrap()
    };
    let engine = start().await;
    let limit = StepLimit::new("provider").unwrap().calls(10, Duration::from_secs(60)).unwrap();
    engine.step_limits().set(limit).await.unwrap();
    for number in 0..20 {
        let run = engine.start::<questions>(1).id(format!("run-{number}")).await.unwrap();
        if number > 0 {
            until_waiting(&run).await;
        }
    }
    engine.shutdown().await.unwrap();
    let before = asked.times().len();
    assert!(before < 10, "{before} began before");
    tokio::time::sleep(Duration::from_secs(3_600)).await;

    let engine = start().await;
    for number in 0..20 {
        let run = engine.handle::<questions>(&format!("run-{number}")).await.unwrap();
        assert_eq!(run.result().await.unwrap(), 1);
    }
    let times = asked.times();
    assert_eq!(times.len(), 20);
    for pair in times[before..].windows(2) {
        assert!(pair[1] - pair[0] >= Duration::from_millis(5_990), "{:?}", pair[1] - pair[0]);
    }
}

/// When a wire was sent, over all engines that share it.
#[derive(Clone, Debug, Default)]
struct Wires {
    at: Arc<Mutex<Vec<Instant>>>,
    hang: Arc<AtomicBool>,
}

impl Wires {
    fn note(&self) {
        self.at.lock().unwrap().push(Instant::now());
    }
}

/// Send a wire, which may never be confirmed.
#[step(effect = "tool", limit = "wires", idempotent, on_unknown = "retry", timeout = "none")]
async fn send_wire(cx: &mut StepCx, number: u32) -> Result<u32> {
    let wires = cx.dep::<Wires>()?;
    wires.note();
    if wires.hang.load(Ordering::SeqCst) {
        std::future::pending::<()>().await;
    }
    Ok(number)
}

#[workflow]
async fn wiring(cx: &mut Cx, number: u32) -> Result<u32> {
    Ok(send_wire(cx, number).await?)
}

/// All are in flight when their process dies, and again when the next one does.
#[tokio::test(start_paused = true)]
async fn calls_that_are_made_again_after_a_kill_do_not_begin_together() {
    const RUNS: u32 = 5;
    let (store, wires) = (MemoryStore::new(), Wires::default());
    wires.hang.store(true, Ordering::SeqCst);
    let world = SimEnvironment::new("2026-01-02T03:04:05Z".parse().unwrap(), 7);
    let start = async || {
        let builder = Engine::builder().environment(Arc::new(world.clone())).store(Arc::new(store.clone()));
        builder.provide(wires.clone()).start().await.unwrap()
    };
    let engine = start().await;
    let limit = StepLimit::new("wires").unwrap().calls(10, Duration::from_secs(60)).unwrap();
    engine.step_limits().set(limit).await.unwrap();
    for number in 0..RUNS {
        engine.start::<wiring>(number).id(format!("wire-{number}")).await.unwrap();
    }
    let in_flight = async |count: usize| {
        while wires.at.lock().unwrap().len() < count {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    in_flight(5).await;
    engine.shutdown_within(Duration::ZERO).await.unwrap();
    let engine = start().await;
    in_flight(10).await;
    engine.shutdown_within(Duration::ZERO).await.unwrap();
    wires.hang.store(false, Ordering::SeqCst);
    let engine = start().await;
    for number in 0..RUNS {
        let run = engine.handle::<wiring>(&format!("wire-{number}")).await.unwrap();
        assert_eq!(run.result().await.unwrap(), number);
    }
    let times = wires.at.lock().unwrap().clone();
    assert_eq!(times.len(), 15);
    for pair in times.windows(2) {
        assert!(pair[1] - pair[0] >= Duration::from_millis(5_990), "{times:?}");
    }
    engine.shutdown().await.unwrap();
}

/// Post an entry.
#[step(effect = "transaction", limit = "ledger", retry(max_retries = 1, delay = "1ms"))]
async fn post_entry(cx: &mut StepCx, fails_once: bool) -> Result<u32> {
    Calls::note(cx)?;
    if fails_once && cx.attempt() == 0 {
        return Err(Failure::retryable("closed").not_before(RETRY_AFTER));
    }
    Ok(cx.attempt())
}

#[workflow]
async fn posting(cx: &mut Cx, fails_once: bool) -> Result<u32> {
    Ok(post_entry(cx, fails_once).await?)
}

#[tokio::test]
async fn a_transaction_step_waits_for_its_limit_and_for_as_long_as_its_error_asks() {
    let (place, calls) = (Place::sqlite(), Calls::default());
    let engine = builder(&place.store, &calls).start().await.unwrap();
    engine.step_limits().set(per_second("ledger", 10)).await.unwrap();
    let began = Instant::now();
    for number in 0..3 {
        let run = engine.start::<posting>(false).id(format!("entry-{number}")).await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), 0);
    }
    // One at once, then one for each tenth of a second at most.
    assert!(began.elapsed() >= Duration::from_millis(200), "{:?}", began.elapsed());
    assert_eq!(Journal::read(&place.store, "entry-2").await.count("limit_awaited", "post_entry"), 1);

    let started = aether::jiff::Timestamp::now();
    let run = engine.start::<posting>(true).id("late").await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), 1);
    let journal = Journal::read(&place.store, "late").await;
    let due = journal.events.iter().find_map(|event| match event {
        Event::StepRetried(retried) => Some(retried.due),
        _ => None,
    });
    let wait = Duration::try_from(due.unwrap().duration_since(started)).unwrap();
    assert!(wait >= RETRY_AFTER, "{wait:?}");
    // The limit is held for as long: it is what the other side says.
    assert!(engine.step_limits().list().await.unwrap()[0].percent < 100);
    engine.verify(&run_id("late")).await.unwrap();
    engine.shutdown().await.unwrap();
}
