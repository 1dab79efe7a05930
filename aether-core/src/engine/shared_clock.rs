//! The time of an engine whose store is shared by several machines: that of the store's clock.
//!
//! Promise: where the store has a clock, the engine reads no other one, so that a host whose clock is wrong neither delays
//! nor hastens what is due; entropy and timers stay the environment's.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;

use crate::store::api::{Store, StoreClock};
use crate::vocabulary::environment::Environment;

/// The longest wait in one piece, so that a change of the store's clock is noticed.
const LONGEST_NAP: Duration = Duration::from_secs(60);

/// An environment with the clock of a store.
#[derive(Clone, Debug)]
struct SharedClock {
    environment: Arc<dyn Environment>,
    clock: Arc<dyn StoreClock>,
}

/// `environment`, with the store's clock where the environment's is that of one machine and the store has one.
pub(super) fn shared(environment: Arc<dyn Environment>, store: &dyn Store) -> Arc<dyn Environment> {
    match store.clock() {
        Some(clock) if environment.is_of_one_machine() => Arc::new(SharedClock { environment, clock }),
        _ => environment,
    }
}

impl Environment for SharedClock {
    fn now(&self) -> Timestamp {
        self.clock.now().unwrap_or_else(|| self.environment.now())
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        self.environment.fill_random(bytes);
    }

    fn sleep_until(&self, until: Timestamp) -> BoxFuture<'static, ()> {
        let clock = self.clone();
        Box::pin(async move {
            loop {
                let left = until.duration_since(clock.now());
                if left.is_zero() || left.is_negative() {
                    return;
                }
                let left = Duration::try_from(left).unwrap_or(LONGEST_NAP);
                clock.environment.sleep(left.min(LONGEST_NAP)).await;
            }
        })
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        self.environment.sleep(span)
    }

    fn monotonic(&self) -> Duration {
        self.environment.monotonic()
    }

    fn spawn_keeper(&self, task: BoxFuture<'static, ()>) {
        self.environment.spawn_keeper(task);
    }
}
