//! The real world: the system's clock, the operating system's entropy, and tokio's timers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aether_core::environment::Environment;
use futures_util::future::BoxFuture;
use jiff::Timestamp;

/// The longest wait in one piece, so that a change of the system's clock is noticed.
const LONGEST_NAP: Duration = Duration::from_secs(60);

/// The system's clock and entropy. Waiting needs a tokio runtime with timers.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEnvironment;

impl Environment for SystemEnvironment {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn is_of_one_machine(&self) -> bool {
        true
    }

    /// # Panics
    /// When the operating system gives no entropy: run ids and recorded draws must not be guessable, so nothing can
    /// take its place.
    fn fill_random(&self, bytes: &mut [u8]) {
        if let Err(error) = getrandom::fill(bytes) {
            panic!("the operating system gives no entropy: {error}");
        }
    }

    fn sleep_until(&self, until: Timestamp) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            loop {
                let left = until.duration_since(Timestamp::now());
                if left.is_zero() || left.is_negative() {
                    return;
                }
                let left = Duration::try_from(left).unwrap_or(LONGEST_NAP);
                tokio::time::sleep(left.min(LONGEST_NAP)).await;
            }
        })
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(span))
    }

    /// A thread of its own. Where the system gives none, the caller's runtime does.
    fn spawn_keeper(&self, task: BoxFuture<'static, ()>) {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_time().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                tracing::warn!(%error, "leases are renewed among other work: no runtime of their own");
                drop(tokio::spawn(task));
                return;
            }
        };
        // Moved out by the thread: a thread that could not be started leaves the task here.
        let task = Arc::new(Mutex::new(Some(task)));
        let thread = std::thread::Builder::new().name("aether-leases".into()).spawn({
            let task = Arc::clone(&task);
            move || {
                let task = task.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some(task) = task {
                    runtime.block_on(task);
                }
            }
        });
        if let Err(error) = thread {
            tracing::warn!(%error, "leases are renewed among other work: no thread of their own");
            if let Some(task) = task.lock().unwrap_or_else(PoisonError::into_inner).take() {
                tokio::spawn(task);
            }
        }
    }
}
