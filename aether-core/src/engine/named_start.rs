//! Starting a run of a workflow that is known by its name only: for command lines, consoles and bridges.
//!
//! Promise: what is recorded is what a typed start with the same input records.

use std::future::IntoFuture;

use futures_util::future::BoxFuture;

use crate::engine::handle::{AnyWorkflow, RunHandle};
use crate::engine::inner::Engine;
use crate::engine::queue_options::QueueOptions;
use crate::engine::start::{StartError, Starting};
use crate::run::program::RegisteredWorkflow;
use crate::vocabulary::id::RunId;
use crate::vocabulary::labels::Labels;
use crate::vocabulary::net::in_net;
use crate::vocabulary::payload::{Payload, PayloadError};

/// A run to be started by [`Engine::start_named`]. Await it.
#[must_use = "a run is started when this is awaited"]
pub struct StartNamed<'e> {
    engine: &'e Engine,
    workflow: String,
    start: Starting,
}

impl Engine {
    /// Starts a run of the newest version of the workflow `name` that this program links, with `input` as JSON. Where the
    /// workflow is known when the program is compiled, use [`Engine::start`].
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// use aether_core::payload::Payload;
    /// # async fn example(engine: &Engine) -> Result<(), Box<dyn std::error::Error>> {
    /// let input = Payload::from_text(r#""Ada""#.to_owned())?;
    /// let run = engine.start_named("greet", input).id("greet-ada").await?;
    /// println!("{} is {}", run.id(), run.status().await?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`StartError`], when it is awaited: as for [`Engine::start`]; [`StartError::NoWorkflow`] where the name is not that of
    /// exactly one workflow; [`StartError::Misfit`] where the input is not one of it.
    pub fn start_named(&self, name: impl Into<String>, input: Payload) -> StartNamed<'_> {
        let start = Starting {
            input: Ok(input),
            id: None,
            labels: Ok(Labels::default()),
            options: QueueOptions::default(),
            keyed: None,
            traceparent: None,
        };
        StartNamed { engine: self, workflow: name.into(), start }
    }
}

impl StartNamed<'_> {
    /// Names the run, as [`StartRun::id`](crate::engine::StartRun::id) does.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.start.id = Some(RunId::new(id));
        self
    }

    /// Gives the run a label; called again, another one.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.start.labels = self.start.labels.and_then(|labels| labels.with(key, value));
        self
    }

    /// Lets the run wait for its turns in a queue, as [`StartRun::queue`](crate::engine::StartRun::queue) does.
    pub fn queue(mut self, name: impl Into<String>) -> Self {
        self.start.options.queue = Some(name.into());
        self
    }

    /// Whom the run is for, as [`StartRun::key`](crate::engine::StartRun::key) says it.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.start.options.key = Some(key.into());
        self
    }

    /// Its priority among the runs of its key. Default 0.
    pub fn priority(mut self, priority: i32) -> Self {
        self.start.options.priority = Some(priority);
        self
    }

    async fn start(self) -> Result<RunHandle<AnyWorkflow>, StartError> {
        let Self { engine, workflow, mut start } = self;
        let registered = find(engine, workflow)?;
        start.input = Ok(fitting(registered, start.input)?);
        start.begin(engine, registered).await
    }
}

impl<'e> IntoFuture for StartNamed<'e> {
    type Output = Result<RunHandle<AnyWorkflow>, StartError>;
    type IntoFuture = BoxFuture<'e, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.start())
    }
}

impl std::fmt::Debug for StartNamed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StartNamed").field("workflow", &self.workflow).finish_non_exhaustive()
    }
}

/// The newest version of the only workflow of this name.
fn find(engine: &Engine, workflow: String) -> Result<RegisteredWorkflow, StartError> {
    let inner = &engine.inner;
    let mut of_name = inner.workflows();
    of_name.retain(|linked| linked.def.name == workflow);
    let mut modules: Vec<_> = of_name.iter().map(|linked| linked.def.module).collect();
    modules.sort_unstable();
    modules.dedup();
    match of_name.into_iter().max_by_key(|linked| linked.def.version) {
        Some(newest) if modules.len() == 1 => Ok(newest),
        _ => Err(StartError::NoWorkflow { workflow, modules, linked: inner.workflow_names().to_vec() }),
    }
}

/// The input as the workflow's type encodes it, so that a typed start with it finds the same run.
fn fitting(
    registered: RegisteredWorkflow,
    input: Result<Payload, PayloadError>,
) -> Result<Payload, StartError> {
    let workflow = registered.def.name;
    let misfit = |error| StartError::Misfit { workflow, error };
    let fitting = input.and_then(|input| {
        let panicked = |message| PayloadError::Panicked { step: workflow.to_owned(), message };
        in_net(|| registered.normal_input(&input)).map_err(panicked)?
    });
    fitting.map_err(misfit)
}
