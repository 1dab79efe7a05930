//! The same names for the exploration of schedules: a thread is a task, and time is virtual.
//!
//! Promise: what waits here is left by the scheduler, and a transaction is not: SQLite's own lock is released by the
//! system when a process ends, and by nobody when a task is left for good.

use std::collections::VecDeque;
use std::ops::Add;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::Duration;

pub(crate) use aether_core::sched::mutated;
use aether_core::sched::{hooks, point};

/// As [`std::time::Instant`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant(Duration);

impl Instant {
    pub(crate) fn now() -> Self {
        Self(hooks().map_or(Duration::ZERO, |hooks| hooks.now()))
    }

    pub(crate) fn elapsed(&self) -> Duration {
        Self::now().saturating_duration_since(*self)
    }

    pub(crate) fn saturating_duration_since(&self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span))
    }
}

/// As [`std::thread::sleep`].
pub(crate) fn sleep(span: Duration) {
    let until = Instant::now() + span;
    while Instant::now() < until && wait(Some(until)) {}
}

/// The writer does not stay awake: a transaction that is open then would be left.
pub(crate) const SOON: Duration = Duration::ZERO;

/// Does nothing.
pub(crate) fn yield_now() {}

/// Leaves the running task until it is woken or `until` is there. `false` when the schedule is over.
fn wait(until: Option<Instant>) -> bool {
    match hooks() {
        Some(hooks) => {
            hooks.park(until.map(|until| until.0));
            !hooks.is_over()
        }
        None => false,
    }
}

/// As [`std::thread::JoinHandle`].
pub(crate) struct JoinHandle<T>(Arc<Channel<T>>);

impl<T> JoinHandle<T> {
    pub(crate) fn join(self) -> Result<(), ()> {
        while self.0.lock().senders > 0 {
            self.0.lock().waker = hooks().and_then(|hooks| hooks.waker());
            if !wait(None) {
                break;
            }
        }
        Ok(())
    }
}

/// Starts a task of this name.
pub(crate) fn spawn(_name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    let (running, ended) = unbounded();
    let task = Box::pin(async move {
        work();
        drop(running);
    });
    match hooks() {
        Some(hooks) => drop(hooks.spawn("thread", task)),
        None => return Err(std::io::Error::other("no exploration is under way")),
    }
    Ok(JoinHandle(Arc::clone(&ended.0)))
}

struct Channel<T>(Mutex<State<T>>);

struct State<T> {
    queue: VecDeque<T>,
    senders: usize,
    receivers: usize,
    waker: Option<Waker>,
}

impl<T> Channel<T> {
    fn lock(&self) -> std::sync::MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As `crossbeam_channel::unbounded`.
pub(crate) fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    let state = State { queue: VecDeque::new(), senders: 1, receivers: 1, waker: None };
    let channel = Arc::new(Channel(Mutex::new(state)));
    (Sender(Arc::clone(&channel)), Receiver(channel))
}

/// As `crossbeam_channel::Sender`.
pub(crate) struct Sender<T>(Arc<Channel<T>>);

/// What could not be sent.
pub(crate) struct SendError<T>(T);

impl<T> SendError<T> {
    pub(crate) fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Sender<T> {
    /// No place to leave: a caller may hold a lock of `std`.
    pub(crate) fn send(&self, value: T) -> Result<(), SendError<T>> {
        let mut state = self.0.lock();
        if state.receivers == 0 {
            return Err(SendError(value));
        }
        state.queue.push_back(value);
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        Ok(())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.lock().senders += 1;
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.senders -= 1;
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }
}

/// As `crossbeam_channel::Receiver`.
pub(crate) struct Receiver<T>(Arc<Channel<T>>);

/// As `crossbeam_channel::TryRecvError`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TryRecvError {
    Empty,
    Disconnected,
}

impl<T> Receiver<T> {
    pub(crate) fn try_recv(&self) -> Result<T, TryRecvError> {
        let mut state = self.0.lock();
        match state.queue.pop_front() {
            Some(value) => Ok(value),
            None if state.senders == 0 => Err(TryRecvError::Disconnected),
            None => Err(TryRecvError::Empty),
        }
    }

    pub(crate) fn recv(&self) -> Result<T, TryRecvError> {
        point("receive");
        self.received(None)
    }

    pub(crate) fn recv_deadline(&self, until: Instant) -> Result<T, TryRecvError> {
        self.received(Some(until))
    }

    fn received(&self, until: Option<Instant>) -> Result<T, TryRecvError> {
        loop {
            match self.try_recv() {
                Err(TryRecvError::Empty) => {}
                other => return other,
            }
            if until.is_some_and(|until| until <= Instant::now()) {
                return Err(TryRecvError::Empty);
            }
            self.0.lock().waker = hooks().and_then(|hooks| hooks.waker());
            if !wait(until) {
                return Err(TryRecvError::Disconnected);
            }
        }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.0.lock().receivers += 1;
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.receivers -= 1;
        // What nobody will receive is dropped, and answered by that.
        let left = if state.receivers == 0 { std::mem::take(&mut state.queue) } else { VecDeque::new() };
        drop(state);
        drop(left);
    }
}

macro_rules! opaque {
    ($($name:ident)*) => {$(
        impl<T> std::fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    )*};
}

opaque! { JoinHandle Receiver SendError Sender }
