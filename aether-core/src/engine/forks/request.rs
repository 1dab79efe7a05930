//! Asking for the plan of a fork: `engine.fork(&run).before("5:send_email").plan()`.

use std::future::IntoFuture;

use futures_util::future::BoxFuture;

use crate::engine::forks::cut::{CutAt, Origin};
use crate::engine::forks::error::ForkError;
use crate::engine::forks::plan::ForkPlan;
use crate::engine::inner::Engine;
use crate::vocabulary::id::RunId;

impl Engine {
    /// Forks a run: a new run that begins with what this one had recorded up to a cut, and goes on live from there. The run
    /// itself is not changed.
    ///
    /// The plan executes nothing. It lists every call behind the cut that may have changed the world, with what became of
    /// it. About each that may have left something you decide: *keep* its recorded outcome, make it *again* under a new key,
    /// or *undo it first*. Nothing is decided silently: [`ForkPlan::start`] refuses a fork with an undecided call.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::id::RunId;
    /// # async fn example(engine: &Engine, run: &RunId) -> Result<(), Box<dyn std::error::Error>> {
    /// let plan = engine.fork(run).before("5:send_email").plan().await?;
    /// println!("{plan}");
    /// let fork = plan.keep("5:send_email").undo_first("6:reserve").start("ada").await?;
    /// println!("{} goes on", fork.id());
    /// # Ok(()) }
    /// ```
    pub fn fork(&self, run: &RunId) -> ForkRun<'_> {
        ForkRun { engine: self, run: run.clone(), at: None, retry: false }
    }

    /// Retries a run that failed: the fork before its failure, under the id `<run>~2` (then `~3`, and so on), which
    /// [`Engine::latest`] finds under the run's own id. Steps that were undone when it failed are made again.
    ///
    /// A retry cannot have the same id: keys by which receivers recognize repeats, callback tokens and the ids of child runs
    /// are made of it. A run is retried once; a second call finds the first retry.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::id::RunId;
    /// # async fn example(engine: &Engine, run: &RunId) -> Result<(), Box<dyn std::error::Error>> {
    /// let plan = engine.retry(run).await?;
    /// let again = plan.keep_all().start("ada").await?;
    /// # Ok(()) }
    /// ```
    pub fn retry(&self, run: &RunId) -> ForkRun<'_> {
        ForkRun { engine: self, run: run.clone(), at: Some(CutAt::Failure), retry: true }
    }
}

/// A fork to be planned, of [`Engine::fork`] or [`Engine::retry`]. Await it, or its [`ForkRun::plan`].
#[must_use = "a fork is planned when this is awaited"]
#[derive(Clone, Debug)]
pub struct ForkRun<'e> {
    engine: &'e Engine,
    run: RunId,
    at: Option<CutAt>,
    retry: bool,
}

impl<'e> ForkRun<'e> {
    /// Cuts before the first event of this command, such as `5:send_email`, or of what is inside of it. What other branches
    /// had got by then stays; what they had begun and not got is begun again.
    pub fn before(self, command: impl Into<String>) -> Self {
        Self { at: Some(CutAt::Before(command.into())), ..self }
    }

    /// Cuts before the command whose error ended the run, or before the first step that was undone because of it. Where the
    /// workflow failed by itself, cuts at its end.
    pub fn before_failure(self) -> Self {
        Self { at: Some(CutAt::Failure), ..self }
    }

    /// Copies nothing but the input.
    pub fn from_start(self) -> Self {
        Self { at: Some(CutAt::Start), ..self }
    }

    /// Copies everything up to the end of the workflow. What was undone behind it makes this impossible.
    pub fn at_end(self) -> Self {
        Self { at: Some(CutAt::End), ..self }
    }

    /// Reads the journal and makes the plan. Executes nothing.
    ///
    /// # Errors
    /// [`ForkError`] when the run cannot be cut there, or its journal cannot be read.
    pub async fn plan(self) -> Result<ForkPlan, ForkError> {
        let Some(at) = self.at else { return Err(ForkError::NoCut { run: self.run }) };
        let origin = Origin::load(&self.engine.inner, &self.run).await?;
        ForkPlan::make(self.engine, &origin, at, self.retry)
    }
}

impl<'e> IntoFuture for ForkRun<'e> {
    type Output = Result<ForkPlan, ForkError>;
    type IntoFuture = BoxFuture<'e, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.plan())
    }
}
