//! Starting runs, and finding those that exist.
//!
//! Promise: the same workflow with the same input under the same id is the same run.

use std::future::IntoFuture;
use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::engine::create::{NewRunOf, create_run, fresh_id};
use crate::engine::handle::{AnyWorkflow, RunHandle};
use crate::engine::inner::{Engine, Inner, now};
use crate::engine::keyed::key::KeyError;
use crate::engine::keyed::start::{Keyed, KeyedEnd};
use crate::engine::queue_options::QueueOptions;
use crate::engine::same_input::difference;
use crate::engine::started_as::is_or_was;
use crate::engine::traceparent::{TraceparentError, checked};
use crate::engine::whole::whole;
use crate::run::program::RegisteredWorkflow;
use crate::store::error::StoreError;
use crate::store::queues::Limit;
use crate::store::records::{Created, RunRecord};
use crate::vocabulary::budget::Budget;
use crate::vocabulary::id::{RunId, RunIdError};
use crate::vocabulary::labels::{LabelError, Labels};
use crate::vocabulary::payload::{Digest, Payload, PayloadError};
use crate::vocabulary::queue::QueueError;
use crate::workflow::definition::Workflow;

impl Engine {
    /// Starts workflow `W` with `input`. Await it to get a handle; the run is durable then.
    ///
    /// The same workflow with the same input under the same [`StartRun::id`] is the same run, so a program that starts it
    /// again after a crash gets a handle to the first one.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::failure::Failure;
    /// # use aether_core::workflow::Workflow;
    /// # #[allow(non_camel_case_types)]
    /// # async fn example<greet>(engine: &Engine) -> Result<(), Box<dyn std::error::Error>>
    /// # where greet: Workflow<Input = String, Output = String, Error = Failure> {
    /// let run = engine.start::<greet>("Ada".to_owned()).id("greet-ada").await?;
    /// assert_eq!(run.result().await?, "Hello, Ada!");
    /// # Ok(()) }
    /// ```
    pub fn start<W: Workflow>(&self, input: W::Input) -> StartRun<'_, W> {
        StartRun {
            engine: self,
            input: W::encode(&input),
            id: None,
            labels: Ok(Labels::default()),
            options: QueueOptions::default(),
            keyed: None,
            traceparent: None,
            workflow: PhantomData,
        }
    }

    /// A handle to an existing run of any workflow: for its status and its end, not for a typed result.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::id::RunId;
    /// # async fn example(engine: &Engine, run: &RunId) -> Result<(), Box<dyn std::error::Error>> {
    /// let run = engine.find("greet-ada").await?;
    /// println!("{} is {}", run.id(), run.status().await?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`StartError`] when there is no such run.
    pub async fn find(&self, id: impl Into<String>) -> Result<RunHandle<AnyWorkflow>, StartError> {
        let id = RunId::new(id)?;
        match self.inner.shared.store.run(&id).await? {
            Some(_) => Ok(self.handle_of(id)),
            None => Err(StoreError::UnknownRun { run: id }.into()),
        }
    }

    fn handle_of<W>(&self, id: RunId) -> RunHandle<W> {
        RunHandle::of(&self.inner, id)
    }

    /// A handle to an existing run of workflow `W`.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::failure::Failure;
    /// # use aether_core::workflow::Workflow;
    /// # #[allow(non_camel_case_types)]
    /// # async fn example<greet>(engine: &Engine) -> Result<(), Box<dyn std::error::Error>>
    /// # where greet: Workflow<Input = String, Output = String, Error = Failure> {
    /// let run = engine.handle::<greet>("greet-ada").await?;
    /// println!("{}", run.result().await?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`StartError`] when there is no such run, or it is of another workflow.
    pub async fn handle<W: Workflow>(&self, id: impl Into<String>) -> Result<RunHandle<W>, StartError> {
        let id = RunId::new(id)?;
        self.inner.register(RegisteredWorkflow::of::<W>());
        let record = self.inner.shared.store.run(&id).await?;
        let Some(record) = record else { return Err(StoreError::UnknownRun { run: id }.into()) };
        if !is_or_was(&*self.inner.shared.store, &record, W::DEF.name).await? {
            let difference = "another workflow";
            return Err(StartError::IdTaken { run: id, workflow: record.workflow, difference });
        }
        Ok(self.handle_of(id))
    }
}

/// Why a run cannot be started.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The id is not usable.
    #[error(transparent)]
    Id(#[from] RunIdError),
    /// The input cannot be recorded.
    #[error("the input of workflow `{workflow}` cannot be recorded: {error}")]
    Input {
        /// Name of the workflow.
        workflow: &'static str,
        /// Why its input does not serialize.
        error: PayloadError,
    },
    /// The input is over the limit.
    #[error(
        "the input of workflow `{workflow}` has {size} bytes of JSON, over the limit of {limit} (`Limits::payload`)"
    )]
    TooLarge {
        /// Name of the workflow.
        workflow: &'static str,
        /// Size in bytes.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The input is not one of the workflow's.
    #[error("the input does not fit workflow `{workflow}`: {error}")]
    Misfit {
        /// Name of the workflow.
        workflow: &'static str,
        /// Why it does not decode.
        error: PayloadError,
    },
    /// The program has no such workflow, or several modules have one.
    #[error(
        "`{workflow}` names {}; this program has {}",
        if modules.is_empty() { "no workflow".to_owned() } else { format!("workflows of several modules ({})", modules.join(", ")) },
        if linked.is_empty() { "none".to_owned() } else { linked.join(", ") }
    )]
    NoWorkflow {
        /// The name that was given.
        workflow: String,
        /// The modules that have one of this name; empty where none has.
        modules: Vec<&'static str>,
        /// The names of the workflows that the program has.
        linked: Vec<String>,
    },
    /// A label is not usable.
    #[error("a run of workflow `{workflow}` cannot be started: {error}")]
    Label {
        /// Name of the workflow.
        workflow: &'static str,
        /// What is wrong with the label.
        #[source]
        error: LabelError,
    },
    /// The trace context has not the form of one.
    #[error("a run of workflow `{workflow}` cannot be started: {error}")]
    Traceparent {
        /// Name of the workflow.
        workflow: &'static str,
        /// What is wrong with it.
        #[source]
        error: TraceparentError,
    },
    /// The id belongs to another run.
    #[error(
        "run `{run}` exists, of workflow `{workflow}` and with {difference}; use another id, or the same workflow and input to get that run"
    )]
    IdTaken {
        /// The id, which the existing run has.
        run: RunId,
        /// Workflow of the existing run.
        workflow: String,
        /// What the existing run has that the new one has not.
        difference: &'static str,
    },
    /// The place in a queue is not usable.
    #[error("a run of workflow `{workflow}` cannot be started: {error}")]
    Queue {
        /// Name of the workflow.
        workflow: &'static str,
        /// What is wrong with queue, key or options.
        #[source]
        error: QueueError,
    },
    /// The key of a start is not usable.
    #[error("a run of workflow `{workflow}` cannot be started: {error}")]
    Key {
        /// Name of the workflow.
        workflow: &'static str,
        /// What is wrong with the key.
        #[source]
        error: KeyError,
    },
    /// As many runs as a limit allows are open. Wait for some of them to end, or start less.
    #[error(
        "a run of workflow `{workflow}` was not started: {open} runs are open, which is all that limit `{limit}` allows"
    )]
    OverLimit {
        /// Name of the workflow.
        workflow: &'static str,
        /// The limit.
        limit: Limit,
        /// How many runs are open, as far as they were counted.
        open: u64,
    },
    /// Another run holds the key.
    #[error("a run of workflow `{workflow}` was not started: run `{run}` holds key `{key}`")]
    Held {
        /// Name of the workflow.
        workflow: &'static str,
        /// The key.
        key: String,
        /// The run that holds it.
        run: RunId,
    },
    /// The engine is shutting down, or has ended with its runtime.
    #[error("run `{run}` was not started: the engine is shutting down, or its runtime has ended")]
    ShutDown {
        /// The id that the run would have had.
        run: RunId,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A run to be started by [`Engine::start`]. Await it.
#[must_use = "a run is started when this is awaited"]
pub struct StartRun<'e, W: Workflow> {
    engine: &'e Engine,
    input: Result<Payload, PayloadError>,
    id: Option<Result<RunId, RunIdError>>,
    labels: Result<Labels, LabelError>,
    pub(super) options: QueueOptions,
    pub(super) keyed: Option<Result<Keyed, KeyError>>,
    traceparent: Option<String>,
    workflow: PhantomData<fn() -> W>,
}

impl<W: Workflow> StartRun<'_, W> {
    /// Names the run; without it the run gets an id of its own. Starting the same workflow with the same input under the
    /// same id again returns the same run.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::failure::Failure;
    /// # use aether_core::workflow::Workflow;
    /// # #[allow(non_camel_case_types)]
    /// # async fn example<greet>(engine: &Engine) -> Result<(), Box<dyn std::error::Error>>
    /// # where greet: Workflow<Input = String, Output = String, Error = Failure> {
    /// let first = engine.start::<greet>("Ada".to_owned()).id("greet-ada").await?;
    /// let again = engine.start::<greet>("Ada".to_owned()).id("greet-ada").await?;
    /// assert_eq!(first.id(), again.id());
    /// # Ok(()) }
    /// ```
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(RunId::new(id));
        self
    }

    /// Gives the run a label, by which [`RunFilter::label`](crate::store::RunFilter::label) finds it: at most
    /// [`MAX_LABELS`](crate::vocabulary::labels::MAX_LABELS) of them, with one value for each key. They are part of the
    /// run's first event and never change. A run that exists keeps its own: labels of a repeated start are dropped.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::failure::Failure;
    /// # use aether_core::workflow::Workflow;
    /// use aether_core::store::RunFilter;
    /// # #[allow(non_camel_case_types)]
    /// # async fn example<greet>(engine: &Engine) -> Result<(), Box<dyn std::error::Error>>
    /// # where greet: Workflow<Input = String, Output = String, Error = Failure> {
    /// engine.start::<greet>("Ada".to_owned()).label("customer", "acme").await?;
    /// let runs = engine.runs(RunFilter::new().label("customer", "acme").limit(50)).await?;
    /// # Ok(()) }
    /// ```
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels = self.labels.and_then(|labels| labels.with(key, value));
        self
    }

    /// Limits what the run may take: tokens, cost, calls and time of all its calls, child runs included. Part of the run's
    /// first event, and never changed; a run that exists keeps its own.
    ///
    /// ```
    /// # use aether_core::budget::Budget;
    /// # use aether_core::engine::Engine;
    /// # use aether_core::failure::Failure;
    /// # use aether_core::workflow::Workflow;
    /// # #[allow(non_camel_case_types)]
    /// # async fn example<greet>(engine: &Engine) -> Result<(), Box<dyn std::error::Error>>
    /// # where greet: Workflow<Input = String, Output = String, Error = Failure> {
    /// engine.start::<greet>("Ada".to_owned()).budget(Budget::new().tokens(20_000).calls(10)).await?;
    /// # Ok(()) }
    /// ```
    pub fn budget(mut self, budget: Budget) -> Self {
        self.options.budget = Some(budget).filter(|budget| !budget.is_unlimited());
        self
    }

    /// The W3C trace context of the caller, as in the header `traceparent`. It is stored beside the run
    /// ([`RunRecord::traceparent`]), so that every process that advances the run can tell to which trace it belongs; it is
    /// no part of its journal. A run that exists keeps its own.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::failure::Failure;
    /// # use aether_core::workflow::Workflow;
    /// # #[allow(non_camel_case_types)]
    /// # async fn example<greet>(engine: &Engine) -> Result<(), Box<dyn std::error::Error>>
    /// # where greet: Workflow<Input = String, Output = String, Error = Failure> {
    /// let caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    /// engine.start::<greet>("Ada".to_owned()).traceparent(caller).await?;
    /// # Ok(()) }
    /// ```
    pub fn traceparent(mut self, traceparent: impl Into<String>) -> Self {
        self.traceparent = Some(traceparent.into());
        self
    }
}

impl<W: Workflow> std::fmt::Debug for StartRun<'_, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StartRun")
            .field("id", &self.id)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl<'e, W: Workflow> IntoFuture for StartRun<'e, W> {
    type Output = Result<RunHandle<W>, StartError>;
    type IntoFuture = BoxFuture<'e, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.start())
    }
}

impl<W: Workflow> StartRun<'_, W> {
    async fn start(self) -> Result<RunHandle<W>, StartError> {
        let Self { engine, input, id, labels, options, keyed, traceparent, .. } = self;
        let new = Starting { input, id, labels, options, keyed, traceparent };
        new.begin(engine, RegisteredWorkflow::of::<W>()).await
    }
}

/// What was said about a run to be started, its workflow aside.
pub(super) struct Starting {
    pub(super) input: Result<Payload, PayloadError>,
    pub(super) id: Option<Result<RunId, RunIdError>>,
    pub(super) labels: Result<Labels, LabelError>,
    pub(super) options: QueueOptions,
    pub(super) keyed: Option<Result<Keyed, KeyError>>,
    pub(super) traceparent: Option<String>,
}

impl Starting {
    /// Starts the run. `W` stands for `registered` in the handle.
    pub(super) async fn begin<W>(
        self,
        engine: &Engine,
        registered: RegisteredWorkflow,
    ) -> Result<RunHandle<W>, StartError> {
        let inner = &engine.inner;
        let workflow = registered.def.name;
        let input = self.input.map_err(|error| StartError::Input { workflow, error })?;
        let (size, limit) = (input.as_str().len(), inner.shared.limits.payload);
        if size > limit {
            return Err(StartError::TooLarge { workflow, size, limit });
        }
        let labels = self.labels.map_err(|error| StartError::Label { workflow, error })?;
        let traceparent = self.traceparent.map(checked).transpose();
        let traceparent = traceparent.map_err(|error| StartError::Traceparent { workflow, error })?;
        let terms = self.options.terms(now(inner)).map_err(|error| StartError::Queue { workflow, error })?;
        let keyed = self.keyed.transpose().map_err(|error| StartError::Key { workflow, error })?;
        let unique = self.id.is_none();
        let id = match self.id {
            Some(id) => id?,
            None => fresh_id(inner),
        };
        inner.register(registered);
        // A shutdown waits for what is written here, and nothing is written behind it.
        let Some(admission) = inner.admit().await else { return Err(StartError::ShutDown { run: id }) };
        let input = inner.shared.redaction.value(input);
        let digest = Digest::of(&input).map_err(|error| StartError::Input { workflow, error })?;
        let new = NewRunOf {
            workflow: registered,
            id: id.clone(),
            input,
            parent: None,
            labels,
            traceparent,
            parent_epoch: None,
            terms,
            unique,
        };
        if let Some(keyed) = keyed {
            let key = keyed.key().to_owned();
            let starting = Arc::clone(inner);
            // A caller that is dropped, or does not go on, keeps no shutdown waiting.
            let decided = async move { keyed.start(&starting, new, &admission).await };
            return match whole(inner, decided).await? {
                KeyedEnd::Run(run, existing) => {
                    if let Some(existing) = existing {
                        same_run(inner, &existing, &registered, &digest).await?;
                    }
                    Ok(engine.handle_of(run))
                }
                KeyedEnd::Gathers { run, name } => {
                    Ok(RunHandle { gathered: Some(name), ..engine.handle_of(run) })
                }
                KeyedEnd::Held(run) => Err(StartError::Held { workflow, key, run }),
                KeyedEnd::OverLimit { limit, open } => Err(StartError::OverLimit { workflow, limit, open }),
            };
        }
        // Before the run can end: its cell lives as long as a handle, and the end is delivered through it.
        let handle = engine.handle_of(id);
        match create_run(inner, new, admission).await? {
            Created::Existing(existing) => {
                same_run(inner, &existing, &registered, &digest).await?;
                inner.wake_scheduler.notify_one();
            }
            Created::OverLimit { limit, open } => {
                return Err(StartError::OverLimit { workflow, limit, open });
            }
            Created::New | Created::ParentLost | Created::DecisionGone => {}
        }
        Ok(handle)
    }
}

async fn same_run(
    inner: &Inner,
    existing: &RunRecord,
    workflow: &RegisteredWorkflow,
    digest: &Digest,
) -> Result<(), StartError> {
    match difference(inner, existing, workflow, digest).await? {
        None => Ok(()),
        Some(difference) => {
            let (run, workflow) = (existing.id.clone(), existing.workflow.clone());
            Err(StartError::IdTaken { run, workflow, difference })
        }
    }
}
