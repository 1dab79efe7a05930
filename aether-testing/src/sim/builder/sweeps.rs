//! Sweeps: one simulation in every crash, every fault of its store, and every order of its branches.
//!
//! Promise: a sweep that fails says how to see that one simulation again.

use aether_core::workflow::Workflow;
use futures_util::future::BoxFuture;

use super::sim::Sim;
use crate::sim::report::error::SimError;
use crate::sim::report::running::Running;
use crate::sim::sweep::crashes::{CrashReport, at_every_boundary};
use crate::sim::sweep::environment::test_name;
use crate::sim::sweep::faults::{FaultReport, with_every_fault};
use crate::sim::sweep::orders::{OrderReport, in_every_order};

/// Sweeps.
impl<W: Workflow> Sim<W> {
    /// Runs the workflow once to learn its boundaries, and then once for each of them, where the process dies and
    /// another one resumes the run:
    ///
    /// - before each write, and between each write and its acknowledgement;
    /// - with each append on its way, which arrives when another process owns the run, and must be refused;
    /// - before and after each write to the effect store, and each write to streams;
    /// - in each body before it does anything, and after it came back;
    /// - half-way through each suspension;
    /// - at all of these while steps are being undone.
    ///
    /// Each time the documented guarantees must hold: same result, same status, and the same input, status and value
    /// of every command; no world-changing body called twice under one key unless its policy is `retry`; in doubt
    /// exactly what the crash cut off and the policy leaves so; whatever the dead process left is whole; what a model's
    /// stream has committed is the recorded answer; and the journal replays. Values of `cx.now()`, `cx.uuid()` and `cx.random()` that a crash took along are drawn again, here with
    /// the same values. Arguments that are altered in a copy of the journal must be refused by a replay.
    ///
    /// With the environment variable `AETHER_CRASH_AT=<id>`, only the boundary of this id is tried, and the journal is
    /// shown as the crash left it and as it was in the end.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// # #[step(effect = "tool")] async fn pay(cx: &mut StepCx, cents: u32) -> Result<u32> { unreachable!() }
    /// # #[workflow] async fn buy(cx: &mut Cx) -> Result<u32> { Ok(pay(cx, 5).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let report = Sim::new::<buy>().stub::<pay>(Ok).crash_at_every_boundary(()).await;
    /// assert_eq!(report.crashes(), report.boundaries.len());
    /// // Between its intent and its outcome it cannot be known whether the payment happened.
    /// assert!(!report.in_doubt.is_empty());
    /// # }
    /// ```
    ///
    /// # Panics
    /// When a crash changes more than it may; shows how to reproduce it.
    #[track_caller]
    pub fn crash_at_every_boundary(&self, input: W::Input) -> Running<CrashReport> {
        Running::new(self.with_crashes(input))
    }

    /// Like [`Sim::crash_at_every_boundary`]. There is an example there.
    ///
    /// # Errors
    /// [`SimError::Crash`] when a crash changes what it must not; [`SimError::Undisturbed`] when a guarantee does not
    /// hold without one; any other when the run without a crash fails.
    pub async fn try_crash_at_every_boundary(&self, input: W::Input) -> Result<CrashReport, SimError> {
        self.with_crashes(input).await
    }

    /// The same as [`Sim::crash_at_every_boundary`]. There is an example there.
    ///
    /// # Panics
    /// As [`Sim::crash_at_every_boundary`].
    #[track_caller]
    pub fn crash_at_every_append(&self, input: W::Input) -> Running<CrashReport> {
        self.crash_at_every_boundary(input)
    }

    /// Runs the workflow once to learn which calls its engine makes to the store, and then once for each
    /// [`StoreFault`](crate::StoreFault) that each of these calls can have. A second process, without the fault, resumes
    /// what a fault stopped. Each time the same must hold as after a crash; see [`Sim::crash_at_every_boundary`].
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// # #[step(effect = "read")] async fn look_up(cx: &mut StepCx, word: String) -> Result<u32> { unreachable!() }
    /// # #[workflow] async fn ask(cx: &mut Cx) -> Result<u32> { Ok(look_up(cx, "bell".into()).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let report = Sim::new::<ask>().stub::<look_up>(|_| Ok(4)).fail_at_every_call(()).await;
    /// assert!(!report.outlasted.is_empty() && !report.stopped.is_empty());
    /// # }
    /// ```
    ///
    /// # Panics
    /// When a fault changes more than a crash may.
    #[track_caller]
    pub fn fail_at_every_call(&self, input: W::Input) -> Running<FaultReport> {
        Running::new(self.with_faults(input))
    }

    /// Like [`Sim::fail_at_every_call`]. There is an example there.
    ///
    /// # Errors
    /// [`SimError::StoreFault`] when a fault changes more than a crash may; any other when the run without a fault fails.
    pub async fn try_fail_at_every_call(&self, input: W::Input) -> Result<FaultReport, SimError> {
        self.with_faults(input).await
    }

    /// Runs the workflow in every order in which the bodies of concurrent branches (of `join`, `race` and `each`, and of
    /// child runs) can come back: depth first, and in at most `limit` orders; where there are more, in `limit` drawn ones
    /// besides, whose seeds are in the report.
    ///
    /// In each order the run must have the same commands with the same arguments and values, the same calls of bodies,
    /// the same effects in each branch, and the same result; and its journal must replay. Where a race is won by
    /// another branch all this may differ: then orders are compared with those that have the same winners.
    ///
    /// Bodies that come back at one virtual time are put into every order. One that takes virtual time itself comes back
    /// when that is over; so do timers. Pure steps are not held.
    ///
    /// With the environment variable `AETHER_ORDER=<choices>`, only this order is tried, and its journal is shown.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// # #[step(effect = "read")] async fn look_up(cx: &mut StepCx, word: String) -> Result<u32> { unreachable!() }
    /// #[workflow]
    /// async fn first(cx: &mut Cx) -> Result<u32> {
    ///     cx.race((
    ///         async |cx: &mut Cx| -> Result<u32> { Ok(look_up(cx, "a".into()).await?) },
    ///         async |cx: &mut Cx| -> Result<u32> { Ok(look_up(cx, "bcd".into()).await?) },
    ///     ))
    ///     .await
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let sim = Sim::new::<first>().stub::<look_up>(|word| Ok(word.len() as u32));
    /// let report = sim.every_interleaving(50, ()).await;
    /// assert_eq!((report.orders, report.exhaustive, report.outcomes), (2, true, 2));
    /// # }
    /// ```
    ///
    /// # Panics
    /// When two orders differ; shows how to reproduce it.
    #[track_caller]
    pub fn every_interleaving(&self, limit: usize, input: W::Input) -> Running<OrderReport> {
        Running::new(self.in_orders(limit, input))
    }

    /// Like [`Sim::every_interleaving`]. There is an example there.
    ///
    /// # Errors
    /// [`SimError::Order`] when two orders differ; any other when a run fails.
    pub async fn try_every_interleaving(
        &self,
        limit: usize,
        input: W::Input,
    ) -> Result<OrderReport, SimError> {
        self.in_orders(limit, input).await
    }

    fn with_crashes(&self, input: W::Input) -> BoxFuture<'static, Result<CrashReport, SimError>> {
        let test = test_name();
        self.on_own_thread(input, move |settings, input| at_every_boundary::<W>(settings, input, &test))
    }

    fn with_faults(&self, input: W::Input) -> BoxFuture<'static, Result<FaultReport, SimError>> {
        let test = test_name();
        self.on_own_thread(input, move |settings, input| with_every_fault::<W>(settings, input, &test))
    }

    fn in_orders(&self, limit: usize, input: W::Input) -> BoxFuture<'static, Result<OrderReport, SimError>> {
        let test = test_name();
        self.on_own_thread(input, move |settings, input| in_every_order::<W>(settings, input, limit, test))
    }
}
