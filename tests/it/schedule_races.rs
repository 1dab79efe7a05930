//! Three schedulers on one SQLite file, each a process of its own whose clock leaps to and fro, and which is killed (-9)
//! again and again, also between the decision about a tick and the creation of its run: each tick has one run.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use aether::engine::{Environment, SystemEnvironment};
use aether::prelude::*;
use aether::schedule::{CatchUp, Overlap, TickOutcome};
use aether::store::RunFilter;
use aether::view::Status;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use rustix::process::{Pid, Signal, getpid, kill_process};
use tokio::time::sleep;

use crate::seeds::kit::in_time;

const FOLDER: &str = "AETHER_SCHEDULE_RACES_FOLDER";
/// How far the clocks leap at most, in seconds.
const LEAP: i64 = 600;
/// How much faster the clocks of the schedulers run, so that a minute passes several times a second.
const SPEED: i32 = 240;

/// Say which tick it is.
#[workflow]
async fn raced(cx: &mut Cx) -> Result<String> {
    Ok(cx.scheduled_for().map(|tick| tick.to_string()).unwrap_or_default())
}

/// A fast clock that somebody sets, or that is slow from a certain time on. Once it is armed, it kills its process now and then where a run's first random bytes
/// are drawn: its tick is decided, and the run is not created.
#[derive(Clone, Debug)]
struct Clock {
    began: Timestamp,
    leap: Arc<AtomicI64>,
    armed: Arc<AtomicBool>,
    /// From this time of the system on, its clock is as fast as the system's.
    slow: Option<Timestamp>,
}

impl Clock {
    fn of(folder: &Path) -> Self {
        let began = std::fs::read_to_string(folder.join("began")).unwrap().parse().unwrap();
        Self { began, leap: Arc::default(), armed: Arc::default(), slow: None }
    }

    /// A later one than any scheduler had, whose runs are due then. It is slow from now on, so that every machine can start a
    /// run for each tick that was missed.
    fn slowed_down(&self) -> Self {
        Self { slow: Some(Timestamp::now()), leap: Arc::new(AtomicI64::new(2 * LEAP)), ..self.clone() }
    }
}

impl Environment for Clock {
    fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        let slow = self.slow.unwrap_or(now);
        let passed = slow.duration_since(self.began) * SPEED + now.duration_since(slow);
        self.began + passed + SignedDuration::from_secs(self.leap.load(Ordering::Acquire))
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        if self.armed.load(Ordering::Acquire) && fastrand::u8(..8) == 0 {
            kill_process(getpid(), Signal::KILL).unwrap();
        }
        SystemEnvironment.fill_random(bytes);
    }

    fn sleep_until(&self, until: Timestamp) -> BoxFuture<'static, ()> {
        let clock = self.clone();
        Box::pin(async move {
            while clock.now() < until {
                sleep(Duration::from_millis(5)).await;
            }
        })
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        SystemEnvironment.sleep(span)
    }

    fn spawn_keeper(&self, task: BoxFuture<'static, ()>) {
        SystemEnvironment.spawn_keeper(task);
    }
}

async fn engine(folder: &Path, clock: &Clock) -> Engine {
    Engine::builder()
        .environment(Arc::new(clock.clone()))
        .sqlite(folder.join("agent.db"))
        .poll_interval(Duration::from_millis(20))
        .start()
        .await
        .unwrap()
}

fn scheduler(folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["schedule_races::a_scheduler_that_another_test_started", "--exact", "--nocapture"])
        .env(FOLDER, folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Runs where the test below started this program, until it is killed; otherwise there is nothing to do.
#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_that_another_test_started() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let clock = Clock::of(&folder);
    let _engine = engine(&folder, &clock).await;
    clock.armed.store(true, Ordering::Release);
    loop {
        clock.leap.store(fastrand::i64(-LEAP..LEAP), Ordering::Release);
        sleep(Duration::from_millis(fastrand::u64(50..400))).await;
    }
}

/// Keeps three schedulers going for a while, and kills one now and then. Returns how many were killed by the test, and how
/// many died between a decision and a creation. On a slow machine it goes on until some were and did.
fn keep_going(folder: &Path, time: Duration) -> (u32, u32) {
    let mut schedulers: Vec<_> = (0..3).map(|_| scheduler(folder)).collect();
    let (begin, mut killed, mut died) = (Instant::now(), 0, 0);
    while begin.elapsed() < time || (begin.elapsed() < time * 10 && (killed <= 3 || died <= 3)) {
        std::thread::sleep(Duration::from_millis(100));
        if fastrand::u8(..10) == 0 {
            let victim = &mut schedulers[fastrand::usize(..3)];
            if kill_process(Pid::from_child(victim), Signal::KILL).is_ok() {
                victim.wait().unwrap();
                *victim = scheduler(folder);
                killed += 1;
            }
        }
        for child in &mut schedulers {
            if let Some(status) = child.try_wait().unwrap() {
                assert_eq!(status.signal(), Some(9), "a scheduler ended by itself: {status}");
                *child = scheduler(folder);
                died += 1;
            }
        }
    }
    for mut child in schedulers {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    (killed, died)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_tick_has_one_run_whatever_happens_to_the_schedulers() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("began"), Timestamp::now().to_string()).unwrap();
    let clock = Clock::of(folder.path());
    let first = engine(folder.path(), &clock).await;
    let declared = first
        .schedule::<raced>("* * * * *", "UTC")
        .overlap(Overlap::Allow)
        .catch_up(CatchUp::All(1_000))
        .await
        .unwrap();
    let first_tick = declared.record().await.unwrap().next;
    first.shutdown().await.unwrap();

    let path = folder.path().to_owned();
    let (killed, died) =
        tokio::task::spawn_blocking(move || keep_going(&path, Duration::from_secs(15))).await.unwrap();
    assert!(killed > 3, "{killed} schedulers were killed");
    assert!(died > 3, "{died} schedulers died between a decision and a creation");

    // One with a steady clock ends what they left.
    let clock = clock.slowed_down();
    let last = engine(folder.path(), &clock).await;
    let record = in_time(async {
        loop {
            let record = last.find_schedule("raced").await.unwrap().record().await.unwrap();
            let open = last.count(RunFilter::new().open()).await.unwrap();
            if record.starting.is_empty() && record.next > clock.now() && open == 0 {
                return record;
            }
            sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    let runs = last.runs(RunFilter::new()).await.unwrap();
    assert!(runs.iter().all(|run| run.status == Status::Completed));
    let ticks: BTreeSet<Timestamp> = runs
        .iter()
        .map(|run| run.id.as_str().strip_prefix("schedule:raced:").unwrap().parse().unwrap())
        .collect();
    let minutes = std::iter::successors(Some(first_tick), |tick| Some(*tick + SignedDuration::from_mins(1)));
    let until = *ticks.last().unwrap();
    let expected: BTreeSet<_> = minutes.take_while(|tick| *tick <= until).collect();
    assert_eq!(ticks, expected, "a tick is missing, or no tick");
    assert_eq!(runs.len(), ticks.len());
    assert!(ticks.len() > 30, "{} ticks", ticks.len());
    assert!(record.recent.iter().all(|tick| tick.outcome == TickOutcome::Started), "{:?}", record.recent);
    last.shutdown().await.unwrap();
}
