//! What people and other programs ask of runs: cancel, terminate, resolve an invocation in doubt, list, read.

use std::sync::Arc;

use super::worker::{now, poke};
use super::{Engine, Inner, RunHandle};
use crate::confirm::{Word, confirm_topic};
use crate::effect_store::complete;
use crate::event::ConfirmationDecision;
use crate::id::{CommandId, InvocationId, RunId};
use crate::ledger::LedgerEntry;
use crate::payload::{Payload, hex};
use crate::recording::{Masking, Recording, RecordingError};
use crate::store::{Message, RunFilter, RunRecord, Sent, StoreError};
use crate::turn::{CANCEL, EndRequest, TERMINATE};
use crate::unknown::{Resolution, Resolved, topic};
use crate::view::{RunView, Trace};
use crate::wait;

impl Engine {
    /// Runs in the store, newest first.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub async fn runs(&self, filter: RunFilter) -> Result<Vec<RunRecord>, StoreError> {
        self.inner.host.store.runs(filter).await
    }

    /// One run as its journal tells it. Executes nothing.
    ///
    /// # Errors
    /// [`StoreError`] when there is no such run or its journal is unreadable.
    pub async fn view(&self, run: &RunId) -> Result<RunView, StoreError> {
        RunView::load(&*self.inner.host.store, run).await
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
    /// # use aether_core::{engine::Engine, id::RunId, recording::RecordingError};
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
        Recording::export(&*self.inner.host.store, run, masking).await
    }

    /// Loads a recording into this engine's store, and gives the ids of its runs. Executes nothing; see
    /// [`Recording::import`].
    ///
    /// # Errors
    /// [`RecordingError::Exists`] when the store has one of the runs already; others when the store fails.
    pub async fn import(&self, recording: &Recording) -> Result<Vec<RunId>, RecordingError> {
        recording.import(&*self.inner.host.store).await
    }

    /// The ledger rows of a run, with the values that the effect store keeps.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails, or such a value is missing or was altered.
    pub async fn ledger(&self, run: &RunId) -> Result<Vec<LedgerEntry>, StoreError> {
        let store = &*self.inner.host.store;
        let mut rows = store.entries(run).await?;
        complete(store, run, &mut rows).await?;
        Ok(rows)
    }

    /// Asks a run to end: `actor` and `reason` are recorded. Bodies in flight are told and get a grace
    /// (`cancel_grace`) to come back; then its compensated steps are undone, and its attached children are cancelled.
    ///
    /// # Errors
    /// [`StoreError`] when there is no such run or the store fails.
    pub async fn cancel(&self, run: &RunId, reason: &str, actor: &str) -> Result<Sent, StoreError> {
        let request = EndRequest { reason: reason.into(), actor: actor.into() };
        cancel(&self.inner, run, &request, false).await
    }

    /// Ends a run at once, also one that is being unwound: nothing is undone, world-changing calls in flight stay in
    /// doubt, and attached children are terminated. `actor` and `reason` are recorded.
    ///
    /// # Errors
    /// [`StoreError`] when there is no such run or the store fails.
    pub async fn terminate(&self, run: &RunId, reason: &str, actor: &str) -> Result<Sent, StoreError> {
        let request = EndRequest { reason: reason.into(), actor: actor.into() };
        cancel(&self.inner, run, &request, true).await
    }

    /// Says what became of an invocation in doubt. `actor` is recorded. The first word that can be the step's result
    /// counts; one of another type is refused with a warning, and the run goes on waiting.
    ///
    /// # Errors
    /// [`StoreError`] when there is no such run or the store fails.
    pub async fn resolve(
        &self,
        run: &RunId,
        invocation: &InvocationId,
        resolution: Resolution,
        actor: &str,
    ) -> Result<Sent, StoreError> {
        self.inner.host.limits.check_text("actor", actor)?;
        let resolved = Resolved { resolution, actor: actor.into() };
        // Every word of an operator's is its own message: one that is refused leaves room for the next.
        let mut random = [0; 8];
        self.inner.host.world.fill_random(&mut random);
        let topic = topic(invocation);
        let (id, at) = (format!("{topic}:{}", hex(&random)), now(&self.inner));
        let message = Message { seq: 0, id, topic, payload: encode(&resolved)?, at };
        post(&self.inner, run, message).await
    }

    /// Sends a signal into a run, for `cx.signal(name)` to receive, now or later. A second signal of the same `id` to
    /// the same run is dropped.
    ///
    /// # Errors
    /// [`StoreError`] when there is no such run, the value does not serialize, or the store fails.
    pub async fn signal<T: serde::Serialize>(
        &self,
        run: &RunId,
        name: &str,
        id: &str,
        value: &T,
    ) -> Result<Sent, StoreError> {
        let message = wait::signal(name, id, encode(value)?, now(&self.inner));
        post(&self.inner, run, message).await
    }

    /// Decides about a resource that is not as step `command` left it, where the step declares `confirm = "ask"` and
    /// the run waits for it. `actor` is recorded. The first word counts.
    ///
    /// # Errors
    /// [`StoreError`] when there is no such run or the store fails.
    pub async fn confirm(
        &self,
        run: &RunId,
        command: &CommandId,
        resource: &str,
        id: &str,
        decision: ConfirmationDecision,
        actor: &str,
    ) -> Result<Sent, StoreError> {
        let topic = confirm_topic(command, resource, id);
        let word = Word { decision, actor: actor.into() };
        let message =
            Message { seq: 0, id: topic.clone(), topic, payload: encode(&word)?, at: now(&self.inner) };
        post(&self.inner, run, message).await
    }
}

fn encode<T: serde::Serialize>(value: &T) -> Result<Payload, StoreError> {
    Payload::encode(value)
        .map_err(|error| StoreError::Corrupt { store: "message".into(), reason: error.to_string() })
}

/// Puts a message into a run's inbox, and wakes the run if it is advanced here.
async fn post(inner: &Arc<Inner>, run: &RunId, message: Message) -> Result<Sent, StoreError> {
    let sent = inner.host.send(run, message).await?;
    poke(inner, run).await;
    Ok(sent)
}

/// Asks a run to end, `at_once` or after it has undone what it did.
pub(super) async fn cancel(
    inner: &Arc<Inner>,
    run: &RunId,
    request: &EndRequest,
    at_once: bool,
) -> Result<Sent, StoreError> {
    let topic = if at_once { TERMINATE } else { CANCEL };
    inner.host.limits.check_text("reason", &request.reason)?;
    inner.host.limits.check_text("actor", &request.actor)?;
    let (id, topic, payload) = (topic.into(), topic.into(), encode(request)?);
    post(inner, run, Message { seq: 0, id, topic, payload, at: now(inner) }).await
}

impl<W> RunHandle<W> {
    /// Asks the run to end; see [`Engine::cancel`].
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub async fn cancel(&self, reason: &str, actor: &str) -> Result<Sent, StoreError> {
        let request = EndRequest { reason: reason.into(), actor: actor.into() };
        cancel(&self.inner, &self.id, &request, false).await
    }

    /// Ends the run at once; see [`Engine::terminate`].
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub async fn terminate(&self, reason: &str, actor: &str) -> Result<Sent, StoreError> {
        let request = EndRequest { reason: reason.into(), actor: actor.into() };
        cancel(&self.inner, &self.id, &request, true).await
    }
}
