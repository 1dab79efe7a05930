//! A net under code of the user: a panic of it ends here.
//!
//! Promise: a destructor that panics ends neither the task that runs it nor another run.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::sched::mutated;
use crate::vocabulary::failure::panic_message;
use crate::vocabulary::id::RunId;

/// Calls `code`; `Err` holds what it panicked with.
pub(crate) fn in_net<T>(code: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(code)).map_err(|panic| panic_message(&*panic))
}

/// A future of the user: dropping it never panics. Its polls may.
pub(crate) struct Netted<F> {
    run: RunId,
    future: Option<F>,
}

impl<F> Netted<F> {
    pub(crate) fn new(run: &RunId, future: F) -> Self {
        Self { run: run.clone(), future: Some(future) }
    }
}

impl<F: Future + Unpin> Future for Netted<F> {
    type Output = F::Output;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        match &mut self.future {
            Some(future) => Pin::new(future).poll(cx),
            None => Poll::Pending,
        }
    }
}

impl<F> Drop for Netted<F> {
    fn drop(&mut self) {
        let future = self.future.take();
        if mutated("destructors-escape") {
            return drop(future);
        }
        if let Err(message) = in_net(|| drop(future)) {
            tracing::error!(target: "aether::run", run = %self.run, message, "a destructor panicked while the run's code was dropped");
        }
    }
}
