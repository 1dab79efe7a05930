//! Random work on queues, on the memory store and on a file at once: both take the same runs in the same order, no limit is
//! ever exceeded, no slot leaks, and everything gets its turn in the end. The file is closed and opened again at any
//! instant; workers fall silent, retire, and are taken over. A failure names its seed: `AETHER_SEED=7 cargo test -p
//! aether-sqlite --test queues`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aether_core::contract::Status;
use aether_core::id::{CodeId, RunId, WorkerId};
use aether_core::journal::Frame;
use aether_core::labels::Labels;
use aether_core::payload::{Digest, Payload};
use aether_core::queue::{QueuePlace, Serves, StartTerms};
use aether_core::store::memory::MemoryStore;
use aether_core::store::{
    Ack, Append, ClaimRequest, Created, DurableWatermark, Lease, Limit, LimitKind, Message, NewRun,
    RunRecord, SilentWorker, StatusChange, Store,
};
use aether_sqlite::SqliteStore;
use jiff::Timestamp;
use tempfile::TempDir;

/// A small generator, so that a seed means the same in every build (SplitMix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    fn pick<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[usize::try_from(self.roll(texts.len() as u64)).unwrap()]
    }
}

const QUEUES: [&str; 2] = ["mail", "jobs"];
const KEYS: [&str; 6] = ["", "acme", "acme/ann", "acme/bob", "bolt", "cy/x"];
const PATTERNS: [&str; 7] = ["mail", "mail/*", "mail/acme", "mail/acme/*", "jobs", "jobs/*", "jobs/acme/ann"];
const WORKERS: [&str; 3] = ["w0", "w1", "w2"];

fn worker(name: &str) -> WorkerId {
    WorkerId::from(name.to_owned())
}

fn code(name: &str) -> CodeId {
    CodeId::of("shop", name, 1, "0011223344556677")
}

fn frame() -> Frame {
    let event =
        aether_core::journal::event::NodeFinished { command: aether_core::id::CommandId::new("0", "x") };
    Frame::encode(&[event.into()]).unwrap()
}

/// What was granted: a run, since when, and whether it holds a slot.
#[derive(Clone, Debug)]
struct Held {
    worker: String,
    slot: bool,
    place: Option<QueuePlace>,
}

struct World {
    seed: u64,
    dice: Dice,
    now: i64,
    memory: Arc<dyn Store>,
    file: Option<Arc<dyn Store>>,
    path: PathBuf,
    _folder: TempDir,
    limits: BTreeMap<(String, &'static str), Limit>,
    held: BTreeMap<RunId, Held>,
    /// First turns that were granted, since the limit that counts them was set.
    starts: Vec<(i64, QueuePlace)>,
    set_at: BTreeMap<String, usize>,
    created: u64,
    renewals: BTreeMap<&'static str, u64>,
}

impl World {
    async fn new(seed: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.db");
        let file: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).unwrap());
        let world = Self {
            seed,
            dice: Dice(seed),
            now: 1_700_000_000_000_000,
            memory: Arc::new(MemoryStore::new()),
            file: Some(file),
            path,
            _folder: folder,
            limits: BTreeMap::new(),
            held: BTreeMap::new(),
            starts: Vec::new(),
            set_at: BTreeMap::new(),
            created: 0,
            renewals: WORKERS.map(|name| (name, 0)).into(),
        };
        for name in WORKERS {
            for store in world.stores() {
                assert!(store.register(&worker(name), Duration::from_secs(60), Vec::new()).await.unwrap());
            }
        }
        world
    }

    fn stores(&self) -> [Arc<dyn Store>; 2] {
        [Arc::clone(&self.memory), Arc::clone(self.file.as_ref().unwrap())]
    }

    fn time(&self) -> Timestamp {
        Timestamp::from_microsecond(self.now).unwrap()
    }

    /// Does the same on both stores; they must answer alike.
    async fn both<T: PartialEq + std::fmt::Debug>(&self, ask: impl AsyncFn(Arc<dyn Store>) -> T) -> T {
        let [memory, file] = self.stores();
        let (expected, found) = (ask(memory).await, ask(file).await);
        assert_eq!(found, expected, "seed {}: the file answers otherwise", self.seed);
        expected
    }

    async fn step(&mut self) {
        self.now += i64::try_from(self.dice.roll(3_000_000)).unwrap();
        match self.dice.roll(22) {
            0..=6 => self.create().await,
            7..=12 => self.claim().await,
            13..=16 => self.end_turn().await,
            17 => self.change_limit().await,
            18 => self.fall_silent().await,
            19 => self.ask_to_end().await,
            20 => self.retire().await,
            _ => self.reopen().await,
        }
    }

    async fn create(&mut self) {
        self.created += 1;
        let id = format!("r{:04}", self.created);
        let mut terms = StartTerms::default();
        if self.dice.roll(6) > 0 {
            let mut place = QueuePlace::new(self.dice.pick(&QUEUES)).unwrap();
            place.key = self.dice.pick(&KEYS).into();
            place.priority = i32::try_from(self.dice.roll(3)).unwrap();
            terms.queue = Some(place);
            if self.dice.roll(8) == 0 {
                terms.expires_at = Some(self.time() + Duration::from_secs(self.dice.roll(40)));
            }
        }
        if self.dice.roll(6) == 0 {
            terms.not_before = Some(self.time() + Duration::from_secs(self.dice.roll(20)));
        }
        let new = NewRun {
            id: RunId::new(&*id).unwrap(),
            workflow: "flow".into(),
            version: 1,
            code: code(self.dice.pick(&["flow", "flow", "flow", "other"])),
            digest: Digest::of(&Payload::encode(&*id).unwrap()).unwrap(),
            parent: None,
            labels: Labels::default(),
            traceparent: None,
            frame: frame(),
            at: self.time(),
            owner: None,
            parent_epoch: None,
            terms,
        };
        let created = self.both(async |store| store.create(new.clone()).await.unwrap()).await;
        if let Created::OverLimit { limit, open } = created {
            assert!(open >= u64::from(limit.kind.number()), "seed {}", self.seed);
        }
    }

    async fn claim(&mut self) {
        let name = WORKERS[usize::try_from(self.dice.roll(3)).unwrap()];
        let limit = usize::try_from(1 + self.dice.roll(6)).unwrap();
        let codes =
            if self.dice.roll(3) == 0 { vec![code("flow")] } else { vec![code("flow"), code("other")] };
        let serves = self.some();
        self.take(name, limit, codes, Vec::new(), serves).await;
    }

    /// What a worker serves: often all.
    fn some(&mut self) -> Serves {
        if self.dice.roll(2) == 0 {
            return Serves::ALL;
        }
        let patterns = (0..self.dice.roll(3)).map(|_| self.dice.pick(&PATTERNS).parse().unwrap()).collect();
        Serves { queues: Some(patterns), others: self.dice.roll(2) == 0 }
    }

    async fn take(
        &mut self,
        name: &str,
        limit: usize,
        codes: Vec<CodeId>,
        silent: Vec<SilentWorker>,
        serves: Serves,
    ) -> usize {
        let request = ClaimRequest {
            worker: worker(name),
            now: self.time(),
            silent,
            limit,
            codes,
            only: None,
            adopt: Vec::new(),
            serves: serves.clone(),
            others_first: self.dice.roll(2) == 0,
            lapsed_first: self.dice.roll(2) == 0,
        };
        let key = |lease: &Lease| (lease.run.clone(), lease.taken_from.clone());
        let leases = self
            .both(async |store| {
                store.claim(request.clone()).await.unwrap().iter().map(key).collect::<Vec<_>>()
            })
            .await;
        let count = leases.len();
        for (run, taken_from) in leases {
            assert!(serves.takes(run.terms.queue.as_ref()), "seed {}: {serves:?} and {run:?}", self.seed);
            self.granted(name, run, taken_from.is_some());
        }
        self.check_running();
        count
    }

    /// A claim granted a run.
    fn granted(&mut self, name: &str, run: RunRecord, was_taken: bool) {
        let place = run.terms.queue.clone();
        let former = self.held.get(&run.id).cloned();
        assert_eq!(former.is_some(), was_taken, "seed {}: {} was held", self.seed, run.id);
        let slot = former.map_or(run.queue.started_at.is_some(), |former| former.slot);
        if let Some(place) = &place {
            assert!(run.queue.waits_since.is_none());
            if !was_taken && run.queue.started_at == Some(self.time()) {
                self.starts.push((self.now, place.clone()));
                self.check_starts();
            }
        }
        let held = Held { worker: name.to_owned(), slot, place };
        self.held.insert(run.id, held);
    }

    fn check_running(&self) {
        for limit in self.limits.values() {
            let LimitKind::Running(n) = limit.kind else { continue };
            let mut held = BTreeMap::new();
            for place in self.held.values().filter(|held| held.slot).filter_map(|held| held.place.as_ref()) {
                if let Some(scope) = limit.pattern.scope(place) {
                    *held.entry(scope).or_insert(0_u32) += 1;
                }
            }
            for (scope, held) in held {
                assert!(held <= n, "seed {}: {held} of {scope:?} have a slot, over {limit}", self.seed);
            }
        }
    }

    fn check_starts(&self) {
        for limit in self.limits.values() {
            let LimitKind::Starts { n, per } = limit.kind else { continue };
            let since = self.set_at.get(limit.pattern.as_str()).copied().unwrap_or(0);
            let Some((_, newest)) = self.starts.last() else { continue };
            let Some(scope) = limit.pattern.scope(newest) else { continue };
            let begins = self.now - i64::try_from(per.as_micros()).unwrap();
            let counted =
                self.starts.iter().skip(since).filter(|(at, place)| *at > begins && scope.holds(place));
            let counted = counted.count();
            assert!(counted <= n as usize, "seed {}: {counted} starts of {scope:?}, over {limit}", self.seed);
        }
    }

    async fn change_limit(&mut self) {
        let pattern = self.dice.pick(&PATTERNS).to_owned();
        let n = u32::try_from(1 + self.dice.roll(4)).unwrap();
        let kind = match self.dice.roll(5) {
            0 | 1 => LimitKind::Running(n),
            2 => LimitKind::Starts { n, per: Duration::from_secs(1 + self.dice.roll(20)) },
            3 => LimitKind::Open(10 * n),
            _ => LimitKind::Weight(n),
        };
        let limit = Limit::new(&*pattern, kind).unwrap();
        let known = (pattern.clone(), kind.name());
        // A pattern of starts is counted anew only after it was removed: so is it here.
        if self.limits.contains_key(&known) || self.is_exceeded(&limit) {
            let removed =
                self.both(async |store| store.remove_limit(&limit.pattern, kind.name()).await.unwrap()).await;
            assert_eq!(removed, self.limits.remove(&known).is_some());
        } else {
            self.both(async |store| store.put_limit(limit.clone()).await.unwrap()).await;
            if matches!(kind, LimitKind::Starts { .. }) {
                self.set_at.insert(pattern, self.starts.len());
            }
            self.limits.insert(known, limit);
        }
        self.both(async |store| store.limits().await.unwrap()).await;
    }

    fn is_exceeded(&self, limit: &Limit) -> bool {
        let LimitKind::Running(n) = limit.kind else { return false };
        let places = self.held.values().filter(|held| held.slot).filter_map(|held| held.place.as_ref());
        let mut counts = BTreeMap::new();
        for scope in places.filter_map(|place| limit.pattern.scope(place)) {
            *counts.entry(scope).or_insert(0_u32) += 1;
        }
        counts.values().any(|count| *count > n)
    }

    /// Ends the turn of one of the runs that are held: it ends, waits, or is released.
    async fn end_turn(&mut self) {
        let ids: Vec<RunId> = self.held.keys().cloned().collect();
        if ids.is_empty() {
            return;
        }
        let id = ids[usize::try_from(self.dice.roll(ids.len() as u64)).unwrap()].clone();
        let until = self.time() + Duration::from_secs(self.dice.roll(15));
        let choice = self.dice.roll(5);
        self.finish(&id, choice, until).await;
    }

    async fn finish(&mut self, id: &RunId, choice: u64, until: Timestamp) {
        let Some(held) = self.held.remove(id) else { return };
        let at = self.time();
        // A claim without a slot does nothing but end its run, or give up for a while.
        let choice = if held.slot || held.place.is_none() { choice } else { 0 };
        self.both(async |store| {
            let record = store.run(id).await.unwrap().unwrap();
            if choice == 4 {
                let owner = record.owner.clone().unwrap();
                return store.release(&owner, id, record.epoch, until).await.unwrap();
            }
            let (status, wake_at) = match choice {
                3 => (Status::Waiting, None),
                2 => (Status::Waiting, Some(until)),
                _ => (Status::Completed, None),
            };
            let change = StatusChange { status, wake_at, release: true, seen: u64::MAX, notify: None };
            let watermark = Arc::new(DurableWatermark::from(record.next));
            let (ack, reply) = Ack::awaited(id.clone(), record.next + 1, watermark);
            store.append(Append {
                run: id.clone(),
                epoch: record.epoch,
                expected: record.next,
                at,
                frame: frame(),
                work: None,
                acquire: None,
                ledger: Vec::new(),
                status: Some(change),
                consumed: Vec::new(),
                waits: Vec::new(),
                code: None,
                unless_asked_to_end: false,
                renews: None,
                streams: Vec::new(),
                ack,
            });
            reply.await.unwrap().unwrap();
        })
        .await;
    }

    /// A worker dies without a word, and another takes its runs over, with their slots.
    async fn fall_silent(&mut self) {
        let name = WORKERS[usize::try_from(self.dice.roll(3)).unwrap()];
        let renewals = self.renewals[name];
        let silent = vec![SilentWorker { id: worker(name), renewals }];
        let other = WORKERS[usize::try_from(self.dice.roll(3)).unwrap()];
        if other != name {
            let serves = self.some();
            self.take(other, 4, vec![code("flow"), code("other")], silent, serves).await;
        }
    }

    /// A worker stops: its runs are free at once.
    async fn retire(&mut self) {
        let name = WORKERS[usize::try_from(self.dice.roll(3)).unwrap()];
        self.both(async |store| {
            store.retire(&worker(name)).await.unwrap();
            store.register(&worker(name), Duration::from_secs(60), Vec::new()).await.unwrap()
        })
        .await;
        self.held.retain(|_, held| held.worker != name);
    }

    async fn ask_to_end(&mut self) {
        let no = 1 + self.dice.roll(self.created.max(1));
        let id = RunId::new(format!("r{no:04}")).unwrap();
        let message = Message {
            seq: 0,
            id: format!("end{}", self.now),
            topic: self.dice.pick(&["cancel", "signal:x"]).into(),
            payload: Payload::null(),
            at: self.time(),
        };
        self.both(async |store| store.send(&id, message.clone()).await.is_ok()).await;
    }

    /// The process ends with what it has queued, and another opens the file.
    async fn reopen(&mut self) {
        // A worker's lock ends with its process, so only workers that hold nothing may be gone: the others are known to
        // be dead to whoever claims next. Here the memory store must see the same.
        self.both(async |store| {
            for name in WORKERS {
                store.retire(&worker(name)).await.unwrap();
            }
        })
        .await;
        self.held.clear();
        drop(self.file.take());
        self.file = Some(Arc::new(SqliteStore::open(&self.path).unwrap()));
        self.both(async |store| {
            for name in WORKERS {
                assert!(store.register(&worker(name), Duration::from_secs(60), Vec::new()).await.unwrap());
            }
        })
        .await;
    }

    /// Everything that can end does, once limits and time allow it.
    async fn drain(&mut self) {
        let codes = || vec![code("flow"), code("other")];
        let mut idle = 0;
        while idle < 60 {
            self.now += 2_000_000;
            let ids: Vec<RunId> = self.held.keys().cloned().collect();
            for id in ids {
                self.finish(&id, 0, self.time()).await;
            }
            idle = if self.take("w0", 5, codes(), Vec::new(), Serves::ALL).await == 0 { idle + 1 } else { 0 };
        }
        let left = self
            .both(async |store| {
                let open = store.runs(aether_core::store::RunFilter::new().open()).await.unwrap();
                // Only those may be left that nothing wakes.
                open.into_iter().filter(|run| run.wake_at.is_some()).map(|run| run.id).collect::<Vec<_>>()
            })
            .await;
        assert!(left.is_empty(), "seed {}: no turn for {left:?} under {:?}", self.seed, self.limits.values());
    }
}

async fn play(seed: u64, steps: usize) {
    let mut world = World::new(seed).await;
    for _ in 0..steps {
        world.step().await;
    }
    world.drain().await;
}

#[tokio::test]
async fn both_stores_take_the_same_within_limits_whatever_dies() {
    if let Ok(seed) = std::env::var("AETHER_SEED") {
        return play(seed.parse().unwrap(), 300).await;
    }
    for seed in 0..6 {
        play(seed, 150).await;
    }
}
