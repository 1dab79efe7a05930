//! The clock of an engine whose timers may be late.
//!
//! Promise: a timer fires at its time unless the schedule holds it, and never before.

use std::sync::Arc;
use std::time::Duration;

use aether_core::environment::Environment;
use futures_util::future::BoxFuture;
use jiff::Timestamp;

use super::pace::Pace;
use super::plan::PointKind;
use crate::sim::world::SimEnvironment;

/// The simulated world, with the timers of a schedule.
#[derive(Debug)]
pub(crate) struct PacedWorld {
    world: SimEnvironment,
    pace: Arc<Pace>,
}

impl PacedWorld {
    pub(crate) fn new(world: SimEnvironment, pace: Arc<Pace>) -> Self {
        Self { world, pace }
    }

    fn fires(&self, after: BoxFuture<'static, ()>) -> BoxFuture<'static, ()> {
        let pace = Arc::clone(&self.pace);
        Box::pin(async move {
            after.await;
            pace.pass(PointKind::Timer, || "a timer".into()).await;
        })
    }
}

impl Environment for PacedWorld {
    fn now(&self) -> Timestamp {
        self.world.now()
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        self.world.fill_random(bytes);
    }

    fn monotonic(&self) -> Duration {
        self.world.monotonic()
    }

    fn sleep_until(&self, until: Timestamp) -> BoxFuture<'static, ()> {
        self.pace.waits_until(until);
        self.fires(self.world.sleep_until(until))
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        self.fires(self.world.sleep(span))
    }
}
