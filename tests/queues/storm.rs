//! Drives a storm: starts runs, changes limits, kills, pauses and shuts down workers, and judges at the end.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use aether::error::StartError;
use aether::id::RunId;
use aether::prelude::*;
use aether::queue::{Limit, LimitKind};
use aether::store::{RunFilter, RunRecord};
use aether::view::Status;
use fastrand::Rng;
use jiff::Timestamp;
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::RwLock;
use tokio::time::sleep;

use crate::LEASE;
use crate::judge::{self, Change, Claim, Found, Start};
use crate::log::{Line, Log, monotonic};
use crate::watcher::{Eyes, Seen, watch};
use crate::worker::{Job, builder, spawn, storm_guard, storm_shift};

const WORKERS: usize = 3;
/// Tasks that start runs.
const STARTERS: u64 = 5;
/// Runs that are open at once, at most.
const OPEN: u64 = 120;
/// Runs that a storm starts, at least.
const ENOUGH: usize = 150;
/// Bodies of which more must have ended than this, and runs of which more must have worked at once.
const BODIES: usize = 100;
const AT_ONCE: usize = 2;
/// How often more than this a limit must have been used up.
const FULL: u64 = 10;
/// What a machine without time for the storm gets in addition, at most.
const PATIENCE: Duration = Duration::from_secs(300);
/// For so long no run may end, or begin, once nothing happens to the workers any more.
const CALM: Duration = Duration::from_secs(120);

/// Limits that come and go: pattern, kind, and the most.
const LIMITS: &[(&str, &str, u32)] = &[
    ("mail", "running", 6),
    ("mail/*", "running", 3),
    ("mail/a", "running", 2),
    ("mail/c/*", "running", 1),
    ("press/*", "running", 3),
    ("press", "starts", 9),
    ("press/b", "starts", 4),
    ("mail", "open", 60),
    ("press/b", "open", 15),
    ("mail/b", "weight", 5),
];

const PLACES: &[&str] =
    &["-", "mail", "mail/a", "mail/a/x", "mail/b", "mail/c/y", "press", "press/a", "press/b"];

pub(crate) struct Storm {
    folder: PathBuf,
    address: String,
    client: Engine,
    log: Log,
    workers: Vec<Mutex<Child>>,
    changes: Mutex<Vec<Change>>,
    changed: AtomicU64,
    /// Read while a run is started.
    starting: RwLock<()>,
    is_over: AtomicBool,
    began: Mutex<Vec<(RunId, Job)>>,
    seed: u64,
    /// How often workers were killed, paused and shut down.
    faults: Mutex<[u64; 3]>,
    /// How often a limit of turns was used up.
    full: AtomicU64,
    /// Whether all that is asked for at the end has happened.
    is_enough: AtomicBool,
}

fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

impl Storm {
    pub(crate) async fn begin(folder: &Path, address: String, seed: u64) -> Self {
        let client = builder(folder, &address).await.client().start().await.unwrap();
        let workers = (0..WORKERS).map(|_| Mutex::new(spawn(folder, &address))).collect();
        Self {
            log: Log::in_folder(folder),
            folder: folder.into(),
            address,
            client,
            workers,
            changes: Mutex::default(),
            changed: AtomicU64::new(0),
            starting: RwLock::default(),
            is_over: AtomicBool::new(false),
            began: Mutex::default(),
            seed,
            faults: Mutex::default(),
            full: AtomicU64::new(0),
            is_enough: AtomicBool::new(false),
        }
    }

    /// Everything at once, and what is to be said of it afterwards.
    pub(crate) async fn rage(self, time: Duration) {
        let storm = Arc::new(self);
        let eyes = Eyes::open(&storm.address).await;
        let watching = Arc::clone(&storm);
        let watcher =
            tokio::spawn(
                async move { watch(eyes, &watching.changed, &watching.is_over, &watching.full).await },
            );
        let until = Instant::now() + time;
        let starts = futures::future::join_all((0..STARTERS).map(|starter| storm.start_runs(starter, until)));
        tokio::join!(starts, storm.change_limits(until), storm.hurt_workers(until), storm.look(until));
        storm.lift_limits().await;
        storm.until_all_ended().await;
        storm.is_over.store(true, Ordering::SeqCst);
        let seen = watcher.await.unwrap();
        storm.no_slot_is_left().await;
        storm.judge(seen).await;
        storm.end_workers().await;
        storm.client.clone().shutdown().await.unwrap();
    }

    /// Until it is time and, on a slow machine, until enough has happened.
    fn goes_on(&self, until: Instant) -> bool {
        let is_enough = || self.is_enough.load(Ordering::SeqCst);
        Instant::now() < until || (Instant::now() < until + PATIENCE && !is_enough())
    }

    /// Looks whether everything has happened that must have, when it would be time to end.
    async fn look(&self, until: Instant) {
        while self.goes_on(until) {
            sleep(ms(250)).await;
            if Instant::now() < until {
                continue;
            }
            let is_raging =
                self.began.lock().unwrap().len() >= ENOUGH && !self.faults.lock().unwrap().contains(&0);
            let found = judge::turns(&self.log.lines(), &[], &[]);
            let is_enough = is_raging
                && self.is_a_storm(&found)
                && self.has(RunFilter::new().status(Status::Completed)).await
                && self.has(RunFilter::new().status(Status::Cancelled)).await;
            self.is_enough.store(is_enough, Ordering::SeqCst);
        }
    }

    async fn has(&self, runs: RunFilter) -> bool {
        self.client.store().count(runs).await.is_ok_and(|count| count > 0)
    }

    fn is_a_storm(&self, found: &Found) -> bool {
        found.bodies > BODIES && found.most > AT_ONCE && self.full.load(Ordering::SeqCst) > FULL
    }

    async fn start_runs(&self, starter: u64, until: Instant) {
        let mut rng = Rng::with_seed(self.seed + 10 + starter);
        for no in 0.. {
            if !self.goes_on(until) {
                return;
            }
            if no % 16 == 0 {
                let open = || self.client.store().count(RunFilter::new().open());
                while self.goes_on(until) && open().await.unwrap_or(u64::MAX) > OPEN {
                    sleep(ms(20)).await;
                }
            }
            self.start_run(&format!("run-{starter}-{no}"), &mut rng).await;
            sleep(ms(rng.u64(2..16))).await;
        }
    }

    async fn start_run(&self, name: &str, rng: &mut Rng) {
        let place = rng.choice(PLACES).unwrap();
        let length = |rng: &mut Rng| if rng.u32(0..25) == 0 { rng.u64(300..1_200) } else { rng.u64(2..50) };
        let turns = (0..rng.usize(1..4)).map(|_| length(rng)).collect();
        let job = Job { place: (*place).into(), turns, wait: rng.u64(1..80) };
        let mut start = self.client.start::<storm_shift>(job.clone()).id(name);
        if let Some((queue, key)) = place.split_once('/').or(Some((place, ""))).filter(|_| *place != "-") {
            start = start.queue(queue).priority(rng.i32(-2..3));
            start = if key.is_empty() { start } else { start.key(key) };
            start = if rng.u32(0..8) == 0 { start.expires(ms(rng.u64(20..2_000))) } else { start };
        }
        let started = {
            let _under_way = self.starting.read().await;
            start.await
        };
        match started {
            Ok(run) => {
                self.began.lock().unwrap().push((run.id().clone(), job));
                if rng.u32(0..20) == 0 {
                    let _it_may_have_ended = run.cancel("enough", "driver").await;
                }
            }
            Err(StartError::OverLimit { .. }) => {}
            // A paused process may hold the lock of the file for longer than a start waits.
            Err(error) => println!("{name}: {error}"),
        }
    }

    async fn change_limits(&self, until: Instant) {
        let mut rng = Rng::with_seed(self.seed + 1);
        for (pattern, kind, most) in LIMITS {
            self.change(pattern, kind, Some(*most), &mut rng).await;
        }
        while self.goes_on(until) {
            sleep(ms(rng.u64(150..500))).await;
            let (pattern, kind, most) = rng.choice(LIMITS).unwrap();
            // They are judged only while they have been the same for long.
            if *kind == "starts" && rng.u32(0..4) > 0 {
                continue;
            }
            let n = match rng.u32(0..10) {
                0 => None,
                1 if matches!(*kind, "running" | "starts") => Some(0),
                _ => Some(rng.u32(1..=*most)),
            };
            self.change(pattern, kind, n, &mut rng).await;
        }
    }

    async fn change(&self, pattern: &str, kind: &'static str, n: Option<u32>, rng: &mut Rng) {
        let per = ms(rng.u64(300..1_000));
        let number = n.unwrap_or(1);
        let wanted = match kind {
            "running" => LimitKind::Running(number),
            "starts" => LimitKind::Starts { n: number, per },
            "open" => LimitKind::Open(number),
            _ => LimitKind::Weight(number),
        };
        self.changed.fetch_add(1, Ordering::SeqCst);
        let (before, day) = (monotonic(), Timestamp::now().as_microsecond());
        let limits = self.client.limits();
        loop {
            let done = match n {
                Some(_) => limits.set(Limit::new(pattern, wanted).unwrap()).await,
                None => limits.remove(pattern, wanted).await.map(drop),
            };
            match done {
                Ok(()) => break,
                Err(error) => println!("{pattern}: {error}"),
            }
        }
        if kind == "open" {
            // A limit that is set where there was none does not hold for starts that are under way.
            drop(self.starting.write().await);
        }
        let day = (Timestamp::now().as_microsecond(), day);
        let change = Change {
            pattern: pattern.into(),
            kind,
            n: n.map(u64::from),
            per,
            at: (before, monotonic()),
            day,
        };
        self.changes.lock().unwrap().push(change);
        self.changed.fetch_add(1, Ordering::SeqCst);
    }

    async fn lift_limits(&self) {
        let mut rng = Rng::new();
        for (pattern, kind, _) in LIMITS {
            self.change(pattern, kind, None, &mut rng).await;
        }
    }

    fn worker(&self, no: usize) -> MutexGuard<'_, Child> {
        self.workers[no].lock().unwrap()
    }

    async fn hurt_workers(self: &Arc<Self>, until: Instant) {
        let mut rng = Rng::with_seed(self.seed + 2);
        let mut resumes = Vec::new();
        // Every kind in each round, in any order.
        let mut round = Vec::new();
        while self.goes_on(until) {
            sleep(ms(rng.u64(200..900))).await;
            if round.is_empty() {
                round = vec![0, 1, 2];
                rng.shuffle(&mut round);
            }
            let (fault, no) = (round.pop().unwrap(), rng.usize(0..WORKERS));
            self.faults.lock().unwrap()[fault] += 1;
            match fault {
                0 => self.kill(no),
                1 => resumes.push(self.pause(no, LEASE.mul_f32(rng.f32() * 2.0 + 0.3))),
                _ => self.shut_down(no).await,
            }
        }
        for resume in resumes {
            resume.await.unwrap();
        }
    }

    fn kill(&self, no: usize) {
        let mut worker = self.worker(no);
        let at = monotonic();
        worker.kill().unwrap();
        worker.wait().unwrap();
        self.log.note_of(worker.id(), at, "gone", "-", "-");
        *worker = spawn(&self.folder, &self.address);
    }

    fn pause(self: &Arc<Self>, no: usize, time: Duration) -> tokio::task::JoinHandle<()> {
        let worker = self.worker(no);
        let id = worker.id();
        kill_process(Pid::from_child(&worker), Signal::STOP).unwrap();
        let storm = Arc::clone(self);
        tokio::spawn(async move {
            sleep(time).await;
            let worker = storm.worker(no);
            if worker.id() == id {
                let _it_may_have_ended = kill_process(Pid::from_child(&worker), Signal::CONT);
            }
        })
    }

    async fn shut_down(&self, no: usize) {
        let signal = |signal| kill_process(Pid::from_child(&self.worker(no)), signal).unwrap();
        signal(Signal::TERM);
        let patience = Instant::now() + ms(8_000);
        while self.worker(no).try_wait().unwrap().is_none() {
            // A paused one wakes by itself.
            if Instant::now() > patience {
                return self.kill(no);
            }
            sleep(ms(10)).await;
        }
        let mut worker = self.worker(no);
        self.log.note_of(worker.id(), monotonic(), "gone", "-", "-");
        *worker = spawn(&self.folder, &self.address);
    }

    async fn end_workers(&self) {
        for no in 0..WORKERS {
            let mut worker = self.worker(no);
            worker.kill().unwrap();
            worker.wait().unwrap();
        }
    }

    async fn until_all_ended(&self) {
        let (mut least, mut since) = (u64::MAX, Instant::now());
        loop {
            match self.client.store().count(RunFilter::new().open()).await {
                Ok(0) => return,
                // Nothing is stuck while runs end.
                Ok(open) if open < least => (least, since) = (open, Instant::now()),
                Ok(_) if since.elapsed() > CALM => break,
                Ok(_) => {}
                Err(error) => println!("{error}"),
            }
            sleep(ms(50)).await;
        }
        panic!("{:#?}", self.client.holds(RunFilter::new().open().limit(20)).await);
    }

    /// As many runs have a turn at once as the limits allow: no slot is held by what is not there.
    async fn no_slot_is_left(&self) {
        let held = Eyes::open(&self.address).await.look().await;
        assert_eq!((held.held.len(), held.open.len()), (0, 0), "{held:?}");
        let mut rng = Rng::new();
        self.change("mail", "running", Some(6), &mut rng).await;
        self.change("mail/*", "running", Some(4), &mut rng).await;
        let file = self.folder.join("enough");
        let mut guards = Vec::new();
        for no in 0..10 {
            let key = if no % 2 == 0 { "a" } else { "b/x" };
            let start = self.client.start::<storm_guard>((format!("mail/{key}"), file.clone()));
            guards.push(start.queue("mail").key(key).await.unwrap());
        }
        // A run whose worker had no processor for a lease has two bodies, and one slot.
        let runs = |line: Line| (line.what == "stays").then_some(line.run);
        let stay = || self.log.lines().into_iter().filter_map(runs).collect::<BTreeSet<_>>().len();
        let until = Instant::now() + CALM;
        while stay() < 6 {
            assert!(Instant::now() < until, "{} of 6 slots are free", stay());
            sleep(ms(20)).await;
        }
        sleep(ms(300)).await;
        assert_eq!(stay(), 6);
        std::fs::write(&file, "").unwrap();
        for guard in guards {
            tokio::time::timeout(CALM, guard.result()).await.unwrap().unwrap();
        }
        assert_eq!(stay(), 10);
    }

    async fn starts(&self, records: &[RunRecord]) -> Vec<Start> {
        let mut starts = Vec::new();
        for record in records {
            let (Some(place), Some(at)) = (&record.terms.queue, record.queue.started_at) else { continue };
            let frames = self.client.store().load(&record.id, 0).await.unwrap();
            let first = frames.iter().find(|frame| frame.epoch > 0);
            let late = first.map_or(i64::MAX / 2, |frame| frame.at.as_microsecond() - at.as_microsecond());
            starts.push(Start { place: place.clone(), at: at.as_microsecond(), late: late.max(0) });
        }
        starts
    }

    /// When runs were claimed, by the common clock.
    async fn claims(&self, records: &[RunRecord]) -> Vec<Claim> {
        let (now, day) = (monotonic(), Timestamp::now().as_microsecond());
        let mut claims = Vec::new();
        for record in records {
            let mut note = |at: Timestamp| {
                let ago = u64::try_from(day - at.as_microsecond()).unwrap_or(0);
                claims.push(Claim { run: record.id.to_string(), at: now.saturating_sub(ago) });
            };
            record.queue.started_at.map(&mut note);
            let mut epoch = 0;
            for frame in self.client.store().load(&record.id, 0).await.unwrap() {
                if frame.epoch > epoch {
                    epoch = frame.epoch;
                    note(frame.at);
                }
            }
        }
        claims
    }

    async fn judge(&self, seen: Seen) {
        let (lines, changes) = (self.log.lines(), self.changes.lock().unwrap().clone());
        let began = self.began.lock().unwrap().clone();
        let mut records = Vec::new();
        for (run, _) in &began {
            records.push(self.client.store().run(run).await.unwrap().unwrap());
        }
        let mut found = judge::turns(&lines, &changes, &self.claims(&records).await);
        found.violations.extend(judge::starts(&self.starts(&records).await, &changes));
        found.violations.extend(seen.violations);
        let mut ended = [0; 3];
        for (record, (_, job)) in records.iter().zip(&began) {
            let calls = |what: &str| {
                lines.iter().filter(|line| line.what == what && line.run == record.id.as_str()).count()
            };
            match ending(record, job, calls("begin"), calls("end")) {
                Ok(kind) => ended[kind] += 1,
                Err(text) => found.violations.push(text),
            }
        }
        let [killed, paused, shut] = *self.faults.lock().unwrap();
        println!(
            "{} runs: {} completed, {} cancelled, {} expired or cancelled before they began; {} changes of limits; \
             {killed} workers killed, {paused} paused, {shut} shut down",
            records.len(),
            ended[0],
            ended[1],
            ended[2],
            changes.len(),
        );
        println!(
            "{} bodies, {} of them in a process that was paused for too long (there for {} ms after it at most), \
             {} ms after their claim at most; {} runs at once; {} snapshots, {} compared, {} times a limit was used up",
            found.bodies,
            found.cut_short,
            found.longest_after_pause / 1_000,
            found.longest_to_begin / 1_000,
            found.most,
            seen.snapshots,
            seen.compared,
            seen.full,
        );
        let violations = &found.violations[..found.violations.len().min(10)];
        assert!(violations.is_empty(), "{} violations: {violations:#?}", found.violations.len());
        assert!(self.is_a_storm(&found), "the storm was a calm");
        let other_ends = ended[1] + ended[2];
        let happened = [killed, paused, shut, ended[0] as u64, other_ends as u64];
        assert!(!happened.contains(&0), "something never happened: {happened:?}");
    }
}

/// 0: it did all of its turns. 1: it was cancelled in the middle. 2: it ended before it began.
fn ending(record: &RunRecord, job: &Job, begun: usize, done: usize) -> std::result::Result<usize, String> {
    let id = &record.id;
    match (record.status, record.queue.started_at.is_some() || record.terms.queue.is_none()) {
        (Status::Completed, true) if done >= job.turns.len() => Ok(0),
        (Status::Cancelled, true) => Ok(1),
        (_, false) if begun == 0 && record.status.is_terminal() => Ok(2),
        (status, has_begun) => {
            Err(format!("{id} is {status}, {has_begun}; {begun} bodies began and {done} ended of {job:?}"))
        }
    }
}
