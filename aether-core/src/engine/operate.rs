//! What people and other programs ask of runs: cancel, terminate, send a signal, list, read, export.

use crate::engine::worker;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::handle::RunHandle;
use crate::engine::inner::{Engine, Inner, notify_run, now};
use crate::inbox::decisions::EndRequest;
use crate::inbox::error::SendError;
use crate::inbox::replies::signal;
use crate::inbox::topics::{CANCEL, TERMINATE};
use crate::recording::masking::Masking;
use crate::recording::recorded::{Recording, RecordingError};
use crate::store::api::{Message, RunFilter, RunRecord, Sent};
use crate::store::error::StoreError;
use crate::store::ledger::LedgerEntry;
use crate::store::read::complete;
use crate::view::levels::Trace;
use crate::view::run::RunView;
use crate::vocabulary::id::RunId;
use crate::vocabulary::payload::Payload;

/// How long a shutdown waits for bodies in flight.
const PATIENCE: Duration = Duration::from_secs(10);

impl Engine {
    /// Runs in the store, newest first.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub async fn runs(&self, filter: RunFilter) -> Result<Vec<RunRecord>, StoreError> {
        self.inner.shared.store.runs(filter).await
    }

    /// One run as its journal tells it. Executes nothing.
    ///
    /// # Errors
    /// [`StoreError`] when there is no such run or its journal is unreadable.
    pub async fn view(&self, run: &RunId) -> Result<RunView, StoreError> {
        RunView::load(&*self.inner.shared.store, run).await
    }

    /// Every contract that a run made and every move of a status, in order, with trigger, actor and time. Displays as
    /// one line an entry. Executes nothing.
    ///
    /// # Errors
    /// As [`Engine::view`].
    pub async fn trace(&self, run: &RunId) -> Result<Trace, StoreError> {
        Ok(self.view(run).await?.trace())
    }

    /// Records a run and the runs it started, as far as they have come: for tests, for people, for another machine.
    /// Secrets that [`Masking::standard`] finds are masked; [`Engine::export_with`] takes another masking.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::recording::RecordingError;
    /// # use aether_core::id::RunId;
    /// # async fn keep(engine: &Engine, run: &RunId) -> Result<(), RecordingError> {
    /// engine.export(run).await?.write("fixtures/ticket.json")
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`RecordingError`] when there is no such run, or the store or a journal cannot be read.
    pub async fn export(&self, run: &RunId) -> Result<Recording, RecordingError> {
        self.export_with(run, &Masking::standard()).await
    }

    /// As [`Engine::export`], with the secrets masked that `masking` finds.
    ///
    /// # Errors
    /// As [`Engine::export`].
    pub async fn export_with(&self, run: &RunId, masking: &Masking) -> Result<Recording, RecordingError> {
        Recording::export(&*self.inner.shared.store, run, masking).await
    }

    /// Loads a recording into this engine's store, and gives the ids of its runs. Executes nothing; see
    /// [`Recording::import`].
    ///
    /// # Errors
    /// [`RecordingError::Exists`] when the store has one of the runs already; others when the store fails.
    pub async fn import(&self, recording: &Recording) -> Result<Vec<RunId>, RecordingError> {
        recording.import(&*self.inner.shared.store).await
    }

    /// The ledger rows of a run, with the values that the effect store keeps.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails, or such a value is missing or was altered.
    pub async fn ledger(&self, run: &RunId) -> Result<Vec<LedgerEntry>, StoreError> {
        let store = &*self.inner.shared.store;
        let mut rows = store.entries(run).await?;
        complete(store, run, &mut rows).await?;
        Ok(rows)
    }

    /// Asks a run to end: `actor` and `reason` are recorded. Bodies in flight are told and get a grace
    /// (`cancel_grace`) to come back; then its compensated steps are undone, and its attached children are cancelled.
    ///
    /// # Errors
    /// [`SendError`] when `actor` is blank, a text is over a limit, there is no such run, or the store fails.
    pub async fn cancel(&self, run: &RunId, reason: &str, actor: &str) -> Result<Sent, SendError> {
        ask_to_end(&self.inner, run, reason, actor, false).await
    }

    /// Ends a run at once, also one that is being unwound: nothing is undone, world-changing calls in flight stay in
    /// doubt, and attached children are terminated. `actor` and `reason` are recorded.
    ///
    /// # Errors
    /// As [`Engine::cancel`].
    pub async fn terminate(&self, run: &RunId, reason: &str, actor: &str) -> Result<Sent, SendError> {
        ask_to_end(&self.inner, run, reason, actor, true).await
    }

    /// Sends a signal into a run, for `cx.signal(name)` to receive, now or later. A second signal of the same `id` to
    /// the same run is dropped.
    ///
    /// # Errors
    /// [`SendError`] when the value does not serialize or is over a limit, there is no such run, or the store fails.
    pub async fn signal<T: serde::Serialize>(
        &self,
        run: &RunId,
        name: &str,
        id: &str,
        value: &T,
    ) -> Result<Sent, SendError> {
        let payload = encode(run, format!("signal `{name}`"), value)?;
        let message = signal(name, id, payload, now(&self.inner));
        post(&self.inner, run, message).await
    }

    /// Stops claiming runs, lets step bodies in flight finish for at most ten seconds, releases every run, and waits
    /// until everything is durable. It cancels nothing: the runs resume at the next start. World-changing bodies that
    /// are cut off are in doubt.
    ///
    /// Closes the store, unless something else in this process holds it, such as another engine.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be flushed.
    pub async fn shutdown(self) -> Result<(), StoreError> {
        self.shutdown_within(PATIENCE).await
    }

    /// As [`Engine::shutdown`], with another `patience` for bodies in flight.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be flushed.
    pub async fn shutdown_within(self, patience: Duration) -> Result<(), StoreError> {
        worker::shut_down(&self.inner, patience).await
    }
}

fn encode<T: serde::Serialize>(run: &RunId, what: String, value: &T) -> Result<Payload, SendError> {
    Payload::encode(value).map_err(|error| SendError::Unrecordable { run: run.clone(), what, error })
}

/// Puts a message into a run's inbox, and wakes the run if it is advanced here.
async fn post(inner: &Arc<Inner>, run: &RunId, message: Message) -> Result<Sent, SendError> {
    let sent = inner.shared.send(run, message).await?;
    notify_run(inner, run).await;
    Ok(sent)
}

/// Somebody outside asks a run to end.
async fn ask_to_end(
    inner: &Arc<Inner>,
    run: &RunId,
    reason: &str,
    actor: &str,
    at_once: bool,
) -> Result<Sent, SendError> {
    inner.shared.limits.check_text("reason", reason)?;
    inner.shared.limits.check_text("actor", actor)?;
    if actor.trim().is_empty() {
        return Err(SendError::NoActor { run: run.clone() });
    }
    let request = EndRequest { reason: reason.into(), actor: actor.into() };
    cancel(inner, run, &request, at_once).await
}

/// Asks a run to end, `at_once` or after it has undone what it did. A run that ends asks its children with its own
/// words, whatever they are.
pub(super) async fn cancel(
    inner: &Arc<Inner>,
    run: &RunId,
    request: &EndRequest,
    at_once: bool,
) -> Result<Sent, SendError> {
    let topic = if at_once { TERMINATE } else { CANCEL };
    let (id, topic, payload) = (topic.into(), topic.into(), encode(run, format!("`{topic}`"), request)?);
    post(inner, run, Message { seq: 0, id, topic, payload, at: now(inner) }).await
}

impl<W> RunHandle<W> {
    /// Asks the run to end; see [`Engine::cancel`].
    ///
    /// # Errors
    /// As [`Engine::cancel`].
    pub async fn cancel(&self, reason: &str, actor: &str) -> Result<Sent, SendError> {
        ask_to_end(&self.inner, &self.id, reason, actor, false).await
    }

    /// Ends the run at once; see [`Engine::terminate`].
    ///
    /// # Errors
    /// As [`Engine::cancel`].
    pub async fn terminate(&self, reason: &str, actor: &str) -> Result<Sent, SendError> {
        ask_to_end(&self.inner, &self.id, reason, actor, true).await
    }
}
