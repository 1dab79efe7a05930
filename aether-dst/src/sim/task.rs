//! Tasks as coroutines: how one is begun, resumed and left, and the loop that chooses among them.
//!
//! Promise: a waker only notes a number, so it may be called anywhere; what the core keeps in thread-locals is kept for
//! each task; a coroutine that was left is never unwound.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use aether_core::workflow::Polled;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use futures_util::future::BoxFuture;

use super::{Ended, SIM, Sim, Strategy, with};

/// Why a coroutine gave the thread back.
pub(super) enum Left {
    /// It can continue at any time.
    Point,
    /// It waits to be woken.
    Pending,
}

type Stack = Coroutine<(), Left, (), DefaultStack>;

struct Task {
    name: &'static str,
    coroutine: Option<Stack>,
    polled: Polled,
    wake: Arc<Woken>,
}

/// The waker of a task.
struct Woken {
    task: usize,
    life: u64,
    /// It is among those that can run.
    queued: AtomicBool,
    /// It was woken since its poll began. That is not the same: a task that was left in the middle of a poll can run, and
    /// if it is woken then, it must be polled once more after that poll.
    woken: AtomicBool,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Relaxed);
        if !self.queued.swap(true, Ordering::Relaxed) {
            with(|sim| {
                if sim.life == self.life {
                    sim.ready.push(self.task);
                }
            });
        }
    }
}

thread_local! {
    static YIELDER: Cell<*const Yielder<(), Left>> = const { Cell::new(std::ptr::null()) };
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
    static RUNNING: RefCell<Option<Arc<Woken>>> = const { RefCell::new(None) };
    static LIVES: Cell<u64> = const { Cell::new(0) };
}

/// Whether a task runs that can be left.
pub(super) fn is_running() -> bool {
    !YIELDER.get().is_null()
}

/// Leaves the running task.
pub(super) fn leave(why: Left) {
    let yielder = YIELDER.replace(std::ptr::null());
    assert!(!yielder.is_null(), "a task of the engine ran outside of the exploration");
    // SAFETY: `begin` sets it to the yielder of the coroutine that runs now, which lives as long as that coroutine.
    #[allow(unsafe_code)]
    unsafe {
        (*yielder).suspend(why);
    }
    YIELDER.set(yielder);
}

/// The waker of the running task.
pub(super) fn waker() -> Option<Waker> {
    RUNNING.with_borrow(|running| running.clone().map(Waker::from))
}

/// Leaves the running task until it is woken, or until `at`: for code that waits without being polled.
pub(super) fn park(at: Option<u64>) {
    if !is_running() || super::is_over() {
        return;
    }
    // A wake from before belongs to what was looked at before.
    RUNNING.with_borrow(|running| running.iter().for_each(|task| task.woken.store(false, Ordering::Relaxed)));
    let key = at
        .zip(waker())
        .and_then(|(at, waker)| super::timers::insert(at.saturating_sub(super::now()), false, waker));
    leave(Left::Pending);
    super::timers::remove(key);
}

/// Does something whole: the running task is not left meanwhile.
pub fn quiet<T>(work: impl FnOnce() -> T) -> T {
    let yielder = YIELDER.replace(std::ptr::null());
    let done = work();
    YIELDER.set(yielder);
    done
}

/// Runs `main` and all it spawns until `main` has ended, or `max_steps` are over.
pub fn run(seed: u64, strategy: Strategy, max_steps: u64, log: bool, main: BoxFuture<'static, ()>) -> Ended {
    let life = LIVES.get() + 1;
    LIVES.set(life);
    let mut sim = Sim::new(life, seed, strategy, log);
    sim.newborn.push_back((0, "main", main));
    SIM.with_borrow_mut(|slot| *slot = Some(sim));
    let mut tasks: Vec<Task> = Vec::new();
    let mut exhausted = false;
    loop {
        begin_tasks(&mut tasks, life);
        if tasks[0].coroutine.is_none() {
            break;
        }
        let Some(next) = choose(max_steps) else {
            exhausted = true;
            break;
        };
        resume(&mut tasks, next);
    }
    end_tasks(&mut tasks, life);
    let Some(mut sim) = SIM.with_borrow_mut(Option::take) else { return Ended::default() };
    Ended {
        steps: sim.steps,
        points: sim.points,
        trace: sim.trace,
        log: sim.log.take().unwrap_or_default(),
        panics: std::mem::take(&mut sim.panics),
        exhausted,
    }
}

/// Every task drops its own future: nobody is left any more but at its awaits.
fn end_tasks(tasks: &mut Vec<Task>, life: u64) {
    with(|sim| sim.dying = true);
    for _ in 0..100 {
        begin_tasks(tasks, life);
        let mut alive = false;
        for number in 0..tasks.len() {
            if tasks[number].coroutine.is_some() {
                resume(tasks, number);
                alive |= tasks[number].coroutine.is_some();
            }
        }
        if !alive && with(|sim| sim.newborn.is_empty()).unwrap_or(true) {
            break;
        }
    }
    for task in tasks {
        // It waits for a lock that nobody releases: its stack is leaked. Unwinding it would end in the engine's own nets.
        std::mem::forget(task.coroutine.take());
        // What it was polling has the rest of its run in it, which must not go while another schedule is played.
        drop(std::mem::take(&mut task.polled));
    }
}

fn begin_tasks(tasks: &mut Vec<Task>, life: u64) {
    while let Some((group, name, future)) = with(|sim| sim.newborn.pop_front()).flatten() {
        let number = tasks.len();
        let wake = Arc::new(Woken { task: number, life, queued: true.into(), woken: true.into() });
        let Some(coroutine) = begin(name, future, Arc::clone(&wake)) else { continue };
        with(|sim| {
            sim.groups.push(group);
            sim.ready.push(number);
            let priority = sim.rng.draw() >> 8 | 1 << 56;
            sim.priorities.push(priority);
        });
        tasks.push(Task { name, coroutine: Some(coroutine), polled: Polled::default(), wake });
    }
}

/// A coroutine that polls `future` to its end, and drops it.
fn begin(name: &'static str, future: BoxFuture<'static, ()>, wake: Arc<Woken>) -> Option<Stack> {
    let spare = STACKS.with_borrow_mut(Vec::pop);
    let stack = spare.or_else(|| DefaultStack::new(512 << 10).ok())?;
    Some(Coroutine::with_stack(stack, move |yielder: &Yielder<(), Left>, ()| {
        YIELDER.set(yielder);
        let mut future = future;
        let waker = Waker::from(Arc::clone(&wake));
        while !super::is_over() {
            wake.woken.store(false, Ordering::Relaxed);
            let mut cx = Context::from_waker(&waker);
            match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut cx))) {
                Ok(Poll::Pending) => leave(Left::Pending),
                Ok(Poll::Ready(())) => break,
                Err(_) => {
                    with(|sim| sim.panics.push(format!("task {name} panicked")));
                    break;
                }
            }
        }
        if catch_unwind(AssertUnwindSafe(|| drop(future))).is_err() {
            with(|sim| sim.panics.push(format!("dropping task {name} panicked")));
        }
        YIELDER.set(std::ptr::null());
    }))
}

/// The next task, with the clock moved as far as that takes. `None`: nothing can ever happen again, or not in time.
fn choose(max_steps: u64) -> Option<usize> {
    loop {
        let mut due = Vec::new();
        // Wakers are called and dropped outside of `with`: what they hold may have a destructor.
        let chosen = with(|sim| sim.choose(max_steps, &mut due)).flatten();
        due.into_iter().for_each(Waker::wake);
        match chosen {
            Some(Choice::Task(task)) => return Some(task),
            Some(Choice::Nothing) | None => return None,
            Some(Choice::Look) => {}
        }
    }
}

enum Choice {
    Task(usize),
    /// The clock has moved, or timers were due: look again.
    Look,
    Nothing,
}

impl Sim {
    fn choose(&mut self, max_steps: u64, due: &mut Vec<Waker>) -> Option<Choice> {
        self.steps += 1;
        if self.steps > max_steps {
            return Some(Choice::Nothing);
        }
        self.now += self.strategy.tick;
        let hurried = !self.calm && self.rng.one_in(self.strategy.hurry);
        if hurried && let Some((at, _)) = self.timers.first_key_value().map(|(key, _)| *key) {
            self.now = self.now.max(at);
        }
        let now = self.now;
        while let Some(entry) = self.timers.first_entry().filter(|entry| entry.key().0 <= now) {
            self.on_wall.remove(entry.key());
            due.push(entry.remove());
        }
        if !due.is_empty() {
            return Some(Choice::Look);
        }
        self.paused_groups.retain(|_, until| *until > now);
        self.paused_tasks.retain(|_, until| *until > now);
        let places: Vec<usize> =
            (0..self.ready.len()).filter(|place| self.can_run(self.ready[*place])).collect();
        if places.is_empty() {
            return Some(self.wait());
        }
        let place = match self.strategy.changes {
            Some(_) => places.into_iter().max_by_key(|place| self.priorities[self.ready[*place]])?,
            None => places[usize::try_from(self.rng.below(places.len() as u64)).ok()?],
        };
        let task = self.ready.remove(place);
        self.note(task as u64, self.now);
        Some(Choice::Task(task))
    }

    fn can_run(&self, task: usize) -> bool {
        let group = self.groups[task];
        !self.killed.contains(&group)
            && !self.paused_groups.contains_key(&group)
            && !self.paused_tasks.contains_key(&task)
    }

    /// Nobody can run now: the clock moves to the next timer, or to the end of a pause.
    fn wait(&mut self) -> Choice {
        let timer = self.timers.first_key_value().map(|(key, _)| key.0);
        let resumed = self.paused_groups.values().chain(self.paused_tasks.values()).min().copied();
        match timer.into_iter().chain(resumed.filter(|_| !self.ready.is_empty())).min() {
            Some(at) => {
                self.now = self.now.max(at);
                Choice::Look
            }
            None => Choice::Nothing,
        }
    }
}

fn resume(tasks: &mut [Task], number: usize) {
    let task = &mut tasks[number];
    let Some(coroutine) = task.coroutine.as_mut() else { return };
    with(|sim| sim.current = Some(number));
    RUNNING.set(Some(Arc::clone(&task.wake)));
    task.wake.queued.store(false, Ordering::Relaxed);
    task.polled.swap();
    let left = coroutine.resume(());
    task.polled.swap();
    YIELDER.set(std::ptr::null());
    RUNNING.set(None);
    match left {
        CoroutineResult::Return(()) => {
            if let Some(finished) = task.coroutine.take() {
                STACKS.with_borrow_mut(|stacks| stacks.push(finished.into_stack()));
            }
        }
        CoroutineResult::Yield(left) => {
            let can_run = matches!(left, Left::Point) || task.wake.woken.load(Ordering::Relaxed);
            if can_run && !task.wake.queued.swap(true, Ordering::Relaxed) {
                with(|sim| sim.ready.push(number));
            }
        }
    }
    with(|sim| {
        sim.current = None;
        sim.note(sim.points, number as u64);
        if task.coroutine.is_none() {
            let name = task.name;
            sim.say(|| format!("task {number} has ended: {name}"));
        }
    });
}
