//! When a body is to stop: its run is being cancelled, or its execution is over.
//!
//! Promise: whatever a body has started and left behind (a task, a thread, a closure that blocks) is told by the context
//! that the engine does not poll the body any more, however that came about.

use std::pin::pin;

use futures_util::future::select;

use crate::step::context::StepCx;

impl StepCx {
    /// Whether the body is to stop: its run is being cancelled, or this execution [is over](StepCx::is_over). Of a run that
    /// is being cancelled, what the body returns within the engine's cancel grace period (5 s by default) is recorded as
    /// usual. A world-changing body that is still running after that is in doubt.
    ///
    /// The engine cannot cut off a thread. A closure that blocks (`spawn_blocking`) asks before each thing that it does to
    /// the world, by a clone of the context, and so does a task that the body has started:
    ///
    /// ```
    /// # use aether_core::failure::{Failure, Result};
    /// # use aether_core::step::StepCx;
    /// # fn transfer(_: &str) {}
    /// # async fn body(cx: &mut StepCx, rows: Vec<String>) -> Result<()> {
    /// let of_body = cx.clone();
    /// let paid = tokio::task::spawn_blocking(move || {
    ///     rows.iter().take_while(|_| !of_body.is_cancelled()).map(|row| transfer(row)).count()
    /// });
    /// # let _ = paid.await?;
    /// # Ok(()) }
    /// ```
    pub fn is_cancelled(&self) -> bool {
        self.cancellation().is_cancelled() || self.is_over()
    }

    /// Completes when [`StepCx::is_cancelled`] becomes true, for bodies that take long, and for what they start. The engine
    /// drops a body that changes nothing by itself; one that changes the world gets the chance to end with a known outcome
    /// when its run is being cancelled.
    ///
    /// ```
    /// # use aether_core::failure::Failure;
    /// # use aether_core::step::StepCx;
    /// # async fn next_page() -> bool { false }
    /// # async fn body(cx: &mut StepCx) -> Result<(), Failure> {
    /// while !cx.is_cancelled() {
    ///     tokio::select! {
    ///         more = next_page() => if !more { return Ok(()) },
    ///         () = cx.cancelled() => {}
    ///     }
    /// }
    /// Err(Failure::compensatable("stopped half-way"))
    /// # }
    /// ```
    pub async fn cancelled(&self) {
        select(pin!(self.cancellation().cancelled()), pin!(self.over().cancelled())).await;
    }

    /// Whether this execution of the body is over: it has returned, panicked, run into its timeout or lost its heartbeat, or
    /// it was dropped, because its branch lost a race, its run has ended or was lost to another worker, or the engine has
    /// shut down. What goes on without it may no longer act in its name: `cx.http()` sends nothing, nothing is kept, and
    /// what is sent to streams does not count.
    pub fn is_over(&self) -> bool {
        self.over().is_cancelled()
    }
}

/// An execution of a body, which is over when this is dropped.
#[derive(Debug)]
pub(crate) struct Executing<'c>(&'c StepCx);

impl<'c> Executing<'c> {
    /// The one to which this context belongs.
    pub(crate) fn of(cx: &'c StepCx) -> Self {
        Self(cx)
    }
}

impl Drop for Executing<'_> {
    fn drop(&mut self) {
        self.0.over().cancel();
    }
}
