//! The engine's environment: the clock, the timers and the entropy of a schedule.
//!
//! Promise: spans follow a clock that never leaps, moments follow the wall clock, which may.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use aether_core::environment::Environment;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use jiff::Timestamp;

use crate::sim::{self, timers};

/// What the wall clock shows at the beginning.
const EPOCH: i64 = 1_700_000_000_000_000;

/// The environment of every engine of a schedule.
#[derive(Debug)]
pub struct SimWorld;

/// The moment at which the wall clock shows `at` microseconds.
pub fn stamp(at: u64) -> Timestamp {
    let micros = EPOCH.saturating_add(i64::try_from(at).unwrap_or(i64::MAX));
    Timestamp::from_microsecond(micros).unwrap_or(Timestamp::MAX)
}

/// What the wall clock shows at a moment; the reverse of [`stamp`].
pub fn micros(at: Timestamp) -> u64 {
    u64::try_from(at.as_microsecond().saturating_sub(EPOCH)).unwrap_or(0)
}

impl Environment for SimWorld {
    fn now(&self) -> Timestamp {
        stamp(sim::wall())
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        bytes.iter_mut().for_each(|byte| *byte = sim::draw(256).to_le_bytes()[0]);
    }

    fn sleep_until(&self, until: Timestamp) -> BoxFuture<'static, ()> {
        Sleep { until: Until::Wall(micros(until)), key: None, polled: false }.boxed()
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        sleep(u64::try_from(span.as_micros()).unwrap_or(u64::MAX)).boxed()
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(sim::now())
    }

    fn spawn_keeper(&self, task: BoxFuture<'static, ()>) {
        sim::spawn_in(sim::group(), "keeper", task);
    }
}

/// Ends after so many microseconds; never before others had a chance to run.
pub fn sleep(span: u64) -> Sleep {
    sleep_until(sim::now().saturating_add(span))
}

/// Ends when the clock that never leaps shows `at`.
pub fn sleep_until(at: u64) -> Sleep {
    Sleep { until: Until::Clock(at), key: None, polled: false }
}

#[derive(Clone, Copy, Debug)]
enum Until {
    Clock(u64),
    Wall(u64),
}

/// A timer.
#[derive(Debug)]
pub struct Sleep {
    until: Until,
    key: Option<(u64, u64)>,
    polled: bool,
}

impl Future for Sleep {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let left = match self.until {
            Until::Clock(at) => at.saturating_sub(sim::now()),
            Until::Wall(at) => at.saturating_sub(sim::wall()),
        };
        timers::remove(self.key.take());
        if self.polled && left == 0 {
            return Poll::Ready(());
        }
        self.polled = true;
        self.key = timers::insert(left, matches!(self.until, Until::Wall(_)), cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        timers::remove(self.key.take());
    }
}
