//! Starting runs, and handles that wait for their results.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::future::select;

use crate::engine::advance::load::not_linked;
use crate::engine::advance::load::stored_end;
use crate::engine::inner::{Cell, Inner};
use crate::engine::worker::claim;
use crate::journal::event::uncompensated::Uncompensated;
use crate::run::end::RunEnd;
use crate::run::fault::Fault;
use crate::store::error::StoreError;
use crate::vocabulary::contract::Status;
use crate::vocabulary::failure::Failure;
use crate::vocabulary::id::RunId;
use crate::vocabulary::payload::PayloadError;
use crate::workflow::definition::Workflow;

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

/// Stands for the workflow of a run when its type is not known.
#[derive(Debug)]
pub struct AnyWorkflow;

/// A run of workflow `W`.
pub struct RunHandle<W> {
    pub(super) id: RunId,
    pub(super) cell: Arc<Cell>,
    pub(super) inner: Arc<Inner>,
    pub(super) workflow: PhantomData<fn() -> W>,
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
        match self.inner.shared.store.run(&self.id).await? {
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
            let tick = self.inner.shared.environment.sleep(self.inner.settings.poll / 2);
            select(Box::pin(changed), tick).await;
        }
    }

    /// A run that this engine holds nobody for, and that it could never take up.
    async fn unclaimable(&self) -> Result<Option<Fault>, StoreError> {
        if self.inner.is_stopping() {
            return Ok(Some(Fault::ShutDown { run: self.id.clone() }));
        }
        let record = self.inner.shared.store.run(&self.id).await?;
        let unlinked = record.filter(|record| !self.inner.is_linked(&record.workflow));
        Ok(unlinked.map(|record| not_linked(&self.inner, &self.id, &record.workflow)))
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
