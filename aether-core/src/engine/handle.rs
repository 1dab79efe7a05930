//! Starting runs, and handles that wait for their results.

use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::future::{BoxFuture, select};

use tokio::sync::OwnedRwLockReadGuard;

use super::worker::{Launch, claim, launch_run, now};
use super::{Cell, Engine, Inner};
use crate::contract::Status;
use crate::effect_store::{self, Kept, large};
use crate::event::{RunCreated, Uncompensated};
use crate::failure::Failure;
use crate::fault::Fault;
use crate::id::{RunId, RunIdError};
use crate::journal::Frame;
use crate::obligations::Obligations;
use crate::payload::{Digest, Payload, PayloadError, hex};
use crate::policy::Mode;
use crate::replay::History;
use crate::run::Origin;
use crate::step::{RegisteredWorkflow, Workflow};
use crate::store::{Created, NewRun, RunRecord, StoreError};
use crate::turn::RunEnd;
use crate::world::later;

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
        /// The workflow.
        workflow: &'static str,
        /// What the encoder said.
        error: PayloadError,
    },
    /// The input is over the limit.
    #[error(
        "the input of workflow `{workflow}` has {size} bytes of JSON, over the limit of {limit} (`Limits::payload`)"
    )]
    TooLarge {
        /// The workflow.
        workflow: &'static str,
        /// Size in bytes.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The id belongs to another run.
    #[error(
        "run `{run}` exists, of workflow `{workflow}` and with {difference}; use another id, or the same workflow and input to get that run"
    )]
    IdTaken {
        /// The id.
        run: RunId,
        /// Workflow of the existing run.
        workflow: String,
        /// What differs.
        difference: &'static str,
    },
    /// The engine is shutting down.
    #[error("run `{run}` was not started: the engine is shutting down")]
    ShutDown {
        /// The id.
        run: RunId,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a run gave no value.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum RunError<E = Failure> {
    /// The workflow returned this error.
    Failed(E),
    /// The workflow returned this error, and some of its steps could not be undone.
    Uncompensated {
        /// The run.
        run: RunId,
        /// The workflow's error.
        error: E,
        /// The steps that stay as they are.
        steps: Vec<Uncompensated>,
    },
    /// The run was cancelled.
    Cancelled {
        /// The run.
        run: RunId,
        /// Why.
        reason: String,
        /// By whom.
        actor: String,
        /// Steps that could not be undone.
        uncompensated: Vec<Uncompensated>,
    },
    /// The run was ended at once, without undoing anything.
    Terminated {
        /// The run.
        run: RunId,
        /// Why.
        reason: String,
        /// By whom.
        actor: String,
    },
    /// The run has not ended and is not being advanced here; nothing of it was lost.
    Stopped {
        /// The run.
        run: RunId,
        /// Why.
        fault: Box<Fault>,
    },
    /// The recorded result does not decode into the workflow's types; its text says what it is.
    Unreadable {
        /// The run.
        run: RunId,
        /// What the decoder said.
        error: PayloadError,
        /// The recorded error as text, if the run failed.
        message: Option<String>,
    },
    /// The store failed.
    Store(StoreError),
}

impl<E: fmt::Display> fmt::Display for RunError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => write!(f, "{error}"),
            Self::Uncompensated { error, steps, .. } => {
                write!(f, "{error}")?;
                steps.iter().try_for_each(|step| write!(f, "; {step}"))
            }
            Self::Cancelled { run, reason, actor, uncompensated } => {
                write!(f, "run `{run}` was cancelled by {actor}: {reason}")?;
                uncompensated.iter().try_for_each(|step| write!(f, "; {step}"))
            }
            Self::Terminated { run, reason, actor } => {
                write!(f, "run `{run}` was terminated by {actor}: {reason}")
            }
            Self::Stopped { fault, .. } => write!(f, "{fault}"),
            Self::Unreadable { run, message: Some(message), .. } => {
                write!(f, "run `{run}` failed: {message}")
            }
            Self::Unreadable { run, error, message: None } => {
                write!(f, "the result of run `{run}` is unreadable: {error}")
            }
            Self::Store(error) => write!(f, "{error}"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for RunError<E> {}

/// A run to be started; await it.
#[must_use = "a run is started when this is awaited"]
#[derive(Debug)]
pub struct StartRun<'e, W: Workflow> {
    engine: &'e Engine,
    input: Result<Payload, PayloadError>,
    id: Option<Result<RunId, RunIdError>>,
    workflow: PhantomData<fn() -> W>,
}

impl<W: Workflow> StartRun<'_, W> {
    /// Names the run. Starting the same workflow with the same input under the same id again gives the same run.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(RunId::new(id));
        self
    }
}

impl<'e, W: Workflow> IntoFuture for StartRun<'e, W> {
    type Output = Result<RunHandle<W>, StartError>;
    type IntoFuture = BoxFuture<'e, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let inner = &self.engine.inner;
            let workflow = W::DEF.name;
            let input = self.input.map_err(|error| StartError::Input { workflow, error })?;
            let (size, limit) = (input.as_str().len(), inner.host.limits.payload);
            if size > limit {
                return Err(StartError::TooLarge { workflow, size, limit });
            }
            let unique = self.id.is_none();
            let id = match self.id {
                Some(id) => id?,
                None => RunId::from(time_ordered_uuid(inner)),
            };
            inner.register(RegisteredWorkflow::of::<W>());
            if inner.is_stopping() {
                return Err(StartError::ShutDown { run: id });
            }
            let digest = Digest::of(&input).map_err(|error| StartError::Input { workflow, error })?;
            let registered = RegisteredWorkflow::of::<W>();
            let new = NewRunOf { workflow: registered, id: id.clone(), input, parent: None, unique };
            // Held before the run can end, so that its end is not forgotten.
            let handle = self.engine.handle_of(id);
            if let Created::Existing(existing) = create_whole(inner, new, None).await? {
                same_run(&existing, workflow, &digest)?;
                inner.kick.notify_one();
            }
            Ok(handle)
        })
    }
}

fn same_run(existing: &RunRecord, workflow: &str, digest: &Digest) -> Result<(), StartError> {
    let difference = if existing.parent.is_some() {
        "a parent: it is a child run"
    } else if existing.workflow != workflow {
        "another workflow"
    } else if existing.digest != *digest {
        "another input"
    } else {
        return Ok(());
    };
    Err(StartError::IdTaken { run: existing.id.clone(), workflow: existing.workflow.clone(), difference })
}

/// A UUIDv7 from the engine's clock and entropy (RFC 9562, section 5.7).
fn time_ordered_uuid(inner: &Inner) -> uuid::Uuid {
    let mut random = [0; 10];
    inner.host.world.fill_random(&mut random);
    let millis = u64::try_from(now(inner).as_millisecond()).unwrap_or(0);
    uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
}

/// A run to be created.
pub(super) struct NewRunOf {
    pub(super) workflow: RegisteredWorkflow,
    pub(super) id: RunId,
    pub(super) input: Payload,
    pub(super) parent: Option<RunId>,
    /// Whether the run's id was made for it, so that no other run can have it.
    pub(super) unique: bool,
}

/// Creates a run in a task of its own: a caller that goes away between the creation and its answer must not leave a
/// run that this worker holds and does not advance. `held` is let go when the run exists.
pub(super) async fn create_whole(
    inner: &Arc<Inner>,
    new: NewRunOf,
    held: Option<OwnedRwLockReadGuard<()>>,
) -> Result<Created, StoreError> {
    if new.unique {
        return create(inner, new).await;
    }
    let creation = tokio::spawn({
        let inner = Arc::clone(inner);
        async move {
            let _held = held;
            create(&inner, new).await
        }
    });
    creation.await.unwrap_or_else(|error| {
        Err(StoreError::Unavailable { store: inner.host.store.describe(), reason: error.to_string() })
    })
}

/// Creates a run and begins to advance it, unless its id is taken.
async fn create(inner: &Arc<Inner>, new: NewRunOf) -> Result<Created, StoreError> {
    let NewRunOf { workflow, id, input, parent, unique } = new;
    let def = workflow.def;
    let host = &inner.host;
    let mut seed = [0; 16];
    host.world.fill_random(&mut seed);
    let seed = hex(&seed);
    let corrupt =
        |error: PayloadError| StoreError::Corrupt { store: "input".into(), reason: error.to_string() };
    let digest = Digest::of(&input).map_err(corrupt)?;
    let created = RunCreated {
        workflow: def.name.into(),
        module: def.module.into(),
        version: def.version,
        fingerprint: def.fingerprint.into(),
        input: input.clone(),
        digest: digest.clone(),
        seed: seed.clone(),
        parent: parent.clone(),
    };
    let at = now(inner);
    let created: crate::event::Event = created.into();
    let events = std::slice::from_ref(&created);
    let kept = large(events, host.limits.inline);
    for Kept { value, at } in &kept {
        host.store.put_blob(&at.sha256, value.as_str().into()).await?;
    }
    let frame = Frame::referring(events, &kept).map_err(corrupt)?;
    let creation = host.store.create(NewRun {
        id: id.clone(),
        workflow: def.name.into(),
        version: def.version,
        digest,
        parent: parent.clone(),
        frame,
        at,
        owner: Some(host.worker.clone()),
        lease_until: later(at, inner.settings.lease),
    });
    let launch = || {
        let origin = Origin {
            id,
            def: workflow.def,
            epoch: 1,
            mode: Mode::Recover,
            seed,
            next: 1,
            history: History::default(),
            obligations: Obligations::default(),
            inbox: Vec::new(),
            effects: Vec::new(),
        };
        host.observe(&origin.id, at, vec![created]);
        launch_run(inner, Launch { origin, workflow, input, parent, unwinding: None });
    };
    if unique {
        // Nobody else can have the id: the run begins while its first event is on its way to the disk. What leaves the
        // run waits for that event too, because a store keeps the order of appends.
        launch();
        return creation.await;
    }
    let answer = creation.await?;
    if answer == Created::New {
        launch();
    }
    Ok(answer)
}

/// How a run ended, from the store.
pub(super) async fn stored_end(inner: &Inner, run: &RunId) -> Result<Option<RunEnd>, StoreError> {
    let store = &inner.host.store;
    match store.run(run).await? {
        None => Err(StoreError::UnknownRun { run: run.clone() }),
        Some(record) if !record.status.is_terminal() => Ok(None),
        Some(_) => {
            let last = store.last_frame(run).await?;
            let events = effect_store::events(&**store, run, last.as_slice()).await?;
            Ok(events.iter().rev().find_map(RunEnd::of))
        }
    }
}

impl Engine {
    /// Starts workflow `W` with `input`. Await the answer; it is durable then.
    pub fn start<W: Workflow>(&self, input: W::Input) -> StartRun<'_, W> {
        StartRun { engine: self, input: W::encode(&input), id: None, workflow: PhantomData }
    }

    /// A handle to a run of any workflow.
    ///
    /// # Errors
    /// [`StartError`] when there is no such run.
    pub async fn find(&self, id: impl Into<String>) -> Result<RunHandle<AnyWorkflow>, StartError> {
        let id = RunId::new(id)?;
        match self.inner.host.store.run(&id).await? {
            Some(_) => Ok(self.handle_of(id)),
            None => Err(StoreError::UnknownRun { run: id }.into()),
        }
    }

    fn handle_of<W>(&self, id: RunId) -> RunHandle<W> {
        let cell = self.inner.cell(&id);
        RunHandle { id, cell, inner: Arc::clone(&self.inner), workflow: PhantomData }
    }

    /// A handle to a run that exists.
    ///
    /// # Errors
    /// [`StartError`] when there is no such run, or it is of another workflow.
    pub async fn handle<W: Workflow>(&self, id: impl Into<String>) -> Result<RunHandle<W>, StartError> {
        let id = RunId::new(id)?;
        self.inner.register(RegisteredWorkflow::of::<W>());
        let record = self.inner.host.store.run(&id).await?;
        let Some(record) = record else { return Err(StoreError::UnknownRun { run: id }.into()) };
        if record.workflow != W::DEF.name {
            let difference = "another workflow";
            return Err(StartError::IdTaken { run: id, workflow: record.workflow, difference });
        }
        Ok(self.handle_of(id))
    }
}

/// Stands for the workflow of a run when its type is not known.
#[derive(Debug)]
pub struct AnyWorkflow;

/// A run of workflow `W`.
pub struct RunHandle<W> {
    pub(super) id: RunId,
    cell: Arc<Cell>,
    pub(super) inner: Arc<Inner>,
    workflow: PhantomData<fn() -> W>,
}

impl<W> RunHandle<W> {
    /// The run's id.
    pub fn id(&self) -> &RunId {
        &self.id
    }

    /// Where the run stands.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub async fn status(&self) -> Result<Status, StoreError> {
        match self.inner.host.store.run(&self.id).await? {
            Some(record) => Ok(record.status),
            None => Err(StoreError::UnknownRun { run: self.id.clone() }),
        }
    }

    /// Waits for the run's end, here or in another process. A store that is locked or out of reach for a while does not
    /// end the wait: the engine takes the run up again by itself.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub async fn end(&self) -> Result<RunEnd, StoreError> {
        loop {
            let changed = self.cell.changed.notified();
            match self.cell.get() {
                // The engine tries again by itself.
                Some(RunEnd::Stopped(fault)) if fault.is_transient() && !self.inner.is_stopping() => {}
                // Another process may have gone on.
                Some(RunEnd::Stopped(fault)) => {
                    let stored = stored_end(&self.inner, &self.id).await;
                    return Ok(stored.ok().flatten().unwrap_or(RunEnd::Stopped(fault)));
                }
                Some(end) => return Ok(end),
                None => {}
            }
            if !self.inner.active().contains_key(&self.id) {
                if let Some(end) = stored_end(&self.inner, &self.id).await? {
                    return Ok(end);
                }
                if let Some(fault) = self.unclaimable().await? {
                    return Ok(RunEnd::Stopped(fault));
                }
            }
            // The run may be advanced elsewhere: look twice in each of the engine's own polls.
            let tick = self.inner.host.world.sleep(self.inner.settings.poll / 2);
            select(Box::pin(changed), tick).await;
        }
    }

    /// A run that this engine holds nobody for, and that it could never take up.
    async fn unclaimable(&self) -> Result<Option<Fault>, StoreError> {
        if self.inner.is_stopping() {
            return Ok(Some(Fault::ShutDown { run: self.id.clone() }));
        }
        let record = self.inner.host.store.run(&self.id).await?;
        let unlinked = record.filter(|record| !self.inner.is_linked(&record.workflow));
        Ok(unlinked.map(|record| super::worker::not_linked(&self.inner, &self.id, &record.workflow)))
    }

    /// Asks the engine to take this run up now, due or not, if nobody holds it.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub async fn advance(&self) -> Result<bool, StoreError> {
        Ok(claim(&self.inner, Some(self.id.clone())).await? > 0)
    }
}

impl<W: Workflow> RunHandle<W> {
    /// Waits for the run's result.
    ///
    /// # Errors
    /// [`RunError`]: the workflow's own error, a cancellation, or why the run is not being advanced.
    pub async fn result(&self) -> Result<W::Output, RunError<W::Error>> {
        let run = || self.id.clone();
        match self.end().await.map_err(RunError::Store)? {
            RunEnd::Completed(value) => {
                value.decode().map_err(|error| RunError::Unreadable { run: run(), error, message: None })
            }
            RunEnd::Failed { error, message, uncompensated } => match error.decode() {
                Ok(error) if uncompensated.is_empty() => Err(RunError::Failed(error)),
                Ok(error) => Err(RunError::Uncompensated { run: run(), error, steps: uncompensated }),
                Err(error) => Err(RunError::Unreadable { run: run(), error, message: Some(message) }),
            },
            RunEnd::Cancelled { reason, actor, uncompensated } => {
                Err(RunError::Cancelled { run: run(), reason, actor, uncompensated })
            }
            RunEnd::Terminated { reason, actor } => Err(RunError::Terminated { run: run(), reason, actor }),
            RunEnd::Stopped(fault) => Err(RunError::Stopped { run: run(), fault: Box::new(fault) }),
        }
    }
}

impl<W> fmt::Debug for RunHandle<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunHandle({})", self.id)
    }
}
