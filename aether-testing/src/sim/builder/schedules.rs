//! The sweep over schedules: what a test asks of each of them.
//!
//! Promise: nothing runs before it is awaited; a schedule that fails is shrunk, and the line that gives it again is printed.

use std::future::IntoFuture;
use std::panic::Location;
use std::sync::Arc;

use aether_core::workflow::Workflow;
use futures_util::future::BoxFuture;

use super::sim::Sim;
use crate::sim::report::error::SimError;
use crate::sim::report::running::Running;
use crate::sim::report::sim_report::SimReport;
use crate::sim::sweep::environment::test_name;
use crate::sim::sweep::schedules::{Asked, ScheduleReport, in_schedules};

/// Schedules of a simulation, about to be tried. Await it, or say first what is asked of each schedule.
#[must_use = "schedules are tried when this is awaited"]
pub struct EverySchedule<W: Workflow> {
    sim: Sim<W>,
    input: W::Input,
    schedules: usize,
    asked: Asked<W>,
    at: &'static Location<'static>,
}

impl<W: Workflow> Sim<W> {
    /// Runs the workflow in `n` schedules that are drawn from seeds, beginning with [`Sim::seed`], and holds each against
    /// the same rules. Nothing is to be written but the simulation itself. What a schedule varies:
    ///
    /// - **messages**: when each signal ([`Sim::signal_at`]), decision, answer, report and cancel ([`Sim::cancel_at`])
    ///   of the test arrives: at once, at any point of the run, just when a time limit ends, or late. Signals of one name
    ///   keep their order, and each is sent when the one before it was acknowledged;
    /// - **order**: each call to the store (before it is done, and before its answer comes), each body (before it begins, and
    ///   before what it returned arrives) and each timer may come after everything else that is ready;
    /// - **time**: any of these may be held for up to 16 s of virtual time, alone or with the whole process; appends keep
    ///   their order;
    /// - **processes**: at any of these points the process may die, or be shut down; another one resumes the run;
    /// - **memory**: idle runs leave it at once, after a second, or after an hour.
    ///
    /// What must hold in each schedule:
    ///
    /// - the run ends;
    /// - each signal that was acknowledged to its sender is received once, those of one name in their order, before the run
    ///   ends; each decision and answer that was acknowledged is recorded once;
    /// - no world-changing body is called twice under one key, unless its policy is `retry`, and none begins after a
    ///   shutdown;
    /// - nothing is in doubt that neither a crash cut off nor the run itself dropped;
    /// - the journal replays, and what each process left is whole;
    /// - the result, and the commands with their values, are those of all other schedules in which races, waits, decisions
    ///   and cancels came out in the same way.
    ///
    /// A schedule that breaks a rule is shrunk: choices are left out and made simpler as long as the same rule is broken.
    /// The error tells what is left in words, and in one line: with `AETHER_SCHEDULE=<that> cargo test <test>`, only this
    /// schedule is tried, and everything that happens in it is shown. A bare seed is understood as well.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// # use std::time::Duration;
    /// # #[step(effect = "tool")] async fn ship(cx: &mut StepCx, order: u32) -> Result<u32> { unreachable!() }
    /// /// Ships what was ordered and paid.
    /// #[workflow]
    /// async fn sell(cx: &mut Cx) -> Result<u32> {
    ///     let order: u32 = cx.signal("ordered").await?;
    ///     let _paid: u32 = cx.signal("paid").await?;
    ///     Ok(ship(cx, order).await?)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let minute = Duration::from_secs(60);
    /// let sim = Sim::new::<sell>()
    ///     .stub::<ship>(Ok)
    ///     .signal_at(minute, "ordered", 7)
    ///     .signal_at(2 * minute, "paid", 1250);
    ///
    /// let report = sim.every_schedule((), 50).await;
    /// assert_eq!((report.schedules, report.outcomes), (50, 1));
    /// assert!(report.crashes > 0 && report.messages > 50);
    /// # }
    /// ```
    ///
    /// # Panics
    /// When a schedule breaks a rule; shows how to reproduce it.
    #[track_caller]
    pub fn every_schedule(&self, input: W::Input, n: usize) -> EverySchedule<W> {
        let asked = Asked { results_may_differ: false, signals_may_be_left: false, check: None };
        EverySchedule { sim: self.clone(), input, schedules: n, asked, at: Location::caller() }
    }
}

impl<W: Workflow> EverySchedule<W> {
    /// Does not compare results: for workflows whose result depends on what came first or how long it took.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// # use std::time::Duration;
    /// # #[workflow] async fn late(cx: &mut Cx) -> Result<bool> {
    /// #     let begun = cx.now().await;
    /// #     let _: u32 = cx.signal("paid").await?;
    /// #     Ok(cx.now().await.duration_since(begun).as_secs() > 5)
    /// # }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let sim = Sim::new::<late>().signal_at(Duration::from_secs(3), "paid", 1);
    /// let report = sim.every_schedule((), 20).results_may_differ().check(|report| drop(report.assert_completed())).await;
    /// assert_eq!(report.schedules, 20);
    /// # }
    /// ```
    pub fn results_may_differ(mut self) -> Self {
        self.asked.results_may_differ = true;
        self
    }

    /// Lets the run end without a signal that was acknowledged: for workflows that stop waiting at a time limit, or take
    /// the first of several signals. There is an example at [`EverySchedule::check`].
    pub fn signals_may_be_left(mut self) -> Self {
        self.asked.signals_may_be_left = true;
        self
    }

    /// Asserts something about each schedule, beyond the rules that hold for all. A closure that panics fails the schedule.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// # use std::time::Duration;
    /// # #[step(effect = "tool")] async fn ship(cx: &mut StepCx) -> Result<()> { unreachable!() }
    /// # #[step(effect = "tool")] async fn refund(cx: &mut StepCx) -> Result<()> { unreachable!() }
    /// /// Ships what is paid within an hour.
    /// #[workflow]
    /// async fn sell(cx: &mut Cx) -> Result<bool> {
    ///     let paid: Result<u32, _> = cx.signal("paid").timeout(Duration::from_secs(3600)).await;
    ///     if paid.is_ok() {
    ///         ship(cx).await?;
    ///     }
    ///     Ok(paid.is_ok())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let sim = Sim::new::<sell>().stub::<ship>(|()| Ok(())).signal_at(Duration::from_secs(60), "paid", 1250);
    /// let report = sim
    ///     .every_schedule((), 50)
    ///     .signals_may_be_left()
    ///     .check(|report| {
    ///         // A shipment that a crash cut off is in doubt, and its policy fails the run.
    ///         let paid = report.crashes > 0 || *report.assert_completed();
    ///         assert!(paid || report.calls::<ship>().is_empty());
    ///     })
    ///     .await;
    /// assert_eq!(report.schedules, 50);
    /// # }
    /// ```
    pub fn check(mut self, check: impl Fn(&SimReport<W>) + Send + Sync + 'static) -> Self {
        self.asked.check = Some(Arc::new(check));
        self
    }

    /// Tries the schedules; for tests of what goes wrong.
    ///
    /// # Errors
    /// [`SimError::Schedule`] when a schedule breaks a rule; [`SimError::Undisturbed`] when the plain simulation breaks one;
    /// any other when the plain simulation fails.
    pub async fn attempt(self) -> Result<ScheduleReport, SimError> {
        self.run().await
    }

    fn run(self) -> BoxFuture<'static, Result<ScheduleReport, SimError>> {
        let Self { sim, input, schedules, asked, .. } = self;
        let test = test_name();
        sim.on_own_thread(input, move |settings, input| {
            in_schedules::<W>(settings, input, schedules, asked, test)
        })
    }
}

impl<W: Workflow> IntoFuture for EverySchedule<W> {
    type Output = ScheduleReport;
    type IntoFuture = Running<ScheduleReport>;

    fn into_future(self) -> Running<ScheduleReport> {
        let at = self.at;
        Running::at(self.run(), at)
    }
}

impl<W: Workflow> std::fmt::Debug for EverySchedule<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EverySchedule")
            .field("sim", &self.sim)
            .field("schedules", &self.schedules)
            .finish_non_exhaustive()
    }
}
