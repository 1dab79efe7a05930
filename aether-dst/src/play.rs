//! A story is played: engines are started and stopped, runs are started, signalled, approved and cancelled, and when the
//! world has become fair, everything must come to its end.
//!
//! Promise: what is done inside an engine's process belongs to the engine's group, so it stops when that does; no lock of
//! this file is held where a task can be left.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aether_core::engine::{Engine, EngineBuilder, Retention};
use aether_core::id::RunId;
use aether_core::limits::Limits;
use aether_core::payload::Payload;
use aether_core::run::RunEnd;
use aether_core::store::memory::MemoryStore;
use aether_core::store::{Message, RunFilter, Store, StoreError, WaitFilter};
use aether_core::view::pending::Waiting;
use aether_sqlite::rusqlite::Connection;
use futures_util::FutureExt as _;
use futures_util::future::{Either, select};
use tokio::sync::{Notify, oneshot};

use crate::judge;
use crate::judged::{DatabaseFile, JudgedStore};
use crate::program;
use crate::sim::{self, task::quiet};
use crate::store::{Faults, SimStore};
use crate::story::{Deed, Medium, Story};
use crate::world::{SimWorld, sleep, sleep_until, stamp};

pub mod owed;
pub mod verdict;

/// When the world becomes fair, in microseconds.
const CALM: u64 = 4_000_000;
/// How long everything may then take.
const FAIR: u64 = 150_000_000;

/// An engine in a slot.
#[derive(Clone)]
struct Up {
    number: u32,
    engine: Engine,
    faults: Faults,
}

/// What all engines of a story share.
enum Content {
    /// In memory, with the faults of the file that it stands for.
    Memory(MemoryStore, Faults),
    /// A file, and a store on it that belongs to no engine.
    File(Arc<DatabaseFile>, Arc<JudgedStore>),
}

impl Content {
    fn new(story: &Story) -> Result<Self, StoreError> {
        if !story.file {
            return Ok(Self::Memory(MemoryStore::new(), Faults::default()));
        }
        let file = Arc::new(DatabaseFile::new());
        let outside = JudgedStore::open(0, file.path())?;
        Ok(Self::File(file, outside))
    }

    /// The store, as seen from outside of the engines.
    fn outside(&self) -> &dyn Store {
        match self {
            Self::Memory(memory, _) => memory,
            Self::File(_, outside) => &**outside,
        }
    }
}

struct Stage {
    content: Content,
    story: Story,
    slots: Mutex<[Option<Up>; 2]>,
    /// Slots whose engine is being started.
    starting: [AtomicBool; 2],
    engines: AtomicU32,
    /// Deeds that are not done yet.
    left: AtomicUsize,
    killed: Notify,
}

/// Plays a story; what is wrong is told to the judge.
pub async fn play(story: Story) {
    let content = match Content::new(&story) {
        Ok(content) => content,
        Err(error) => return judge::violated("no-store", error.to_string()),
    };
    let stage = Arc::new(Stage {
        content,
        story: story.clone(),
        slots: Mutex::default(),
        starting: Default::default(),
        engines: AtomicU32::new(0),
        left: AtomicUsize::new(0),
        killed: Notify::new(),
    });
    // A child may be started late, or never: its signals may wait for ever.
    let counts = |deed: &Deed| !matches!(deed, Deed::Signal(_, run, ..) if run.starts_with("kid"));
    stage.left.store(story.deeds.iter().filter(|(_, deed)| counts(deed)).count(), Ordering::Relaxed);
    for (number, (at, deed)) in story.deeds.iter().cloned().enumerate() {
        let (stage, counts) = (Arc::clone(&stage), usize::from(counts(&deed)));
        sim::spawn_in(0, "deed", async move {
            sleep_until(at * 1_000).await;
            sim::say(|| format!("{deed:?}"));
            stage.done(number as u64, deed).await;
            stage.left.fetch_sub(counts, Ordering::Relaxed);
        });
    }
    if story.asks() {
        let stage = Arc::clone(&stage);
        sim::spawn_in(0, "people", async move { stage.decide().await });
    }
    stage.wait_for_all().await;
    if story.undoes() {
        stage.verify().await;
    }
    verdict::judge(stage.content.outside(), &story).await;
}

/// Holds the write lock of a file for a while, as another process does.
async fn lock(path: &Path, span: u64) {
    judge::with(|facts| facts.trouble = Some("after-fault"));
    let Ok(connection) = Connection::open(path) else { return };
    if connection.execute_batch("BEGIN IMMEDIATE").is_ok() {
        sleep(span).await;
        let _closed_anyway = connection.execute_batch("ROLLBACK");
    }
}

impl Stage {
    fn slots(&self) -> MutexGuard<'_, [Option<Up>; 2]> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, slot: usize) -> Option<Up> {
        self.slots()[slot].clone()
    }

    fn take(&self, slot: usize) -> Option<Up> {
        self.slots()[slot].take()
    }

    /// The engine of a slot, or the other one; waits a while for one.
    async fn any(&self, slot: usize) -> Option<Up> {
        for _ in 0..20 {
            if let Some(up) = self.slot(slot).or_else(|| self.slot(1 - slot)) {
                return Some(up);
            }
            sleep(50_000).await;
        }
        None
    }

    async fn up(&self, slot: usize) {
        if self.slot(slot).is_some() || self.starting[slot].swap(true, Ordering::Relaxed) {
            return;
        }
        let number = self.engines.fetch_add(1, Ordering::Relaxed) + 1;
        let faults = Faults::default();
        let builder = EngineBuilder::new(Arc::new(SimWorld))
            .limits(Limits { inline: self.story.inline, ..Limits::default() })
            .lease(Duration::from_millis(judge::LEASE))
            .eviction_grace(Duration::from_millis(100))
            .cancel_grace(Duration::from_millis(500));
        let builder = match &self.content {
            Content::Memory(memory, file) => {
                let faults = [&faults, file].map(Arc::clone);
                builder.store(SimStore::new(number, memory.clone(), faults, self.story.slow))
            }
            Content::File(file, _) => {
                let file = Arc::clone(file);
                builder.store_with(move || Ok(JudgedStore::open(number, file.path())?))
            }
        };
        let started = self.inside(number, async move { builder.start().await.ok() }).await.flatten();
        self.slots()[slot] = started.map(|engine| Up { number, engine, faults });
        self.starting[slot].store(false, Ordering::Relaxed);
    }

    /// Does what a caller in the engine's own process does; `None` if the engine is killed meanwhile.
    async fn inside<T: Send + 'static>(
        &self,
        engine: u32,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (answer, mut answered) = oneshot::channel();
        sim::spawn_in(engine, "caller", async move {
            let _gone = answer.send(work.await);
        });
        loop {
            let killed = self.killed.notified();
            if sim::is_killed(engine) {
                return None;
            }
            match select(&mut answered, Box::pin(killed)).await {
                Either::Left((answer, _)) => return answer.ok(),
                Either::Right(_) => {}
            }
        }
    }

    async fn done(&self, number: u64, deed: Deed) {
        match deed {
            Deed::Up(slot) => self.up(slot).await,
            Deed::Down(slot, patience) => self.down(slot, patience).await,
            Deed::Kill(slot) => {
                if let Some(up) = self.take(slot) {
                    judge::with(|facts| facts.cut = true);
                    sim::kill(up.number);
                    self.killed.notify_waiters();
                }
            }
            Deed::Pause(slot, span) => {
                if let Some(up) = self.slot(slot) {
                    sim::pause(up.number, span * 1_000);
                }
            }
            Deed::Leap(by) => {
                judge::with(|facts| facts.trouble = facts.trouble.or(Some("after-leap")));
                sim::leap(by * 1_000);
            }
            Deed::Start(slot, number) => self.start(slot, number).await,
            Deed::Signal(via, run, name, large) => self.signal(via, &run, name, number, large).await,
            Deed::Cancel(slot, run) => self.cancel(slot, run).await,
            Deed::Advance(slot, run, patience) => self.advance(slot, run, patience).await,
            Deed::Purge(slot) => self.purge(slot).await,
            Deed::Wait(slot, run, patience) => self.wait(slot, run, patience).await,
            Deed::Fault(slot, span, medium) => self.fail(slot, span * 1_000, medium).await,
        }
    }

    async fn fail(&self, slot: usize, span: u64, medium: Medium) {
        let fault = Some((sim::now() + span, medium));
        let file = match &self.content {
            Content::Memory(_, file) => file,
            Content::File(file, _) => return lock(file.path(), span).await,
        };
        match medium {
            // It is the same file for all of them.
            Medium::Full | Medium::Locked => {
                judge::with(|facts| facts.trouble = Some("after-fault"));
                *file.lock().unwrap_or_else(PoisonError::into_inner) = fault;
            }
            // One of them does not reach it. An append that failed may leave a call in doubt.
            Medium::Gone => {
                let Some(up) = self.slot(slot) else { return };
                judge::with(|facts| facts.cut = true);
                *up.faults.lock().unwrap_or_else(PoisonError::into_inner) = fault;
            }
        }
    }

    async fn down(&self, slot: usize, patience: Option<u64>) {
        let Some(Up { number, engine, .. }) = self.take(slot) else { return };
        match patience {
            None => {
                judge::with(|facts| facts.cut = true);
                self.inside(number, async move { drop(engine) }).await;
            }
            Some(patience) => {
                judge::stopping(number, patience);
                let span = Duration::from_millis(patience);
                let stopped = self.inside(number, async move { engine.shutdown_within(span).await }).await;
                judge::stopped(number);
                sim::say(|| format!("engine {number} was shut down: {stopped:?}"));
            }
        }
    }

    async fn start(&self, slot: usize, number: usize) {
        // Until it is acknowledged: a store may fail, and an engine may be gone.
        for _ in 0..200 {
            if let Some(up) = self.any(slot).await {
                let program = self.story.runs[number].clone();
                let started = self.inside(up.number, async move {
                    up.engine.start::<program::story>(program).id(format!("run{number}")).await.is_ok()
                });
                if started.await == Some(true) {
                    return;
                }
            }
            sleep(20_000).await;
        }
    }

    /// Until it is acknowledged, or its run has ended or will never be.
    async fn signal(&self, via: Option<usize>, run: &str, name: u8, number: u64, large: bool) {
        let Ok(run) = RunId::new(run) else { return };
        let value = format!("{number}:{}", "x".repeat(if large { 60 } else { 1 }));
        loop {
            let sent = match via.and_then(|slot| self.slot(slot)) {
                Some(up) => {
                    let (run, value) = (run.clone(), value.clone());
                    let sent = self.inside(up.number, async move {
                        up.engine
                            .signal(&run, &format!("s{name}"), &format!("{number}"), &value)
                            .await
                            .is_ok()
                    });
                    sent.await == Some(true)
                }
                None => self.send(&run, name, number, &value).await.is_ok(),
            };
            if sent {
                sim::say(|| format!("signal {number} to {run} is acknowledged"));
                return;
            }
            sleep(250_000).await;
        }
    }

    /// As another process does.
    async fn send(&self, run: &RunId, name: u8, number: u64, value: &str) -> Result<(), StoreError> {
        sim::point("send");
        let unencodable =
            |error| StoreError::Unencodable { what: "a signal".into(), reason: format!("{error}") };
        let message = Message {
            seq: 0,
            id: format!("signal:{number}"),
            topic: format!("signal:s{name}"),
            payload: Payload::encode(&value).map_err(unencodable)?,
            at: stamp(sim::wall()),
        };
        match &self.content {
            Content::Memory(memory, _) => quiet(|| judge::send(memory, 0, run, message)).map(drop),
            Content::File(_, outside) => outside.send(run, message).await.map(drop),
        }
    }

    async fn cancel(&self, slot: usize, run: String) {
        let Some(up) = self.any(slot).await else { return };
        let Ok(run) = RunId::new(run) else { return };
        let cancelled = async move { up.engine.cancel(&run, "enough", "ann").await.is_ok() };
        self.inside(up.number, cancelled).await;
    }

    async fn advance(&self, slot: usize, run: String, patience: u64) {
        let Some(up) = self.slot(slot) else { return };
        let advanced = async move {
            let Ok(run) = up.engine.find(run).await else { return };
            let _whichever = select(run.advance().boxed(), sleep(patience)).await;
        };
        self.inside(up.number, advanced).await;
    }

    async fn purge(&self, slot: usize) {
        let Some(up) = self.any(slot).await else { return };
        judge::with(|facts| facts.purged = true);
        let none = Duration::ZERO;
        let all = Retention::new().completed(none).failed(none).cancelled(none);
        self.inside(up.number, async move { up.engine.purge(&all).await.is_ok() }).await;
    }

    async fn wait(&self, slot: usize, run: String, patience: u64) {
        let Some(up) = self.slot(slot) else { return };
        let waited = async move {
            let Ok(handle) = up.engine.find(run.clone()).await else { return };
            // The engine may be shut down while the handle lives on; only a clone of it would keep it.
            drop(up.engine);
            let ended = match select(handle.end().boxed(), sleep(patience * 1_000)).await {
                Either::Left((ended, _)) => ended,
                Either::Right(_) => return,
            };
            match ended {
                Ok(RunEnd::Completed(value)) => judge::has_ended(&run, value.as_str().to_owned()),
                Ok(RunEnd::Stopped(_)) | Err(_) => {}
                Ok(other) => judge::has_ended(&run, format!("{other:?}")),
            }
        };
        self.inside(up.number, waited).await;
    }

    /// Approves what waits for an approval, and reports what was left to callbacks.
    async fn decide(&self) {
        loop {
            sleep(100_000 + sim::draw(100_000)).await;
            let slot = usize::from(sim::draw(2) == 1);
            let Some(up) = self.slot(slot).or_else(|| self.slot(1 - slot)) else { continue };
            self.inside(up.number, async move {
                for (token, value) in judge::with(|facts| facts.callbacks.clone()) {
                    let body = judge::handing_over(&token);
                    let sent = up.engine.complete_callback(&token, &value).await;
                    sim::say(|| format!("report of {token}: {sent:?}"));
                    if sent.is_ok() {
                        judge::with(|facts| facts.callbacks.retain(|(open, _)| *open != token));
                    }
                    judge::reported(&token, body, &sent);
                }
                let listed = up.engine.all_pending(WaitFilter::for_reply()).await;
                for wait in listed.map(|page| page.waits).unwrap_or_default() {
                    if wait.waiting == Waiting::Approval {
                        let approved = up.engine.approve(&wait.run, &wait.command, "ann").await;
                        sim::say(|| format!("approval of {} in {}: {approved:?}", wait.command, wait.run));
                    }
                }
            })
            .await;
        }
    }

    /// Replays every run: what is recorded is what its program asks for.
    async fn verify(&self) {
        self.up(0).await;
        let Some(up) = self.any(0).await else { return };
        let runs = self.content.outside().runs(RunFilter::default()).await.unwrap_or_default();
        for run in runs {
            let engine = up.engine.clone();
            let id = run.id.clone();
            let verified = self.inside(up.number, async move { engine.verify(&id).await }).await;
            if let Some(Err(error)) = verified {
                judge::violated("not-replayed", format!("{}: {error}", run.id));
            }
        }
    }

    /// Waits until everything has come to its end. The world becomes fair after a while, so that it must.
    async fn wait_for_all(&self) {
        while sim::now() < CALM + FAIR {
            sleep(300_000).await;
            if sim::now() >= CALM {
                sim::calm_down();
            }
            if sim::now() > CALM + 1_500_000 && self.slot(0).is_none() && self.slot(1).is_none() {
                self.up(0).await;
            }
            if self.left.load(Ordering::Relaxed) == 0 && verdict::open_runs(self.content.outside()).await == 0
            {
                return;
            }
        }
        let left = self.left.load(Ordering::Relaxed);
        if left > 0 {
            judge::violated("stuck-caller", format!("{left} deeds are not done"));
        }
    }
}
