//! Several workers on one store: rows 14 and 58.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aether::engine::{Environment, RunEnd, SystemEnvironment};
use aether::error::RunError;
use aether::id::{Epoch, WorkerId};
use aether::prelude::*;
use aether::store::event::Event;
use aether::store::ledger::{LedgerStatus, LedgerUpdate};
use aether::store::{AppendError, ClaimRequest, SilentWorker, Store};
use aether_core::journal::Frame;
use jiff::Timestamp;
use tokio::sync::Semaphore;

use super::kit::{
    Calls, Hand, Journal, Place, Rows, builder, created, flushed, in_time, run_id, stores, stores_at,
};

/// Who is inside of a body of which run, and whether there were ever two.
#[derive(Clone, Debug, Default)]
struct Presence(Arc<Mutex<(BTreeMap<String, usize>, bool)>>);

impl Presence {
    fn enter(&self, run: &str) {
        let (inside, crowded) = &mut *self.0.lock().unwrap();
        let count = inside.entry(run.to_owned()).or_default();
        *count += 1;
        *crowded |= *count > 1;
    }

    fn leave(&self, run: &str) {
        if let Some(count) = self.0.lock().unwrap().0.get_mut(run) {
            *count -= 1;
        }
    }
}

/// Work a little, alone in this run.
#[step(effect = "tool", idempotent)]
async fn labour(cx: &mut StepCx, n: u32) -> Result<u32> {
    let presence = cx.dep::<Presence>()?;
    presence.enter(cx.run_id().as_str());
    cx.dep::<Calls>()?.add("labour", cx.idempotency_key().as_str());
    tokio::task::yield_now().await;
    presence.leave(cx.run_id().as_str());
    Ok(n)
}

/// Work, and sleep in between, so that other workers may take it up.
#[workflow]
async fn seed_shift(cx: &mut Cx) -> Result<u32> {
    let mut done = 0;
    for n in 0..3 {
        done += labour(cx, n).await?;
        cx.sleep(Duration::from_millis(3)).await;
    }
    Ok(done)
}

const WORKERS: usize = 4;
const RUNS: usize = 24;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn s014_many_workers_advance_many_runs_and_never_two_own_one() {
    for place in stores() {
        let (place, calls, presence) = (place(), Calls::default(), Presence::default());
        let mut workers = Vec::new();
        for _ in 0..WORKERS {
            // Evicted at once, so that every sleep gives the run to whoever is first.
            let engine =
                builder(&place.again(), &calls).provide(presence.clone()).eviction_grace(Duration::ZERO);
            workers.push(engine.start().await.unwrap());
        }
        for number in 0..RUNS {
            let name = format!("shift-{number}");
            workers[number % WORKERS].start::<seed_shift>(()).id(name).await.unwrap();
        }
        let mut owners = BTreeSet::new();
        for number in 0..RUNS {
            let run = run_id(&format!("shift-{number}"));
            let handle = workers[0].handle::<seed_shift>(run.as_str()).await.unwrap();
            assert_eq!(in_time(handle.result()).await.unwrap(), 3);
            let frames = place.store.load(&run, 0).await.unwrap();
            let epochs: Vec<Epoch> = frames.iter().map(|frame| frame.epoch).collect();
            assert!(
                epochs.is_sorted(),
                "no write of a former owner stands behind one of the next: {epochs:?}"
            );
            for event in Journal::read(&place.store, run.as_str()).await.events {
                if let Event::RunRequeued(e) = event {
                    owners.insert(e.worker.to_string());
                }
            }
            workers[0].verify(&run).await.unwrap();
        }
        assert!(owners.len() > 1, "runs went from one worker to another: {owners:?}");
        assert!(!presence.0.lock().unwrap().1, "two owners were at work in one run");
        let keys = calls.keys("labour");
        assert_eq!((keys.len(), keys.iter().collect::<BTreeSet<_>>().len()), (3 * RUNS, 3 * RUNS));
    }
}

/// Appends one event to `run` at `epoch`.
async fn append(store: &Arc<dyn Store>, run: &str, epoch: Epoch, next: u64) -> Result<(), AppendError> {
    let mut hand = Hand { store: Arc::clone(store), run: run_id(run), epoch, next };
    let frame = Frame::encode(&[created("seed_shift", "null")]).unwrap();
    hand.try_append_frame(frame, None, Vec::new()).await.map(drop)
}

#[tokio::test]
async fn s014_a_stale_owners_append_is_rejected() {
    for place in stores() {
        let place = place();
        let hand = Hand::begin(&place.store, "held", "seed_shift", "null").await;
        append(&place.store, "held", 1, 1).await.unwrap();
        // Its lease has run out: another worker, by a connection of its own, takes it over.
        let hand_silent = SilentWorker { id: WorkerId::from("hand".to_owned()), renewals: 1 };
        let request = ClaimRequest {
            worker: WorkerId::from("other".to_owned()),
            now: Timestamp::now(),
            silent: vec![hand_silent],
            limit: 1,
            codes: Vec::new(),
            only: None,
            adopt: vec![run_id("held")],
            serves: Default::default(),
            others_first: false,
            lapsed_first: false,
        };
        let leases = place.again().claim(request).await.unwrap();
        assert_eq!(leases[0].run.epoch, 2);
        let refused = append(&place.store, "held", 1, 2).await;
        assert_eq!(refused, Err(AppendError::StaleEpoch { run: run_id("held"), held: 1, found: 2 }));
        append(&place.store, "held", 2, 2).await.unwrap();
        drop(hand);
    }
}

/// A world whose timers stop when it freezes: a worker in it renews no lease, as in a computer that sleeps.
#[derive(Clone, Debug, Default)]
struct Frozen(Arc<AtomicBool>);

impl Environment for Frozen {
    fn now(&self) -> Timestamp {
        SystemEnvironment.now()
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        SystemEnvironment.fill_random(bytes);
    }

    fn sleep_until(&self, until: Timestamp) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + 'static>> {
        let frozen = self.0.clone();
        Box::pin(async move {
            SystemEnvironment.sleep_until(until).await;
            while frozen.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
    }
}

/// Holds the first call of a body until it is let go.
#[derive(Debug)]
struct Turnstile {
    calls: AtomicUsize,
    entered: Semaphore,
    first_may_go: Semaphore,
}

/// Look; the first look takes very long.
#[step(effect = "read")]
async fn long_look(cx: &mut StepCx) -> Result<usize> {
    let turnstile = cx.dep::<Arc<Turnstile>>()?;
    let number = turnstile.calls.fetch_add(1, Ordering::SeqCst);
    turnstile.entered.add_permits(1);
    if number == 0 {
        turnstile.first_may_go.acquire().await?.forget();
    }
    Ok(number)
}

/// Look once.
#[workflow]
async fn seed_long_look(cx: &mut Cx) -> Result<usize> {
    Ok(long_look(cx).await?)
}

#[tokio::test]
async fn s014_a_worker_that_lost_its_lease_writes_nothing_more() {
    for place in stores() {
        let place = place();
        let turnstile = Arc::new(Turnstile {
            calls: AtomicUsize::new(0),
            entered: Semaphore::new(0),
            first_may_go: Semaphore::new(0),
        });
        let frozen = Frozen::default();
        let lease = Duration::from_millis(100);
        let sleeper =
            Engine::builder().environment(Arc::new(frozen.clone())).store(place.again()).lease(lease);
        let sleeper = sleeper.provide(turnstile.clone()).start().await.unwrap();
        let old = sleeper.start::<seed_long_look>(()).id("look").await.unwrap();
        in_time(turnstile.entered.acquire()).await.unwrap().forget();
        frozen.0.store(true, Ordering::SeqCst);

        let awake =
            builder(&place.again(), &Calls::default()).provide(turnstile.clone()).start().await.unwrap();
        let run = awake.handle::<seed_long_look>("look").await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), 1, "the second worker looked for itself");
        let before = Journal::read(&place.store, "look").await;
        frozen.0.store(false, Ordering::SeqCst);
        turnstile.first_may_go.add_permits(1);
        assert_eq!(in_time(old.result()).await.unwrap(), 1, "the first one's own answer counts for nothing");
        flushed(&place.store).await;
        assert_eq!(Journal::read(&place.store, "look").await, before);
    }
}

/// Do a thing once, or give up.
#[step(effect = "tool")]
async fn once_or_fail(cx: &mut StepCx) -> Result<u32> {
    Calls::note(cx)?;
    Ok(1)
}

/// Do a thing that may be sent again under its key.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn once_or_again(cx: &mut StepCx) -> Result<u32> {
    Calls::note(cx)?;
    Ok(1)
}

/// Do a thing, and the other.
#[workflow]
async fn seed_once(cx: &mut Cx, again: bool) -> Result<u32> {
    Ok(if again { once_or_again(cx).await? } else { once_or_fail(cx).await? })
}

/// Where a process may die: behind which event, and what of it the ledger holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ledger {
    /// What the journal says.
    Follows,
    /// Nothing: it was lost.
    Absent,
    /// The outcome, which the journal does not have yet.
    Ahead,
}

async fn plant(place: &Place, cut: &Journal, ledger: Ledger) {
    let rows = if ledger == Ledger::Absent { Rows::Absent } else { Rows::Follow };
    let mut hand = cut.hold(&place.store, rows).await;
    if let (Ledger::Ahead, Some(Event::ToolInvocationStarted(e))) = (ledger, cut.events.last()) {
        let (key, result) = (e.key.clone(), Some(super::kit::json("1")));
        let status = LedgerStatus::Succeeded;
        let update = LedgerUpdate { key, status, result, error: None, committed: true };
        hand.append(&[], None, vec![update]).await;
    }
    hand.let_go().await;
}

/// Rows 14, 20 and 48 at once: several workers, one key, and a crash at every point.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn s058_at_every_crash_point_several_workers_make_at_most_one_execution_of_a_key() {
    for again in [false, true] {
        let name = if again { "once_or_again" } else { "once_or_fail" };
        let whole = Journal::record::<seed_once>("once", again).await;
        for length in 1..whole.events.len() {
            for ledger in [Ledger::Follows, Ledger::Absent, Ledger::Ahead] {
                for place in stores_at(length) {
                    let (place, calls) = (place(), Calls::default());
                    let cut = whole.first(length);
                    plant(&place, &cut, ledger).await;
                    let mut workers = Vec::new();
                    for _ in 0..3 {
                        workers.push(builder(&place.again(), &calls).start().await.unwrap());
                    }
                    let run = workers[2].handle::<seed_once>("once").await.unwrap();
                    let end = in_time(run.end()).await.unwrap();
                    let begun = cut.count("tool_invocation_started", name) > 0;
                    let known = cut.count("tool_invocation_finished", name) > 0
                        || ledger == Ledger::Ahead
                            && cut.kinds().last().is_some_and(|k| k == "tool_invocation_started");
                    // Before the crash the body may have run as soon as its intent was durable.
                    let expected = usize::from(!begun || (again && !known));
                    let at = format!("{name}, {length} events, {ledger:?}: {end:?}");
                    assert_eq!(calls.of(name), expected, "{at}");
                    assert!(
                        calls.keys(name).iter().all(|key| *key == format!("aether:once:0:{name}:0")),
                        "{at}"
                    );
                    let fails = begun && !known && !again;
                    assert_eq!(matches!(end, RunEnd::Failed { .. }), fails, "{at}");
                    let rows = place.store.entries(&run_id("once")).await.unwrap();
                    assert!(rows.len() <= 1, "{at}");
                    if fails {
                        assert!(matches!(in_time(run.result()).await, Err(RunError::Failed(_))));
                    }
                    workers[1].verify(run.id()).await.unwrap();
                }
            }
        }
    }
}
