//! Time against the engine: shutdowns in the middle of everything, workers that are paused or hold up their threads,
//! clocks that leap, files that are locked for longer than a lease, and owners that come back.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use aether::definition::Probe;
use aether::sqlite::rusqlite::Connection;
use aether::store::event::Event;
use aether::store::ledger::LedgerStatus;

use super::*;
use crate::seeds::kit::stores;

/// A world whose keeper of leases and timers can be stopped, as those of a paused process are, and whose wall clock can
/// be set.
#[derive(Clone, Debug, Default)]
struct World {
    paused: Arc<AtomicBool>,
    /// Microseconds that the wall clock is ahead.
    ahead: Arc<AtomicI64>,
    /// The first draws, as of a machine that was copied.
    copied: bool,
    draws: Arc<AtomicUsize>,
}

impl World {
    fn pause(&self, paused: bool) {
        self.paused.store(paused, Ordering::SeqCst);
    }

    fn leap(&self, ahead: Duration) {
        self.ahead.store(i64::try_from(ahead.as_micros()).unwrap(), Ordering::SeqCst);
    }
}

impl Environment for World {
    fn now(&self) -> Timestamp {
        let ahead = self.ahead.load(Ordering::SeqCst);
        Timestamp::from_microsecond(SystemEnvironment.now().as_microsecond() + ahead).unwrap()
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        match self.copied {
            true => {
                let draw = u8::try_from(self.draws.fetch_add(1, Ordering::SeqCst) % 256).unwrap();
                bytes.fill(draw);
            }
            false => SystemEnvironment.fill_random(bytes),
        }
    }

    fn sleep_until(&self, until: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let world = self.clone();
        Box::pin(async move {
            while world.now() < until || world.paused.load(Ordering::SeqCst) {
                sleep(2 * MS).await;
            }
        })
    }

    fn sleep(&self, span: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let world = self.clone();
        Box::pin(async move {
            sleep(span).await;
            while world.paused.load(Ordering::SeqCst) {
                sleep(2 * MS).await;
            }
        })
    }

    fn spawn_keeper(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        SystemEnvironment.spawn_keeper(task);
    }
}

/// What the bodies of a test tell it.
#[derive(Debug, Default)]
struct Notes {
    /// Calls of tools by key.
    calls: Mutex<BTreeMap<String, u32>>,
    /// What the tools did to the world.
    effects: AtomicU32,
    /// Bodies that ran to their end.
    ended: AtomicU32,
}

impl Notes {
    fn call(&self, key: &str) {
        *self.calls.lock().unwrap().entry(key.to_owned()).or_default() += 1;
    }

    fn calls(&self) -> u32 {
        self.calls.lock().unwrap().values().sum()
    }

    async fn called(&self) {
        soon(async {
            while self.calls() == 0 {
                sleep(MS).await;
            }
        })
        .await;
    }

    fn most_under_one_key(&self) -> u32 {
        self.calls.lock().unwrap().values().copied().max().unwrap_or_default()
    }
}

/// Pay, which takes as many milliseconds as it is told.
#[step(effect = "tool")]
async fn ht_pay(cx: &mut StepCx, millis: u64) -> Result<u64> {
    let notes = cx.dep::<Arc<Notes>>()?;
    notes.call(cx.idempotency_key().as_str());
    sleep(Duration::from_millis(millis)).await;
    notes.ended.fetch_add(1, Ordering::SeqCst);
    Ok(millis)
}

/// Pay, and hold up the thread meanwhile.
#[step(effect = "tool")]
async fn ht_pay_blocking(cx: &mut StepCx, millis: u64) -> Result<u64> {
    let notes = cx.dep::<Arc<Notes>>()?;
    notes.call(cx.idempotency_key().as_str());
    std::thread::sleep(Duration::from_millis(millis));
    Ok(millis)
}

/// Look, for a moment.
#[step(effect = "read")]
async fn ht_look(_cx: &mut StepCx, n: u32) -> Result<u32> {
    sleep(MS).await;
    Ok(n)
}

/// Pay again and again, in small pieces.
#[workflow]
async fn ht_paying(cx: &mut Cx, times: u32) -> Result<u32> {
    for _ in 0..times {
        ht_pay(cx, 1).await?;
    }
    Ok(times)
}

/// Pay once.
#[workflow]
async fn ht_once(cx: &mut Cx, millis: u64) -> Result<u64> {
    Ok(ht_pay(cx, millis).await?)
}

/// Pay once, on a thread of its own.
#[workflow]
async fn ht_blocking(cx: &mut Cx, millis: u64) -> Result<u64> {
    Ok(ht_pay_blocking(cx, millis).await?)
}

/// A slow payment, and short looks beside it.
#[workflow]
async fn ht_beside(cx: &mut Cx) -> Result<u64> {
    let (paid, _looks) = cx
        .join((
            async |cx: &mut Cx| ht_pay(cx, 600).await,
            async |cx: &mut Cx| {
                for n in 0..10_000 {
                    ht_look(cx, n).await?;
                }
                Ok::<_, Failure>(())
            },
        ))
        .await;
    Ok(paid?)
}

async fn in_doubt(store: &dyn Store) -> usize {
    let mut count = 0;
    for run in store.runs(Default::default()).await.unwrap() {
        let rows = store.entries(&run.id).await.unwrap();
        count += rows.iter().filter(|row| row.status == LedgerStatus::InDoubt).count();
        let events = events(store, &run.id).await;
        count += events.iter().filter(|event| matches!(event, Event::InvocationResolved(_))).count();
    }
    count
}

fn on(store: &Arc<dyn Store>, notes: &Arc<Notes>, world: &World) -> EngineBuilder {
    Engine::builder()
        .environment(Arc::new(world.clone()))
        .store(Arc::clone(store))
        .provide(Arc::clone(notes))
        .poll_interval(10 * MS)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_body_is_called_after_a_shutdown_returned_and_nothing_is_in_doubt() {
    for place in stores() {
        for pause in [0, 2, 5, 12, 30] {
            let (place, notes) = (place(), Arc::new(Notes::default()));
            let engine = on(&place.store, &notes, &World::default()).start().await.unwrap();
            for n in 0..150 {
                engine.start::<ht_paying>(20).id(format!("run-{n}")).await.unwrap();
            }
            soon(engine.shutdown()).await.unwrap();
            // A start with many runs that are due, and a shutdown while they are claimed, read and launched.
            let engine = on(&place.store, &notes, &World::default()).start().await.unwrap();
            sleep(pause * MS).await;
            soon(engine.shutdown()).await.unwrap();
            let (calls, ended) = (notes.calls(), notes.ended.load(Ordering::SeqCst));
            assert_eq!(calls, ended, "a shutdown with patience lets bodies end");
            sleep(50 * MS).await;
            assert_eq!(notes.calls(), calls, "a body was called after the shutdown");
            let held = place.store.workers().await.unwrap();
            assert_eq!(held, [], "a run was not released");
            let engine = on(&place.store, &notes, &World::default()).start().await.unwrap();
            for n in 0..150 {
                let run = engine.handle::<ht_paying>(format!("run-{n}")).await.unwrap();
                assert_eq!(timeout(240 * 1000 * MS, run.result()).await.unwrap().unwrap(), 20);
            }
            assert_eq!((notes.calls(), notes.most_under_one_key()), (150 * 20, 1));
            assert_eq!(in_doubt(&*place.store).await, 0);
            engine.shutdown().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_lets_a_body_end_while_other_branches_would_go_on() {
    for place in stores() {
        let (place, notes) = (place(), Arc::new(Notes::default()));
        let engine = on(&place.store, &notes, &World::default()).start().await.unwrap();
        let run = engine.start::<ht_beside>(()).id("beside").await.unwrap();
        notes.called().await;
        sleep(50 * MS).await;
        drop(run);
        soon(engine.shutdown()).await.unwrap();
        assert_eq!(notes.ended.load(Ordering::SeqCst), 1, "the body was cut off within the patience");
        let outcome = events(&*place.store, &run_id("beside")).await;
        assert!(
            outcome.iter().any(|event| matches!(event, Event::ToolInvocationFinished(_))),
            "{outcome:#?}"
        );
        assert_eq!(in_doubt(&*place.store).await, 0);
    }
}

/// Waits for a word.
#[workflow]
async fn ht_child(cx: &mut Cx) -> Result<u32> {
    Ok(cx.signal("go").await?)
}

/// Waits for a child.
#[workflow]
async fn ht_parent(cx: &mut Cx) -> Result<u32> {
    Ok(cx.child::<ht_child>(()).id("child").await?)
}

#[tokio::test]
async fn a_worker_that_lost_the_parent_tells_its_children_nothing() {
    for place in stores() {
        for ask in ["cancel", "terminate"] {
            let (place, notes) = (place(), Arc::new(Notes::default()));
            let world = World::default();
            let engine =
                on(&place.store, &notes, &world).eviction_grace(60 * 1000 * MS).start().await.unwrap();
            let run = engine.start::<ht_parent>(()).id("parent").await.unwrap();
            soon(async {
                while place.store.run(&run_id("child")).await.unwrap().is_none() {
                    sleep(MS).await;
                }
            })
            .await;
            // The next owner holds the parent from here on.
            take_over(&*place.store, &run_id("parent")).await;
            match ask {
                "cancel" => run.cancel("enough", "ann").await.unwrap(),
                _ => run.terminate("enough", "ann").await.unwrap(),
            };
            sleep(100 * MS).await;
            let told = place.store.inbox(&run_id("child"), 0).await.unwrap();
            assert_eq!(told, [], "{ask}: a decision that was refused took effect");
            assert!(!place.store.run(&run_id("child")).await.unwrap().unwrap().status.is_terminal());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_leaps_takes_no_run_from_a_live_worker() {
    for place in stores() {
        let (place, notes, world) = (place(), Arc::new(Notes::default()), World::default());
        let first = on(&place.store, &notes, &world).start().await.unwrap();
        let second = on(&place.again(), &notes, &world).start().await.unwrap();
        let mut runs = Vec::new();
        for n in 0..10 {
            runs.push(first.start::<ht_once>(400).id(format!("leap-{n}")).await.unwrap());
        }
        for seconds in [60, 3_600, 100_000, 0] {
            sleep(60 * MS).await;
            world.leap(Duration::from_secs(seconds));
        }
        for run in runs {
            assert_eq!(soon(run.result()).await.unwrap(), 400);
            assert_eq!(place.store.run(run.id()).await.unwrap().unwrap().epoch, 1, "it kept its owner");
        }
        assert_eq!((notes.calls(), in_doubt(&*place.store).await), (10, 0));
        second.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_locked_for_longer_than_a_lease_costs_nobody_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locked.db");
    let (notes, world) = (Arc::new(Notes::default()), World::default());
    let lease = 1500 * MS;
    let first = on(&sqlite(&path), &notes, &world).lease(lease).start().await.unwrap();
    let second = on(&sqlite(&path), &notes, &world).lease(lease).start().await.unwrap();
    let mut runs = Vec::new();
    for n in 0..10 {
        runs.push(first.start::<ht_once>(300 + 100 * n).id(format!("locked-{n}")).await.unwrap());
    }
    sleep(250 * MS).await;
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    sleep(4 * lease).await;
    other.execute_batch("COMMIT").unwrap();
    for (n, run) in (0..).zip(runs) {
        assert_eq!(soon(run.result()).await.unwrap(), 300 + 100 * n);
    }
    let store = sqlite(&path);
    assert_eq!((notes.calls(), notes.most_under_one_key(), in_doubt(&*store).await), (10, 1, 0));
    second.shutdown().await.unwrap();
    first.shutdown().await.unwrap();
}

#[test]
fn bodies_that_hold_up_every_thread_keep_their_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("blocked.db");
    let (notes, world) = (Arc::new(Notes::default()), World::default());
    let lease = 1000 * MS;
    let runtime = |threads| {
        tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build().unwrap()
    };
    let (busy, idle) = (runtime(2), runtime(1));
    let second = idle.block_on(on(&sqlite(&path), &notes, &world).lease(lease).start()).unwrap();
    busy.block_on(async {
        let engine = on(&sqlite(&path), &notes, &world).lease(lease).start().await.unwrap();
        let mut runs = Vec::new();
        for n in 0..4 {
            runs.push(engine.start::<ht_blocking>(2_500).id(format!("blocking-{n}")).await.unwrap());
        }
        for run in runs {
            assert_eq!(timeout(120 * 1000 * MS, run.result()).await.unwrap().unwrap(), 2_500);
        }
        assert_eq!((notes.calls(), notes.most_under_one_key()), (4, 1));
        assert_eq!(in_doubt(&**engine.store()).await, 0);
        engine.shutdown().await.unwrap();
    });
    idle.block_on(second.shutdown()).unwrap();
}

/// The engine of another process on the same file.
struct Elsewhere(Engine);

/// Pay; a person cancels the run meanwhile, through another process, and is told that it was taken.
#[step(effect = "tool")]
async fn ht_pay_and_cancel(cx: &mut StepCx) -> Result<u32> {
    let Elsewhere(engine) = &*cx.dep::<Elsewhere>()?;
    engine.cancel(cx.run_id(), "enough", "ann").await.map_err(Failure::permanent)?;
    Ok(1)
}

/// Its last action is the payment.
#[workflow]
async fn ht_cancelled_at_the_end(cx: &mut Cx) -> Result<u32> {
    Ok(ht_pay_and_cancel(cx).await?)
}

/// Looks again and again, for as long as it is let.
#[workflow]
async fn ht_busy(cx: &mut Cx) -> Result<u32> {
    let mut n = 0;
    loop {
        n = ht_look(cx, n).await? % 1_000 + 1;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancellation_that_another_process_acknowledged_is_obeyed() {
    for place in stores() {
        let (place, notes, world) = (place(), Arc::new(Notes::default()), World::default());
        let elsewhere = on(&place.again(), &notes, &world).start().await.unwrap();
        let engine =
            on(&place.store, &notes, &world).provide(Elsewhere(elsewhere.clone())).start().await.unwrap();
        for n in 0..5 {
            let run = engine.start::<ht_cancelled_at_the_end>(()).id(format!("last-{n}")).await.unwrap();
            let end = soon(run.end()).await.unwrap();
            assert!(matches!(end, aether::engine::RunEnd::Cancelled { .. }), "{end:?}");
        }
        // One that never stands still is told as well.
        let run = engine.start::<ht_busy>(()).id("busy").await.unwrap();
        sleep(50 * MS).await;
        elsewhere.cancel(run.id(), "enough", "ann").await.unwrap();
        let end = soon(run.end()).await.unwrap();
        assert!(matches!(end, aether::engine::RunEnd::Cancelled { .. }), "{end:?}");
        engine.shutdown().await.unwrap();
        elsewhere.shutdown().await.unwrap();
    }
}

static BEFORE_THE_EFFECT: Semaphore = Semaphore::const_new(0);

/// Transfer. The first call is held up right before it changes the world.
#[step(effect = "tool", on_unknown = "probe", probe = ht_transferred)]
async fn ht_transfer(cx: &mut StepCx, amount: u32) -> Result<u32> {
    let notes = cx.dep::<Arc<Notes>>()?;
    notes.call(cx.idempotency_key().as_str());
    if notes.calls() == 1 {
        BEFORE_THE_EFFECT.acquire().await?.forget();
    }
    notes.effects.fetch_add(1, Ordering::SeqCst);
    Ok(amount)
}

async fn ht_transferred(cx: &mut StepCx, amount: u32) -> Result<Probe<u32>> {
    let notes = cx.dep::<Arc<Notes>>()?;
    Ok(match notes.effects.load(Ordering::SeqCst) {
        0 => Probe::DidNotHappen,
        _ => Probe::Happened(amount),
    })
}

/// Transfer once.
#[workflow]
async fn ht_transferring(cx: &mut Cx) -> Result<u32> {
    Ok(ht_transfer(cx, 5).await?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_probe_does_not_deny_what_a_paused_owner_may_still_do() {
    for wakes_in_the_body in [true, false] {
        BEFORE_THE_EFFECT.forget_permits(BEFORE_THE_EFFECT.available_permits());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("paused.db");
        let lease = 800 * MS;
        let (notes, paused, awake) = (Arc::new(Notes::default()), World::default(), World::default());
        let first = on(&sqlite(&path), &notes, &paused).lease(lease).start().await.unwrap();
        let run = first.start::<ht_transferring>(()).id("transfer").await.unwrap();
        notes.called().await;
        // The whole process stands still, in the middle of its call, while another one takes the run over.
        paused.pause(true);
        let second = on(&sqlite(&path), &notes, &awake).lease(lease).start().await.unwrap();
        let store = sqlite(&path);
        soon(async {
            while store.run(run.id()).await.unwrap().unwrap().epoch == 1 {
                sleep(5 * MS).await;
            }
        })
        .await;
        sleep(3 * lease).await;
        assert_eq!(
            notes.calls(),
            1,
            "the probe's denial was believed while the former owner may still do it"
        );
        let run = second.handle::<ht_transferring>("transfer").await.unwrap();
        if wakes_in_the_body {
            // It wakes up inside of its call, before it learns that it has lost the run.
            BEFORE_THE_EFFECT.add_permits(1);
            sleep(50 * MS).await;
        }
        paused.pause(false);
        assert_eq!(soon(run.result()).await.unwrap(), 5);
        assert_eq!(notes.effects.load(Ordering::SeqCst), 1, "it happened twice");
        assert_eq!(notes.calls(), if wakes_in_the_body { 1 } else { 2 });
        first.shutdown().await.unwrap();
        second.shutdown().await.unwrap();
    }
}

static BEFORE_THE_DEBIT: Semaphore = Semaphore::const_new(0);

/// Debit. The first call is held up right before it changes the world.
#[step(effect = "tool", on_unknown = "ask")]
async fn ht_debit(cx: &mut StepCx, amount: u32) -> Result<u32> {
    let notes = cx.dep::<Arc<Notes>>()?;
    notes.call(cx.idempotency_key().as_str());
    if notes.calls() == 1 {
        BEFORE_THE_DEBIT.acquire().await?.forget();
    }
    notes.effects.fetch_add(1, Ordering::SeqCst);
    Ok(amount)
}

/// Debit once.
#[workflow]
async fn ht_debiting(cx: &mut Cx) -> Result<u32> {
    Ok(ht_debit(cx, 5).await?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_does_not_deny_what_a_paused_owner_may_still_do() {
    for wakes_in_the_body in [true, false] {
        BEFORE_THE_DEBIT.forget_permits(BEFORE_THE_DEBIT.available_permits());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("asked.db");
        let lease = 800 * MS;
        let (notes, paused, awake) = (Arc::new(Notes::default()), World::default(), World::default());
        let first = on(&sqlite(&path), &notes, &paused).lease(lease).start().await.unwrap();
        let run = first.start::<ht_debiting>(()).id("debit").await.unwrap();
        notes.called().await;
        paused.pause(true);
        let second = on(&sqlite(&path), &notes, &awake).lease(lease).start().await.unwrap();
        let asked = async || {
            let waits = second.pending(run.id()).await.unwrap();
            waits.into_iter().find_map(|wait| wait.invocation)
        };
        until(async || asked().await.is_some()).await;
        let invocation = asked().await.unwrap();
        let deny = async || second.resolve(run.id(), &invocation, Resolution::DidNotHappen, "ann").await;
        let denied = deny().await;
        assert!(matches!(denied, Err(DecideError::MayStillHappen { .. })), "{denied:?}");
        if wakes_in_the_body {
            // It wakes up inside of its call, before it learns that it has lost the run.
            BEFORE_THE_DEBIT.add_permits(1);
            until(async || notes.effects.load(Ordering::SeqCst) == 1).await;
            let denied = deny().await;
            assert!(matches!(denied, Err(DecideError::MayStillHappen { .. })), "{denied:?}");
        }
        paused.pause(false);
        let handle = second.handle::<ht_debiting>("debit").await.unwrap();
        if wakes_in_the_body {
            let happened = Resolution::Happened(Payload::encode(&5).unwrap());
            soon(second.resolve(run.id(), &invocation, happened, "ann")).await.unwrap();
        } else {
            // What it said before was not taken: it looks again, and says so again.
            until(async || deny().await.is_ok()).await;
        }
        assert_eq!(soon(handle.result()).await.unwrap(), 5);
        assert_eq!(notes.effects.load(Ordering::SeqCst), 1, "it happened twice");
        assert_eq!(notes.calls(), if wakes_in_the_body { 1 } else { 2 });
        first.shutdown().await.unwrap();
        second.shutdown().await.unwrap();
    }
}

static BLOCKS: AtomicBool = AtomicBool::new(true);

/// Pay, as long as it takes, and again where nobody knows.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn ht_block(cx: &mut StepCx) -> Result<u32> {
    let notes = cx.dep::<Arc<Notes>>()?;
    notes.call(cx.idempotency_key().as_str());
    while BLOCKS.load(Ordering::SeqCst) {
        std::thread::sleep(MS);
    }
    Ok(notes.ended.fetch_add(1, Ordering::SeqCst))
}

/// Pay so.
#[workflow]
async fn ht_stuck(cx: &mut Cx) -> Result<u32> {
    Ok(ht_block(cx).await?)
}

/// A worker loses a run, and gets it back while its former claim is still in a body.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_run_that_comes_back_waits_for_the_former_claim_of_its_worker() {
    for place in stores() {
        BLOCKS.store(true, Ordering::SeqCst);
        let (place, notes, world) = (place(), Arc::new(Notes::default()), World::default());
        let engine = on(&place.store, &notes, &world).lease(LEASE).start().await.unwrap();
        let run = engine.start::<ht_stuck>(()).id("stuck").await.unwrap();
        notes.called().await;
        steal(&*place.store, run.id()).await;
        sleep(500 * MS).await;
        assert_eq!(notes.calls(), 1, "two claims of one worker are in the body at once");
        BLOCKS.store(false, Ordering::SeqCst);
        assert_eq!(soon(run.result()).await.unwrap(), 1);
        assert_eq!((notes.calls(), notes.most_under_one_key()), (2, 2));
        engine.shutdown().await.unwrap();
    }
}

static GOES: AtomicBool = AtomicBool::new(false);
static STANDS: AtomicBool = AtomicBool::new(false);

/// Look until told to go on.
#[step(effect = "read")]
async fn ht_until_told(_cx: &mut StepCx) -> Result<u32> {
    while !GOES.load(Ordering::SeqCst) {
        sleep(MS).await;
    }
    Ok(1)
}

/// Look until told to stand still, and then hold up the run's task.
#[step(effect = "read")]
async fn ht_stand(cx: &mut StepCx) -> Result<u32> {
    while !STANDS.load(Ordering::SeqCst) {
        sleep(MS).await;
    }
    cx.dep::<Arc<Notes>>()?.ended.fetch_add(1, Ordering::SeqCst);
    while STANDS.load(Ordering::SeqCst) {
        std::thread::sleep(MS);
    }
    Ok(1)
}

/// A payment whose intent becomes durable while its run stands still.
#[workflow]
async fn ht_paying_after_a_stand(cx: &mut Cx) -> Result<u64> {
    let (paid, _stood) = cx
        .join((
            async |cx: &mut Cx| {
                ht_until_told(cx).await?;
                ht_pay(cx, 1).await
            },
            async |cx: &mut Cx| ht_stand(cx).await,
        ))
        .await;
    Ok(paid?)
}

/// The run is ended by another worker and deleted while its former owner is paused: nobody can tell that owner of its loss.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_owner_that_was_paused_before_the_body_calls_nothing_of_a_run_that_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gone.db");
    let (notes, lease) = (Arc::new(Notes::default()), 300 * MS);
    let (paused, awake) = (World::default(), World::default());
    let first = on(&sqlite(&path), &notes, &paused).lease(lease).start().await.unwrap();
    let run = first.start::<ht_paying_after_a_stand>(()).id("gone").await.unwrap();
    let store = sqlite(&path);
    // The intent waits for the file while the run comes to a stand.
    let other = Connection::open(&path).unwrap();
    other.busy_timeout(Duration::from_secs(60)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    GOES.store(true, Ordering::SeqCst);
    sleep(100 * MS).await;
    STANDS.store(true, Ordering::SeqCst);
    until(async || notes.ended.load(Ordering::SeqCst) > 0).await;
    other.execute_batch("COMMIT").unwrap();
    until(async || has(&*store, run.id(), "tool_invocation_started").await).await;
    assert_eq!(notes.calls(), 0, "its body was called before");
    paused.pause(true);
    let second = on(&sqlite(&path), &Arc::new(Notes::default()), &awake).lease(lease).start().await.unwrap();
    let handle = second.handle::<ht_paying_after_a_stand>("gone").await.unwrap();
    soon(handle.terminate("enough", "ann")).await.unwrap();
    until(async || store.run(run.id()).await.unwrap().unwrap().status.is_terminal()).await;
    soon(second.shutdown()).await.unwrap();
    store.purge(run.id(), None).await.unwrap();
    STANDS.store(false, Ordering::SeqCst);
    // It may renew only now that it is awake.
    sleep(50 * MS).await;
    paused.pause(false);
    sleep(3 * lease).await;
    assert_eq!(notes.calls(), 0, "a body of a deleted run was called");
    first.shutdown().await.unwrap();
}

async fn until(holds: impl AsyncFn() -> bool) {
    soon(async {
        while !holds().await {
            sleep(MS).await;
        }
    })
    .await;
}

/// Whether the journal holds an event of this kind.
async fn has(store: &dyn Store, run: &RunId, kind: &str) -> bool {
    count(store, run, kind).await > 0
}

#[tokio::test]
async fn two_machines_with_equal_entropy_are_two_workers() {
    for place in stores() {
        let (place, notes) = (place(), Arc::new(Notes::default()));
        let copy = || World { copied: true, ..World::default() };
        let first = on(&place.store, &notes, &copy()).start().await.unwrap();
        let second = soon(on(&place.again(), &notes, &copy()).start()).await.unwrap();
        let run = second.start::<ht_once>(1).id("copied").await.unwrap();
        assert_eq!(soon(run.result()).await.unwrap(), 1);
        first.shutdown().await.unwrap();
        second.shutdown().await.unwrap();
    }
}
