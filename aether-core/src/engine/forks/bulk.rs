//! Forking many runs: a plan for each, and a report for each.
//!
//! Promise: a run that cannot be forked is reported and does not keep the others from it.

use std::fmt;

use crate::engine::forks::error::ForkError;
use crate::engine::forks::plan::ForkPlan;
use crate::engine::forks::request::ForkRun;
use crate::engine::inner::Engine;
use crate::store::error::StoreError;
use crate::store::filter::RunFilter;
use crate::vocabulary::id::RunId;

/// The plan for one of many runs.
#[derive(Clone, Debug)]
pub struct PlannedFork {
    /// The run.
    pub run: RunId,
    /// Its plan, or why there is none.
    pub plan: Result<ForkPlan, ForkError>,
}

/// What became of one of many runs.
#[derive(Clone, Debug, PartialEq)]
pub struct ForkReport {
    /// The run.
    pub run: RunId,
    /// Its fork, or why there is none.
    pub fork: Result<RunId, ForkError>,
}

impl fmt::Display for ForkReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.fork {
            Ok(fork) => write!(f, "{}: {fork}", self.run),
            Err(error) => write!(f, "{}: {error}", self.run),
        }
    }
}

impl Engine {
    /// Plans a fork of every run that `filter` lets through; executes nothing. `cut` says where each is cut.
    ///
    /// ```
    /// # use aether_core::engine::{Engine, PlannedFork};
    /// use aether_core::contract::Status;
    /// use aether_core::store::RunFilter;
    /// # async fn example(engine: &Engine) -> Result<(), Box<dyn std::error::Error>> {
    /// let failed = RunFilter::new().workflow("claim").status(Status::Failed).label("fx", "down");
    /// for PlannedFork { run, plan } in engine.plan_forks(failed, |run| run.before_failure()).await? {
    ///     println!("{run}: {} calls behind the cut", plan?.calls().len());
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`StoreError`] when the runs cannot be listed. What is wrong with one of them is in its [`PlannedFork`].
    pub async fn plan_forks(
        &self,
        filter: RunFilter,
        cut: impl Fn(ForkRun<'_>) -> ForkRun<'_>,
    ) -> Result<Vec<PlannedFork>, StoreError> {
        let mut plans = Vec::new();
        for run in ids(self, filter).await? {
            let plan = cut(self.fork(&run)).plan().await;
            plans.push(PlannedFork { run, plan });
        }
        Ok(plans)
    }

    /// Retries every failed run that `filter` lets through, with what `decide` decides; see [`Engine::retry`].
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// use aether_core::contract::Status;
    /// use aether_core::store::RunFilter;
    /// # async fn example(engine: &Engine) -> Result<(), Box<dyn std::error::Error>> {
    /// let failed = RunFilter::new().workflow("claim").status(Status::Failed);
    /// for report in engine.retry_all(failed, "ada", |plan| plan.keep_all()).await? {
    ///     println!("{report}");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`StoreError`] when the runs cannot be listed. What is wrong with one of them is in its [`ForkReport`].
    pub async fn retry_all(
        &self,
        filter: RunFilter,
        actor: &str,
        decide: impl Fn(ForkPlan) -> ForkPlan,
    ) -> Result<Vec<ForkReport>, StoreError> {
        let mut reports = Vec::new();
        for run in ids(self, filter).await? {
            let fork = match self.retry(&run).plan().await {
                Ok(plan) => decide(plan).start(actor).await.map(|handle| handle.id().clone()),
                Err(error) => Err(error),
            };
            reports.push(ForkReport { run, fork });
        }
        Ok(reports)
    }
}

/// Runs that are read from the store at a time.
const PAGE: usize = 200;

/// The runs that a filter lets through: there may be more of them than one answer of the store should hold.
async fn ids(engine: &Engine, mut filter: RunFilter) -> Result<Vec<RunId>, StoreError> {
    let (mut ids, most) = (Vec::new(), filter.limit);
    loop {
        filter.limit = if most == 0 { PAGE } else { PAGE.min(most - ids.len()) };
        let page = engine.runs(filter.clone()).await?;
        let is_last = page.len() < filter.limit;
        filter.after = page.last().map(|last| last.place);
        ids.extend(page.into_iter().map(|record| record.id));
        if is_last || ids.len() == most {
            return Ok(ids);
        }
    }
}
