//! The scheduler: tasks are coroutines of one thread that can be left at any point, not only at an await. Who runs next,
//! for how long, and when the clock moves follows from one seed.
//!
//! Promise: the same seed and build give the same schedule, and `Ended::trace` proves it. A task belongs to a group: 0 is
//! the outside, every other one is an engine, which can be paused or killed as a process can.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::task::Waker;
use std::time::Duration;

use aether_core::sched::Hooks;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::mutants;
use crate::rng::Rng;

pub mod task;
pub(crate) mod timers;

use task::{Left, leave};

/// How schedules are chosen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Strategy {
    /// At a point another task is chosen once in so many times; 0: only at awaits.
    pub switch: u64,
    /// Priorities in place of a random walk (PCT): the points at which the running task falls to the lowest one.
    pub changes: Option<Vec<u64>>,
    /// Once in so many points the running task is left alone for a while, as a descheduled thread is.
    pub stall: u64,
    /// How long the tasks of one engine may be left alone altogether, in microseconds.
    pub stall_budget: u64,
    /// Once in so many points a whole engine is left alone for a while, as by SIGSTOP or a computer that sleeps.
    pub freeze: u64,
    /// The longest such pause, in microseconds.
    pub longest_freeze: u64,
    /// Once in so many steps the clock moves to the next timer though tasks could run; 0: only when all are idle.
    pub hurry: u64,
    /// Microseconds that a step takes.
    pub tick: u64,
}

/// What came of a schedule.
#[derive(Clone, Debug, Default)]
pub struct Ended {
    /// Times that a task was resumed.
    pub steps: u64,
    /// Places at which a task could have been left.
    pub points: u64,
    /// Hash of every decision: two schedules are the same if theirs are.
    pub trace: u64,
    /// What happened, where a log was wanted.
    pub log: Vec<String>,
    /// Tasks that panicked.
    pub panics: Vec<String>,
    /// The schedule did not end within the allowed steps, or nothing could ever happen again.
    pub exhausted: bool,
}

/// The state of one exploration.
pub(crate) struct Sim {
    life: u64,
    rng: Rng,
    strategy: Strategy,
    /// Microseconds since the beginning, by a clock that never leaps.
    now: u64,
    /// What the wall clock shows beyond that.
    offset: i64,
    steps: u64,
    points: u64,
    ready: Vec<usize>,
    timers: BTreeMap<(u64, u64), Waker>,
    /// Timers that follow the wall clock.
    on_wall: BTreeSet<(u64, u64)>,
    timer_no: u64,
    paused_groups: BTreeMap<u32, u64>,
    paused_tasks: BTreeMap<usize, u64>,
    killed: BTreeSet<u32>,
    /// How long each group was left alone.
    stalled: BTreeMap<u32, u64>,
    /// How long a task that waits for a lock is left alone before it tries again.
    patience: u64,
    current: Option<usize>,
    groups: Vec<u32>,
    /// Of each task, for PCT: the highest runs.
    priorities: Vec<u64>,
    newborn: VecDeque<(u32, &'static str, BoxFuture<'static, ()>)>,
    /// The rest of the schedule is fair: no pauses, no hurried clock.
    calm: bool,
    dying: bool,
    trace: u64,
    log: Option<Vec<String>>,
    panics: Vec<String>,
}

thread_local! {
    static SIM: RefCell<Option<Sim>> = const { RefCell::new(None) };
}

/// Looks at the exploration of this thread; `None` where there is none.
fn with<T>(look: impl FnOnce(&mut Sim) -> T) -> Option<T> {
    SIM.with(|sim| sim.try_borrow_mut().ok()?.as_mut().map(look))
}

impl Sim {
    fn new(life: u64, seed: u64, strategy: Strategy, log: bool) -> Self {
        Self {
            life,
            rng: Rng::new(seed, 1),
            strategy,
            now: 0,
            // Room to leap back.
            offset: 1_000_000_000,
            steps: 0,
            points: 0,
            ready: Vec::new(),
            timers: BTreeMap::new(),
            on_wall: BTreeSet::new(),
            timer_no: 0,
            paused_groups: BTreeMap::new(),
            paused_tasks: BTreeMap::new(),
            killed: BTreeSet::new(),
            stalled: BTreeMap::new(),
            patience: 0,
            current: None,
            groups: Vec::new(),
            priorities: Vec::new(),
            newborn: VecDeque::new(),
            calm: false,
            dying: false,
            trace: 0xcbf2_9ce4_8422_2325,
            log: log.then(Vec::new),
            panics: Vec::new(),
        }
    }

    fn note(&mut self, a: u64, b: u64) {
        for value in [a, b] {
            self.trace = (self.trace ^ value).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn say(&mut self, line: impl FnOnce() -> String) {
        let now = self.now;
        if let Some(log) = self.log.as_mut() {
            log.push(format!("{now:>10} us  {}", line()));
        }
    }

    /// Whether the running task is left at this point.
    fn leaves(&mut self, what: &'static str) -> bool {
        self.points += 1;
        self.patience = 0;
        let Some(task) = self.current.filter(|_| !self.dying) else { return false };
        let group = self.groups[task];
        if self.killed.contains(&group) || self.paused_groups.contains_key(&group) {
            return true;
        }
        if !self.calm && self.is_held_up(task, group, what) {
            return true;
        }
        match &self.strategy.changes {
            Some(changes) => {
                if changes.contains(&self.points) {
                    self.priorities[task] = (1 << 40) - self.points;
                }
                let own = self.priorities[task];
                self.ready.iter().any(|other| self.priorities[*other] > own)
            }
            None => self.rng.one_in(self.strategy.switch),
        }
    }

    /// Whether the running task, or its whole engine, is left alone from here on.
    fn is_held_up(&mut self, task: usize, group: u32, what: &'static str) -> bool {
        if self.rng.one_in(self.strategy.stall) {
            let span = self.rng.pick(&[20, 200, 2_000, 20_000, 120_000, 600_000]);
            let stalled = self.stalled.entry(group).or_default();
            if *stalled + span <= self.strategy.stall_budget {
                *stalled += span;
                self.paused_tasks.insert(task, self.now + span);
                self.say(|| format!("task {task} is left alone at {what} for {span} us"));
                return true;
            }
        }
        if group > 0 && self.rng.one_in(self.strategy.freeze) {
            let span = self.rng.below(self.strategy.longest_freeze) + 1;
            self.pause(group, span);
            self.say(|| format!("  .. at {what}"));
            return true;
        }
        false
    }

    fn pause(&mut self, group: u32, span: u64) {
        *self.stalled.entry(group).or_default() += span;
        self.paused_groups.insert(group, self.now + span);
        self.say(|| format!("engine {group} is paused for {span} us"));
    }

    fn wall(&self) -> u64 {
        self.now.saturating_add_signed(self.offset)
    }
}

/// The hooks of the core, for every thread that explores.
#[derive(Debug)]
pub struct Coroutines;

impl Hooks for Coroutines {
    fn point(&self, what: &'static str) {
        // A waker may be called while the state is looked at; no task is left there.
        if task::is_running() && with(|sim| sim.leaves(what)).unwrap_or(false) {
            leave(Left::Point);
        }
    }

    fn blocked(&self) {
        // The holder may be left alone for a while, or have a lower priority: this task backs off in virtual time, and
        // falls to the lowest priority, or it would keep the holder from running.
        with(|sim| {
            if let Some(task) = sim.current {
                sim.priorities[task] = (1 << 40) - sim.points - sim.steps;
                sim.patience = (sim.patience * 2).clamp(1, 100_000);
                let until = sim.now + sim.patience;
                sim.paused_tasks.insert(task, until);
            }
        });
        leave(Left::Point);
    }

    fn spawn(&self, name: &'static str, task: BoxFuture<'static, ()>) -> Option<BoxFuture<'static, ()>> {
        let mut task = Some(task);
        let group = group();
        with(|sim| task.take().map(|task| sim.newborn.push_back((group, name, task))));
        task
    }

    fn park(&self, until: Option<Duration>) {
        task::park(until.map(|until| u64::try_from(until.as_micros()).unwrap_or(u64::MAX)));
    }

    fn waker(&self) -> Option<Waker> {
        task::waker()
    }

    fn now(&self) -> Duration {
        Duration::from_micros(now())
    }

    fn is_over(&self) -> bool {
        is_over()
    }

    fn mutated(&self, fault: &str) -> bool {
        mutants::is_on(fault)
    }
}

/// A place of this crate's own code at which the running task may be left.
pub fn point(what: &'static str) {
    aether_core::sched::point(what);
}

/// The group of the running task. A task's group is inherited by what it spawns.
pub fn group() -> u32 {
    with(|sim| sim.current.map_or(0, |task| sim.groups[task])).unwrap_or(0)
}

/// Begins a task in a group.
pub fn spawn_in(group: u32, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
    with(|sim| sim.newborn.push_back((group, name, task.boxed())));
}

/// Whether the schedule is over and what is left is being dropped.
pub fn is_over() -> bool {
    with(|sim| sim.dying).unwrap_or(true)
}

/// Microseconds since the beginning, by the clock that never leaps.
pub fn now() -> u64 {
    with(|sim| sim.now).unwrap_or(0)
}

/// What the wall clock shows, in microseconds.
pub fn wall() -> u64 {
    with(|sim| sim.wall()).unwrap_or(0)
}

/// Sets the wall clock forward or back.
pub fn leap(by: i64) {
    let due = with(|sim| {
        sim.offset += by;
        sim.say(|| format!("the wall clock leaps by {by} us"));
        // Their tasks look at the clock again.
        let on_wall = std::mem::take(&mut sim.on_wall);
        on_wall.iter().filter_map(|key| sim.timers.remove(key)).collect::<Vec<_>>()
    });
    due.into_iter().flatten().for_each(Waker::wake);
}

/// A number below `n` that belongs to the schedule.
pub fn draw(n: u64) -> u64 {
    with(|sim| sim.rng.below(n)).unwrap_or(0)
}

/// Writes a line into the log.
pub fn say(line: impl FnOnce() -> String) {
    with(|sim| sim.say(line));
}

/// From here on the schedule is fair.
pub fn calm_down() {
    with(|sim| {
        sim.calm = true;
        sim.paused_groups.clear();
    });
}

/// Leaves all of an engine alone for so many microseconds.
pub fn pause(group: u32, span: u64) {
    with(|sim| sim.pause(group, span));
}

/// No task of this engine ever runs again, as after `kill -9`.
pub fn kill(group: u32) {
    with(|sim| {
        sim.say(|| format!("engine {group} is killed"));
        sim.killed.insert(group);
    });
}

/// Whether an engine was killed.
pub fn is_killed(group: u32) -> bool {
    with(|sim| sim.killed.contains(&group)).unwrap_or(false)
}

/// The longest that any engine was left alone, in all.
pub fn longest_stall() -> u64 {
    with(|sim| sim.stalled.values().copied().max().unwrap_or(0)).unwrap_or(0)
}
