//! Handles: waiting for the status, the end or the result of a run.
//!
//! Promise: a handle reports an end only when it is durable, whichever process wrote it.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::future::select;
use jiff::Timestamp;

use crate::engine::adopt::parked::{ParkedRun, parked_run};
use crate::engine::advance::load::not_linked;
use crate::engine::advance::load::stored_end;
use crate::engine::inner::{Cell, Inner};
use crate::engine::keyed::record::is_gathered_for;
use crate::engine::whole::whole;
use crate::engine::worker::claim;
use crate::journal::event::uncompensated::Uncompensated;
use crate::run::end::RunEnd;
use crate::run::fault::Fault;
use crate::store::error::StoreError;
use crate::stream::reader::StreamReader;
use crate::vocabulary::contract::Status;
use crate::vocabulary::environment::next_look;
use crate::vocabulary::failure::Failure;
use crate::vocabulary::id::RunId;
use crate::vocabulary::payload::PayloadError;
use crate::workflow::definition::Workflow;

/// Why a run has no value to return.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum RunError<E = Failure> {
    /// The workflow returned this error.
    Failed(E),
    /// The workflow returned this error, and some of its steps could not be undone.
    Uncompensated {
        /// The run whose workflow failed.
        run: RunId,
        /// The workflow's error.
        error: E,
        /// The steps whose compensation failed or was not possible.
        steps: Vec<Uncompensated>,
    },
    /// The run was cancelled.
    Cancelled {
        /// The run that was cancelled.
        run: RunId,
        /// The reason, as recorded in the journal.
        reason: String,
        /// Who requested it, as recorded in the journal.
        actor: String,
        /// Steps that could not be undone.
        uncompensated: Vec<Uncompensated>,
    },
    /// The run had not begun by the time at which it was to begin at the latest, and was not executed.
    Expired {
        /// The run that expired.
        run: RunId,
        /// When it should have begun at the latest.
        at: Timestamp,
    },
    /// The run was ended at once, without undoing anything.
    Terminated {
        /// The run that was terminated.
        run: RunId,
        /// The reason, as recorded in the journal.
        reason: String,
        /// Who requested it, as recorded in the journal.
        actor: String,
    },
    /// The run has not ended and is not being advanced here; nothing of it was lost.
    Stopped {
        /// The run that is not being advanced.
        run: RunId,
        /// What stopped it.
        fault: Box<Fault>,
    },
    /// The recorded result does not decode into the workflow's types.
    Unreadable {
        /// The run with the result.
        run: RunId,
        /// Why it does not decode.
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
            Self::Expired { run, at } => write!(f, "run `{run}` expired: it had not begun by {at}"),
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

/// Stands for the workflow of a run when its type is not known; see [`Engine::find`](crate::engine::inner::Engine::find).
#[derive(Debug)]
pub struct AnyWorkflow;

/// A run of workflow `W`: its status, its end, its result. Comes from [`Engine::start`], [`Engine::handle`] and
/// [`Engine::find`].
///
/// A handle does not keep its run going: when it is dropped, the run continues.
///
/// ```
/// # use aether_core::failure::Failure;
/// # use aether_core::workflow::Workflow;
/// # use aether_core::engine::{Engine, RunError};
/// # #[allow(non_camel_case_types)]
/// # async fn example<greet>(engine: &Engine) -> Result<(), Box<dyn std::error::Error>>
/// # where greet: Workflow<Input = String, Output = String, Error = Failure> {
/// let run = engine.start::<greet>("Ada".to_owned()).id("greet-ada").await?;
/// match run.result().await {
///     Ok(greeting) => println!("{greeting}"),
///     Err(RunError::Cancelled { reason, actor, .. }) => println!("cancelled by {actor}: {reason}"),
///     Err(error) => return Err(error.into()),
/// }
/// # Ok(()) }
/// ```
///
/// [`Engine::start`]: crate::engine::inner::Engine::start
/// [`Engine::handle`]: crate::engine::inner::Engine::handle
/// [`Engine::find`]: crate::engine::inner::Engine::find
pub struct RunHandle<W> {
    pub(super) id: RunId,
    pub(super) cell: Arc<Cell>,
    pub(super) inner: Arc<Inner>,
    /// The keyed start that gathers inputs for it: the run may not be there yet.
    pub(super) gathered: Option<Arc<str>>,
    pub(super) workflow: PhantomData<fn() -> W>,
}

impl<W> RunHandle<W> {
    pub(super) fn of(inner: &Arc<Inner>, id: RunId) -> Self {
        Self { cell: inner.cell(&id), id, inner: Arc::clone(inner), gathered: None, workflow: PhantomData }
    }

    /// The run's id.
    ///
    /// ```
    /// # use aether_core::engine::RunHandle;
    /// # async fn example<W>(run: RunHandle<W>) -> Result<(), Box<dyn std::error::Error>> {
    /// println!("started {}", run.id());
    /// # Ok(()) }
    /// ```
    pub fn id(&self) -> &RunId {
        &self.id
    }

    /// The run's current status.
    ///
    /// ```
    /// # use aether_core::engine::RunHandle;
    /// # async fn example<W>(run: RunHandle<W>) -> Result<(), Box<dyn std::error::Error>> {
    /// if !run.status().await?.is_terminal() {
    ///     println!("{} is still open", run.id());
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub async fn status(&self) -> Result<Status, StoreError> {
        match self.inner.shared.store.run(&self.id).await? {
            Some(record) => Ok(record.status),
            None if self.is_gathered().await? => Ok(Status::Pending),
            None => Err(StoreError::UnknownRun { run: self.id.clone() }),
        }
    }

    /// Reads what the bodies of the run send to the stream `name` with [`StepCx::stream`], in this process or another one,
    /// from its beginning and also after the run has ended. It ends with [`StreamEvent::Closed`].
    ///
    /// ```
    /// # use aether_core::engine::RunHandle;
    /// # async fn example<W>(run: RunHandle<W>) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut reply = run.stream::<String>("reply").text();
    /// while let Some(text) = reply.next().await? {
    ///     println!("{text}");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// [`StepCx::stream`]: crate::step::StepCx::stream
    /// [`StreamEvent::Closed`]: crate::stream::StreamEvent::Closed
    pub fn stream<T: serde::de::DeserializeOwned>(&self, name: &str) -> StreamReader<T> {
        let shared = &self.inner.shared;
        StreamReader::new(&shared.streams, &shared.environment, &self.id, name)
    }

    /// Waits for the run's end, in this process or another one. A store that is locked or out of reach for a while does
    /// not end the wait: the engine resumes the run by itself.
    ///
    /// ```
    /// # use aether_core::engine::RunHandle;
    /// # use aether_core::run::RunEnd;
    /// # async fn example<W>(run: RunHandle<W>) -> Result<(), Box<dyn std::error::Error>> {
    /// match run.end().await? {
    ///     RunEnd::Completed(value) => println!("{}", value.as_str()),
    ///     RunEnd::Stopped(fault) => println!("not advanced here: {fault}"),
    ///     other => println!("{other:?}"),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`StoreError`] when the store fails for good or was closed, or is out of reach while the engine is stopped.
    pub async fn end(&self) -> Result<RunEnd, StoreError> {
        let environment = &self.inner.shared.environment;
        let began = environment.monotonic();
        loop {
            // Registered before looking, so that an end in between is not missed.
            let changed = self.cell.changed.notified();
            match self.cell.get() {
                // The engine resumes the run by itself when the store answers again, or another one after a drain.
                Some(RunEnd::Stopped(fault)) if !self.inner.is_stopping() && self.resumes(&fault) => {}
                // Another process may have advanced the run since.
                Some(RunEnd::Stopped(fault)) => {
                    let stored = stored_end(&self.inner, &self.id).await;
                    return Ok(stored.ok().flatten().unwrap_or(RunEnd::Stopped(fault)));
                }
                Some(end) => return Ok(end),
                None => {}
            }
            // A run that is in flight here delivers its end through the cell. Any other may have ended in the store: in
            // another process, or here between its removal from the active runs and the setting of the cell.
            if !self.inner.active().contains_key(&self.id) {
                match self.ended_elsewhere().await {
                    Ok(Some(end)) => return Ok(end),
                    Ok(None) => {}
                    Err(error) if error.is_retryable() && !self.inner.is_stopping() => {}
                    Err(error) => return Err(error),
                }
            }
            // The run may be advanced elsewhere: look twice in each of the engine's own polls, and less often when it takes long.
            let waited = environment.monotonic().saturating_sub(began);
            let tick = next_look(waited).max(self.inner.settings.poll / 2);
            select(Box::pin(changed), environment.sleep(tick)).await;
        }
    }

    /// The end of a run that is not advanced here, or why this engine will never advance it; `None` while it may still end.
    async fn ended_elsewhere(&self) -> Result<Option<RunEnd>, StoreError> {
        match stored_end(&self.inner, &self.id).await {
            Ok(Some(end)) => return Ok(Some(end)),
            Ok(None) => {}
            Err(StoreError::UnknownRun { .. }) if self.is_gathered().await? => {}
            Err(error) => return Err(error),
        }
        Ok(self.unclaimable().await?.map(RunEnd::Stopped))
    }

    /// Whether inputs are gathered for the run, so that it is not there yet.
    async fn is_gathered(&self) -> Result<bool, StoreError> {
        let Some(name) = &self.gathered else { return Ok(false) };
        let store = &self.inner.shared.store;
        if let Some(start) = store.keyed_start(name).await?
            && is_gathered_for(&start, &self.id)
        {
            return Ok(true);
        }
        // It was created between the two looks.
        Ok(store.run(&self.id).await?.is_some())
    }

    /// Whether a run that was stopped here for this reason is resumed by itself.
    fn resumes(&self, fault: &Fault) -> bool {
        let drained = !self.inner.takes_runs() && matches!(fault, Fault::ShutDown { .. });
        drained || fault.is_transient()
    }

    /// Why this engine will never claim the run by itself, if it will not.
    async fn unclaimable(&self) -> Result<Option<Fault>, StoreError> {
        if self.inner.is_stopping() {
            return Ok(Some(Fault::ShutDown { run: self.id.clone() }));
        }
        let record = self.inner.shared.store.run(&self.id).await?;
        let Some(record) = record else { return Ok(None) };
        if !self.inner.is_linked(&record.workflow) {
            return Ok(Some(not_linked(&self.inner, &self.id, &record.workflow)));
        }
        // Before this engine has tried it, it may be one that the program fits.
        let tried = !self.inner.settings.advances || self.inner.adoptions.is_misfit(&self.id, record.next);
        if !record.parked || !tried {
            return Ok(None);
        }
        let parked = parked_run(&*self.inner.shared.store, record).await?;
        Ok(parked.map(|ParkedRun { run, why, needs, .. }| Fault::Parked { run, why, needs: Box::new(needs) }))
    }

    /// Claims this run now, even if it is not due yet, and advances it. Returns `false` where this engine or another one
    /// holds the run already, or it has ended.
    ///
    /// ```
    /// # use aether_core::engine::RunHandle;
    /// # async fn example<W>(run: RunHandle<W>) -> Result<(), Box<dyn std::error::Error>> {
    /// if run.advance().await? {
    ///     println!("{} is advanced here", run.id());
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub async fn advance(&self) -> Result<bool, StoreError> {
        let (inner, id) = (Arc::clone(&self.inner), self.id.clone());
        let claimed = whole(&self.inner, async move { claim(&inner, Some(id), true).await });
        Ok(claimed.await? > 0)
    }
}

impl<W: Workflow> RunHandle<W> {
    /// Waits for the run's result.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::failure::Failure;
    /// # use aether_core::workflow::Workflow;
    /// # #[allow(non_camel_case_types)]
    /// # async fn example<greet>(engine: &Engine) -> Result<(), Box<dyn std::error::Error>>
    /// # where greet: Workflow<Input = String, Output = String, Error = Failure> {
    /// let run = engine.start::<greet>("Ada".to_owned()).await?;
    /// assert_eq!(run.result().await?, "Hello, Ada!");
    /// # Ok(()) }
    /// ```
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
            RunEnd::Expired { at } => Err(RunError::Expired { run: run(), at }),
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
