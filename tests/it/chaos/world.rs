//! What the tools write of their calls, and the clock of a process that somebody sets.
//!
//! Promise: lines of several processes do not mix, a line that was written survives the process, and the time of a line is
//! that of the one clock which all processes have in common.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use aether::effect::Payload;
use aether::engine::{Environment, SystemEnvironment};
use aether::prelude::*;
use jiff::{SignedDuration, Timestamp};
use rustix::process::{Pid, test_kill_process};
use rustix::time::{ClockId, clock_gettime};

use super::flows::Policy;

/// Microseconds of the system's monotonic clock.
pub(super) fn monotonic() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap() * 1_000_000 + u64::try_from(time.tv_nsec).unwrap() / 1_000
}

/// What a line tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// A call began.
    Begin,
    /// It changed the world.
    Change,
    /// It returned.
    End,
    /// It was dropped before it returned.
    Drop,
    /// The process was asked to shut its engine down.
    Stopping,
    /// The engine says that it is shut down.
    Shut,
    /// The process did not run for a while, which ends now. Instead of a key stands the time at which it began.
    Gap,
}

const DEEDS: [(Deed, &str); 7] = [
    (Deed::Begin, "begin"),
    (Deed::Change, "change"),
    (Deed::End, "end"),
    (Deed::Drop, "drop"),
    (Deed::Stopping, "stopping"),
    (Deed::Shut, "shut"),
    (Deed::Gap, "gap"),
];

/// A line of the log.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) at: u64,
    pub(super) pid: u32,
    pub(super) deed: Deed,
    pub(super) policy: Option<Policy>,
    pub(super) key: String,
}

impl FromStr for Line {
    type Err = ();

    fn from_str(line: &str) -> std::result::Result<Self, ()> {
        let mut words = line.splitn(5, ' ');
        let mut word = || words.next().ok_or(());
        let (at, pid) = (word()?.parse().map_err(drop)?, word()?.parse().map_err(drop)?);
        let deed = word()?;
        let deed = DEEDS.iter().find(|(_, name)| *name == deed).ok_or(())?.0;
        Ok(Self { at, pid, deed, policy: Policy::named(word()?), key: word()?.to_owned() })
    }
}

/// The world in which tools act: a file.
#[derive(Clone, Debug)]
pub(super) struct World(PathBuf);

impl World {
    pub(super) fn in_folder(folder: &Path) -> Self {
        Self(folder.join("calls"))
    }

    pub(super) fn lines(&self) -> Vec<Line> {
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        // What follows the last line's end is still being written.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(|line| line.parse().unwrap_or_else(|()| panic!("not a deed: {line}"))).collect()
    }

    /// Whether the world was changed under `key`.
    pub(super) fn happened(&self, key: &str) -> bool {
        self.lines().iter().any(|line| line.deed == Deed::Change && line.key == key)
    }

    /// Whether a call under `key` is on its way in a process that is there: on a machine without time for it, it may be for
    /// long.
    pub(super) fn may_happen(&self, key: &str) -> bool {
        let mut on_its_way = BTreeSet::new();
        for line in self.lines().iter().filter(|line| line.key == key) {
            match line.deed {
                Deed::Begin => on_its_way.insert(line.pid),
                Deed::End | Deed::Drop => on_its_way.remove(&line.pid),
                _ => continue,
            };
        }
        let pid = |pid: &u32| i32::try_from(*pid).ok().and_then(Pid::from_raw);
        on_its_way.iter().filter_map(pid).any(|pid| test_kill_process(pid).is_ok())
    }

    pub(super) fn note(&self, deed: Deed, policy: Option<Policy>, key: &str) {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.0).unwrap();
        let name = DEEDS.iter().find(|(known, _)| *known == deed).unwrap().1;
        let (at, pid, policy) = (monotonic(), std::process::id(), policy.map_or("-", Policy::name));
        file.write_all(format!("{at} {pid} {name} {policy} {key}\n").as_bytes()).unwrap();
    }

    /// The body of every step: half of `time`, the change, the other half.
    pub(super) async fn act(cx: &StepCx, policy: Policy, value: u32, time: Duration) -> Result<u32> {
        let (world, key) = (cx.dep::<Self>()?, cx.idempotency_key());
        world.note(Deed::Begin, Some(policy), key.as_str());
        let mut call = OpenCall { world: &world, policy, key: key.as_str(), ended: false };
        take(value, time / 2).await;
        world.note(Deed::Change, Some(policy), key.as_str());
        take(value, time / 2).await;
        world.note(Deed::End, Some(policy), key.as_str());
        call.ended = true;
        Ok(made(value))
    }
}

/// Takes its time. Some bodies block their threads.
async fn take(value: u32, time: Duration) {
    if value.is_multiple_of(8) { std::thread::sleep(time) } else { tokio::time::sleep(time).await }
}

/// The value of a call.
pub(super) fn made(value: u32) -> u32 {
    value.wrapping_add(1)
}

/// The value of the call under `key` as an operator states it: the argument is not in the key.
pub(super) fn stated(args: &Payload) -> Payload {
    let args: serde_json::Value = args.decode().unwrap();
    let value = u32::try_from(args["value"].as_u64().unwrap()).unwrap();
    Payload::encode(&made(value)).unwrap()
}

/// A call that has not returned.
struct OpenCall<'a> {
    world: &'a World,
    policy: Policy,
    key: &'a str,
    ended: bool,
}

impl Drop for OpenCall<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.world.note(Deed::Drop, Some(self.policy), self.key);
        }
    }
}

/// The system's clock, and how far somebody has set it forward or back.
#[derive(Clone, Debug, Default)]
pub(super) struct LeapingClock(Arc<AtomicI64>);

impl LeapingClock {
    /// Seconds from the system's clock to this one.
    pub(super) fn leap_to(&self, seconds: i64) {
        self.0.store(seconds, Ordering::Release);
    }
}

impl Environment for LeapingClock {
    fn now(&self) -> Timestamp {
        Timestamp::now().saturating_add(SignedDuration::from_secs(self.0.load(Ordering::Acquire))).unwrap()
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        SystemEnvironment.fill_random(bytes);
    }

    fn sleep_until(&self, until: Timestamp) -> futures::future::BoxFuture<'static, ()> {
        let clock = self.clone();
        Box::pin(async move {
            while let Ok(left) = Duration::try_from(until.duration_since(clock.now()))
                && !left.is_zero()
            {
                tokio::time::sleep(left.min(Duration::from_millis(100))).await;
            }
        })
    }

    fn sleep(&self, span: Duration) -> futures::future::BoxFuture<'static, ()> {
        SystemEnvironment.sleep(span)
    }

    fn spawn_keeper(&self, task: futures::future::BoxFuture<'static, ()>) {
        SystemEnvironment.spawn_keeper(task);
    }
}
