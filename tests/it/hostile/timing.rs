//! What a hostile reviewer of the engine's timing found: gaps between two looks at one thing, futures that are dropped
//! half-way, destructors and probes that panic, and a disk that is full for a while.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use aether::engine::RunEnd;
use aether::sqlite::SqliteOptions;
use aether::sqlite::rusqlite::Connection;
use aether::store::journal::Frame;
use aether::store::{Ack, Append, Message, StatusChange};

use super::*;
use crate::seeds::kit::{Place, stores};

/// Polls `future` so many times, and drops it.
async fn polled<F: Future>(future: F, mut times: u32) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(move |cx| {
        if times == 0 {
            return Poll::Ready(None);
        }
        times -= 1;
        future.as_mut().poll(cx).map(Some)
    })
    .await
}

/// Waits until nobody holds a run that waits.
async fn evicted(store: &Arc<dyn Store>, run: &RunId) {
    soon(async {
        loop {
            let record = store.run(run).await.unwrap().unwrap();
            if record.status == Status::Waiting && record.owner.is_none() {
                return;
            }
            sleep(5 * MS).await;
        }
    })
    .await;
}

fn evicting(store: &Arc<dyn Store>) -> EngineBuilder {
    builder(Arc::clone(store), &Stage::new()).eviction_grace(20 * MS)
}

fn full() -> StoreError {
    StoreError::Full { store: "disk".into(), reason: "no space left".into() }
}

static SLOW: Semaphore = Semaphore::const_new(0);

/// What takes its time to go.
struct Slow;

impl Drop for Slow {
    fn drop(&mut self) {
        SLOW.add_permits(1);
        std::thread::sleep(300 * MS);
    }
}

/// Waits with something in hand that takes its time to go.
#[workflow]
async fn going_slowly(cx: &mut Cx) -> Result<u32> {
    let _held = Slow;
    Ok(cx.signal("go").await?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_comes_while_its_run_is_being_evicted_wakes_it() {
    for place in stores() {
        let place = place();
        let engine = evicting(&place.store).start().await.unwrap();
        for ask in ["signal", "cancel"] {
            SLOW.forget_permits(SLOW.available_permits());
            let run = engine.start::<going_slowly>(()).id(ask).await.unwrap();
            soon(SLOW.acquire()).await.unwrap().forget();
            sleep(50 * MS).await;
            match ask {
                "signal" => {
                    engine.signal(run.id(), "go", "one", &7).await.unwrap();
                    assert_eq!(soon(run.result()).await.unwrap(), 7);
                }
                _ => {
                    run.cancel("enough", "ann").await.unwrap();
                    assert!(matches!(soon(run.end()).await.unwrap(), RunEnd::Cancelled { .. }));
                }
            }
        }
    }
}

/// Waits for a word.
#[workflow]
async fn listening(cx: &mut Cx) -> Result<u32> {
    Ok(cx.signal("go").await?)
}

/// Leaves a run waiting with a message that counts as seen and that nobody took, as a lost wake-up would.
async fn lose(store: &Arc<dyn Store>, run: &RunId, message: Message) {
    let request = ClaimRequest {
        worker: WorkerId::from("thief".to_owned()),
        now: Timestamp::now(),
        silent: Vec::new(),
        limit: 1,
        codes: Vec::new(),
        only: None,
        adopt: vec![run.clone()],
        serves: Default::default(),
        others_first: false,
        lapsed_first: false,
    };
    let lease = store.claim(request).await.unwrap().pop().unwrap();
    store.send(run, message).await.unwrap();
    let (ack, reply) = Ack::awaited(run.clone(), lease.run.next, Arc::default());
    let status =
        StatusChange { status: Status::Waiting, wake_at: None, release: true, seen: 1_000_000, notify: None };
    store.append(Append {
        run: run.clone(),
        epoch: lease.run.epoch,
        expected: lease.run.next,
        at: Timestamp::now(),
        frame: Frame { count: 0, text: "[]".into() },
        work: None,
        acquire: None,
        ledger: Vec::new(),
        status: Some(status),
        consumed: Vec::new(),
        waits: Vec::new(),
        code: None,
        unless_asked_to_end: false,
        renews: None,
        streams: Vec::new(),
        ack,
    });
    reply.await.unwrap().unwrap();
}

fn signal(name: &str) -> Message {
    let (id, topic) = (format!("signal:{name}"), format!("signal:{name}"));
    Message { seq: 0, id, topic, payload: Payload::encode(&7).unwrap(), at: Timestamp::now() }
}

#[tokio::test]
async fn a_run_that_lost_its_wake_up_is_found_by_the_next_look_and_not_only_by_a_restart() {
    for place in stores() {
        let place = place();
        let engine = evicting(&place.store).start().await.unwrap();
        let lost = engine.start::<listening>(()).id("lost").await.unwrap();
        let other = engine.start::<listening>(()).id("other").await.unwrap();
        for run in [lost.id(), other.id()] {
            evicted(&place.store, run).await;
        }
        lose(&place.store, other.id(), signal("later")).await;
        let epoch = place.store.run(other.id()).await.unwrap().unwrap().epoch;
        lose(&place.store, lost.id(), signal("go")).await;
        assert_eq!(soon(lost.result()).await.unwrap(), 7);
        // What is kept for a later wait wakes nobody.
        let record = place.store.run(other.id()).await.unwrap().unwrap();
        assert_eq!((record.epoch, record.owner), (epoch, None));
    }
}

#[tokio::test]
async fn a_call_to_advance_that_is_dropped_leaves_no_run_that_nobody_advances() {
    let place = Place::sqlite();
    let engine = evicting(&place.store).start().await.unwrap();
    let run = engine.start::<listening>(()).id("r").await.unwrap();
    for polls in 1..8 {
        evicted(&place.store, run.id()).await;
        polled(run.advance(), polls).await;
        sleep(50 * MS).await;
    }
    evicted(&place.store, run.id()).await;
    engine.signal(run.id(), "go", "one", &7).await.unwrap();
    assert_eq!(soon(run.result()).await.unwrap(), 7);
}

#[tokio::test]
async fn a_shutdown_that_is_dropped_is_waited_for_by_the_next_one() {
    let place = Place::sqlite();
    let stage = Stage::new();
    let engine = builder(Arc::clone(&place.store), &stage).start().await.unwrap();
    let run = engine.start::<one_act>("pay".into()).id("r").await.unwrap();
    stage.entered().await;
    timeout(30 * MS, engine.clone().shutdown()).await.unwrap_err();
    let second = tokio::spawn(engine.shutdown());
    sleep(100 * MS).await;
    assert!(!second.is_finished());
    stage.open();
    soon(second).await.unwrap().unwrap();
    drop(run);
    let engine = builder(place.again(), &stage).start().await.unwrap();
    assert_eq!(soon(engine.handle::<one_act>("r").await.unwrap().result()).await.unwrap(), "pay 0");
    assert_eq!(stage.calls(), 1);
}

#[tokio::test]
async fn an_import_that_is_dropped_leaves_no_half_of_a_run() {
    let engine = evicting(&Place::memory().store).start().await.unwrap();
    let run = engine.start::<quick>(4).id("r").await.unwrap();
    soon(run.result()).await.unwrap();
    let recording = engine.export(run.id()).await.unwrap();
    for polls in [2, 3, 4] {
        let place = Place::sqlite();
        let other = evicting(&place.store).start().await.unwrap();
        polled(other.import(&recording), polls).await;
        let loaded = async {
            while place.store.run(run.id()).await.unwrap().is_none_or(|r| r.status != Status::Completed) {
                sleep(5 * MS).await;
            }
        };
        soon(loaded).await;
    }
}

static ARMED: AtomicBool = AtomicBool::new(false);

/// What panics when it goes, while it is armed.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(!ARMED.load(Ordering::SeqCst) || std::thread::panicking(), "a bomb");
    }
}

/// Waits with a bomb in hand.
#[workflow]
async fn holding_a_bomb(cx: &mut Cx) -> Result<u32> {
    let _bomb = Bomb;
    Ok(cx.signal("go").await?)
}

#[tokio::test]
async fn a_destructor_that_panics_at_eviction_keeps_no_run() {
    for place in stores() {
        let place = place();
        ARMED.store(true, Ordering::SeqCst);
        let engine = evicting(&place.store).start().await.unwrap();
        let run = engine.start::<holding_a_bomb>(()).id("r").await.unwrap();
        evicted(&place.store, run.id()).await;
        ARMED.store(false, Ordering::SeqCst);
        engine.signal(run.id(), "go", "one", &7).await.unwrap();
        assert_eq!(soon(run.result()).await.unwrap(), 7);
        assert_eq!(soon(engine.start::<quick>(4).await.unwrap().result()).await.unwrap(), 8);
    }
}

/// What always panics when it goes.
struct Mine;

impl Drop for Mine {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "a mine");
    }
}

/// Change the world for longer than there is time, with a mine in hand.
#[step(effect = "tool", timeout = "30ms")]
async fn act_with_a_mine(_cx: &mut StepCx) -> Result<u32> {
    let _mine = Mine;
    sleep(Duration::from_secs(60)).await;
    Ok(1)
}

/// One such change.
#[workflow]
async fn mined(cx: &mut Cx) -> Result<String> {
    Ok(match act_with_a_mine(cx).await {
        Ok(_) => "done".into(),
        Err(error) => error.to_string(),
    })
}

#[tokio::test]
async fn a_destructor_that_panics_at_a_timeout_does_not_fail_the_workflow() {
    let engine = evicting(&Place::memory().store).start().await.unwrap();
    let run = engine.start::<mined>(()).await.unwrap();
    let said = soon(run.result()).await.unwrap();
    assert!(said.contains("it is not known"), "{said}");
}

/// What cannot be read.
#[derive(Debug, serde::Serialize)]
struct Unreadable;

impl<'de> serde::Deserialize<'de> for Unreadable {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        panic!("cannot read")
    }
}

/// Takes what cannot be read.
#[workflow]
async fn reading(_cx: &mut Cx, _input: Unreadable) -> Result<u32> {
    Ok(1)
}

#[tokio::test]
async fn an_input_whose_decoder_panics_stops_its_run_and_no_other() {
    let place = Place::sqlite();
    let engine = evicting(&place.store).start().await.unwrap();
    let run = engine.start::<reading>(Unreadable).id("r").await.unwrap();
    match soon(run.result()).await {
        Err(RunError::Stopped { fault, .. }) => {
            assert!(matches!(&*fault, Fault::Panicked { .. }), "{fault}");
        }
        other => panic!("{other:?}"),
    }
    let released = async {
        while place.store.run(run.id()).await.unwrap().unwrap().owner.is_some() {
            sleep(5 * MS).await;
        }
    };
    soon(released).await;
    assert!(engine.verify(run.id()).await.unwrap_err().to_string().contains("cannot read"));
    assert_eq!(soon(engine.start::<quick>(4).await.unwrap().result()).await.unwrap(), 8);
}

/// A race that a large signal loses after it was taken.
#[workflow]
async fn racing(cx: &mut Cx) -> Result<Vec<usize>> {
    let _: u32 = cx.signal("start").await?;
    let won: String = cx
        .race((
            async |cx: &mut Cx| cx.signal::<String>("page").await,
            async |cx: &mut Cx| cx.signal::<String>("bell").await,
        ))
        .await?;
    let first: String = cx.signal("page").await?;
    let second: String = cx.signal("page").await?;
    Ok(vec![won.len(), first.len(), second.len()])
}

#[tokio::test]
async fn a_large_signal_that_loses_a_race_comes_next_and_in_order() {
    let place = Place::sqlite();
    let engine = builder(Arc::clone(&place.store), &Stage::new()).start().await.unwrap();
    let run = engine.start::<racing>(()).id("r").await.unwrap();
    for (name, id, size) in [("page", "a", 200_000), ("page", "b", 2), ("bell", "c", 1)] {
        engine.signal(run.id(), name, id, &"x".repeat(size)).await.unwrap();
    }
    engine.signal(run.id(), "start", "d", &0).await.unwrap();
    assert_eq!(soon(run.result()).await.unwrap(), [1, 200_000, 2]);
    soon(engine.verify(run.id())).await.unwrap();
}

async fn looks_and_panics(_cx: &mut StepCx) -> Result<Probe<u32>> {
    panic!("cannot look")
}

/// Change the world and lose the answer.
#[step(effect = "tool", on_unknown = "probe", probe = looks_and_panics)]
async fn act_unseen(_cx: &mut StepCx) -> Result<u32> {
    Err(Failure::unknown("no idea"))
}

/// Change the world under a key that cannot be told.
#[step(effect = "tool", irreversible, key = |what| if what.is_empty() { panic!("no key") } else { what })]
async fn act_keyed(_cx: &mut StepCx, what: &str) -> Result<u32> {
    Ok(u32::try_from(what.len()).unwrap_or(0))
}

/// Both, with what they say.
#[workflow]
async fn unseen(cx: &mut Cx) -> Result<Vec<String>> {
    let mut said = Vec::new();
    said.push(act_unseen(cx).await.map_or_else(|error| error.to_string(), |n| n.to_string()));
    said.push(act_keyed(cx, "").await.map_or_else(|error| error.to_string(), |n| n.to_string()));
    Ok(said)
}

#[tokio::test]
async fn a_probe_that_panics_leaves_its_step_in_doubt() {
    for place in stores() {
        let place = place();
        let engine = evicting(&place.store).start().await.unwrap();
        let run = engine.start::<unseen>(()).id("r").await.unwrap();
        let said = soon(run.result()).await.unwrap();
        assert!(said[0].contains("its probe panicked: cannot look"), "{said:?}");
        assert!(said[1].contains("panicked: no key"), "{said:?}");
        let rows = engine.ledger(run.id()).await.unwrap();
        assert_eq!(rows.len(), 1);
        assert!(!rows[0].committed);
        soon(engine.verify(run.id())).await.unwrap();
    }
}

/// Panics when it is asked.
#[derive(Debug)]
struct Panics;

impl ReplayPolicy for Panics {
    fn consult(&self, _: &Consulted<'_>) -> Verdict {
        panic!("no policy")
    }
}

#[tokio::test]
async fn a_policy_that_panics_forbids_and_fails_no_run() {
    let place = Place::memory();
    let engine = evicting(&place.store).policy(Panics).start().await.unwrap();
    let run = engine.start::<quick>(4).id("r").await.unwrap();
    let Err(RunError::Stopped { fault, .. }) = soon(run.result()).await else { panic!("it goes on") };
    assert!(fault.to_string().contains("no policy"), "{fault}");
}

/// A value that is too large for the journal.
#[step(effect = "read")]
async fn look_at_much(_cx: &mut StepCx) -> Result<String> {
    Ok("x".repeat(100_000))
}

/// A change of the world beside it.
#[workflow]
async fn acting_beside_much(cx: &mut Cx) -> Result<(String, usize)> {
    let (acted, much) = cx
        .join((async |cx: &mut Cx| act(cx, "paid").await, async |cx: &mut Cx| look_at_much(cx).await))
        .await;
    Ok((acted?, much?.len()))
}

#[tokio::test]
async fn a_store_that_is_out_of_reach_for_a_while_cuts_off_no_body() {
    let away = StoreError::Unavailable { store: "memory".into(), reason: "a failover".into() };
    let store = Arc::new(FailingStore::new(Arc::new(MemoryStore::new())).effect_fails(5, away));
    let stage = Stage::new();
    let engine = builder(store.clone(), &stage).start().await.unwrap();
    let run = engine.start::<acting_beside_much>(()).id("beside").await.unwrap();
    stage.entered().await;
    // The pauses between five tries are 620 ms.
    sleep(900 * MS).await;
    stage.open();
    assert_eq!(soon(run.result()).await.unwrap(), ("paid 0".to_owned(), 100_000));
    assert_eq!((stage.calls(), store.run(run.id()).await.unwrap().unwrap().epoch), (1, 1));
}

#[tokio::test]
async fn a_run_that_could_not_be_released_on_a_full_disk_is_released_when_there_is_room() {
    let memory: Arc<dyn Store> = Arc::new(MemoryStore::new());
    // The first append of the second run fails, and so does giving it back.
    let store = FailingStore::new(memory).append_fails(2, full()).release_fails(3, full());
    is_released_in_the_end(store).await;
}

/// A store that does not wait for locks, and a connection of another process to its file.
fn impatient(path: &Path, max_pages: Option<u32>) -> (Arc<dyn Store>, Connection) {
    let options = SqliteOptions {
        busy_timeout: 20 * MS,
        lock_patience: Duration::ZERO,
        max_pages,
        ..SqliteOptions::default()
    };
    let store = SqliteStore::open_with(path, options).unwrap();
    let other = Connection::open(path).unwrap();
    other.busy_timeout(Duration::from_secs(10)).unwrap();
    (Arc::new(store), other)
}

async fn assert_written_once(store: &Arc<dyn Store>, stage: &Stage, run: &RunId) {
    assert_eq!(stage.calls(), 1);
    let rows = store.entries(run).await.unwrap();
    assert!(rows.len() == 1 && rows[0].committed, "{rows:?}");
}

#[tokio::test]
async fn an_outcome_that_cannot_be_written_while_the_file_is_locked_is_written_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let (store, other) = impatient(&folder.path().join("a.db"), None);
    let stage = Stage::new();
    let engine = builder(Arc::clone(&store), &stage).lease(Duration::from_secs(5)).start().await.unwrap();
    let run = engine.start::<one_act>("pay".into()).id("r").await.unwrap();
    stage.entered().await;
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    stage.open();
    // Far longer than the writer waits for a lock.
    sleep(500 * MS).await;
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(soon(run.result()).await.unwrap(), "pay 0");
    assert_written_once(&store, &stage, run.id()).await;
    soon(engine.verify(run.id())).await.unwrap();
}

/// Uses up all the room that `store` has on its disk.
fn fill(other: &Connection) {
    other.execute_batch("CREATE TABLE ballast AS SELECT zeroblob(4000000) AS bytes").unwrap();
}

#[tokio::test]
async fn an_outcome_that_cannot_be_written_on_a_full_disk_is_written_when_there_is_room() {
    // The first goes into the journal, the second through the effect store.
    for size in [40_000, 500_000] {
        let folder = tempfile::tempdir().unwrap();
        let (store, other) = impatient(&folder.path().join("a.db"), Some(800));
        let stage = Stage::new();
        let engine = builder(Arc::clone(&store), &stage).lease(Duration::from_secs(5)).start().await.unwrap();
        let what = "x".repeat(size);
        let run = engine.start::<one_act>(what.clone()).id("r").await.unwrap();
        stage.entered().await;
        fill(&other);
        stage.open();
        sleep(500 * MS).await;
        assert!(!store.entries(run.id()).await.unwrap()[0].committed);
        other.execute_batch("DROP TABLE ballast").unwrap();
        assert_eq!(soon(run.result()).await.unwrap(), format!("{what} 0"));
        assert_written_once(&store, &stage, run.id()).await;
        soon(engine.verify(run.id())).await.unwrap();
    }
}

#[tokio::test]
async fn a_shutdown_on_a_full_disk_ends_and_says_what_was_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let (store, other) = impatient(&folder.path().join("a.db"), Some(800));
    let stage = Stage::new();
    let engine = builder(store, &stage).start().await.unwrap();
    let run = engine.start::<one_act>("x".repeat(40_000)).id("r").await.unwrap();
    stage.entered().await;
    fill(&other);
    stage.open();
    // Long enough for the body to end, and for its outcome to come to the writer.
    sleep(1000 * MS).await;
    drop(run);
    let ended = timeout(Duration::from_secs(120), engine.shutdown_within(1000 * MS)).await.expect("it hangs");
    let error = ended.unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    assert!(error.to_string().contains("(runs `r`)"), "{error}");
}

/// Awaits where the compiler does not see it.
macro_rules! hidden {
    ($future:ident) => {
        $future.await
    };
}

async fn timer(ms: u32) {
    sleep(ms * MS).await;
}

/// Waits in a macro for what no journal holds.
#[workflow(macros(hidden))]
async fn astray(cx: &mut Cx, long: bool) -> Result<u32> {
    let first = cx.random().await % 7;
    let timer = timer(if long { 3_600_000 } else { 1 });
    hidden!(timer);
    Ok(u32::try_from(first).unwrap_or(0))
}

/// A branch of a plain function, which has no gate.
fn joined(cx: &mut Cx) -> impl aether::effect::Recorded<Output = (u32, u32)> + '_ {
    cx.join((
        async |_cx: &mut Cx| {
            std::future::pending::<()>().await;
            1
        },
        async |cx: &mut Cx| {
            cx.sleep(3600 * 1000 * MS).await;
            2
        },
    ))
}

/// Waits in a branch that is not its own.
#[workflow]
async fn joining(cx: &mut Cx) -> Result<u32> {
    let (a, b) = joined(cx).await;
    Ok(a + b)
}

#[tokio::test]
async fn a_wait_for_what_is_no_effect_parks_its_run_at_once_wherever_it_is_hidden() {
    let place = Place::sqlite();
    let engine = evicting(&place.store).start().await.unwrap();
    let stray = |result: Result<u32, RunError<Failure>>| match result {
        Err(RunError::Stopped { fault, .. }) => {
            assert!(matches!(&*fault, Fault::StrayAwait { .. }), "{fault}");
            assert!(fault.needs_other_code());
        }
        other => panic!("{other:?}"),
    };
    for long in [true, false] {
        let run = engine.start::<astray>(long).await.unwrap();
        stray(soon(run.result()).await);
    }
    let run = engine.start::<joining>(()).await.unwrap();
    stray(soon(run.result()).await);
    engine.shutdown().await.unwrap();
}
