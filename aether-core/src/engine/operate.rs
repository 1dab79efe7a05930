//! Operating runs: list, read, export, cancel, terminate, signal; and shutting the engine down.
//!
//! Promise: reading executes nothing; a request to a run is durable when it is answered, and takes effect in whichever
//! process advances the run.

use crate::engine::worker;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::handle::RunHandle;
use crate::engine::inner::{Engine, Inner, notify_run, now};
use crate::engine::whole::whole;
use crate::inbox::decisions::EndRequest;
use crate::inbox::error::SendError;
use crate::inbox::replies::signal;
use crate::inbox::topics::{CANCEL, TERMINATE};
use crate::recording::recorded::{Recording, RecordingError};
use crate::store::error::StoreError;
use crate::store::filter::RunFilter;
use crate::store::ledger::LedgerEntry;
use crate::store::read::complete;
use crate::store::records::{Message, RunRecord, Sent};
use crate::view::levels::Trace;
use crate::view::run::RunView;
use crate::view::window::StepPage;
use crate::vocabulary::id::RunId;
use crate::vocabulary::masking::Masking;
use crate::vocabulary::payload::Payload;

/// How long [`Engine::shutdown`] waits for bodies in flight.
const PATIENCE: Duration = Duration::from_secs(10);

impl Engine {
    /// Lists runs in the store, newest first.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::id::RunId;
    /// use aether_core::contract::Status;
    /// use aether_core::store::RunFilter;
    /// # async fn example(engine: &Engine, run: &RunId) -> Result<(), Box<dyn std::error::Error>> {
    /// let failed = RunFilter::new().status(Status::Failed).label("customer", "acme").limit(20);
    /// let mut page = engine.runs(failed.clone()).await?;
    /// while let Some(last) = page.last() {
    ///     let next = failed.clone().after(last.place);
    ///     for run in page {
    ///         println!("{} of {}", run.id, run.workflow);
    ///     }
    ///     page = engine.runs(next).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub async fn runs(&self, filter: RunFilter) -> Result<Vec<RunRecord>, StoreError> {
        self.inner.shared.store.runs(filter).await
    }

    /// How many runs in the store `filter` lets through, whatever its `after` and `limit`.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::store::RunFilter;
    /// # async fn example(engine: &Engine) -> Result<(), Box<dyn std::error::Error>> {
    /// println!("{} runs are open", engine.count(RunFilter::new().open()).await?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub async fn count(&self, filter: RunFilter) -> Result<u64, StoreError> {
        self.inner.shared.store.count(filter).await
    }

    /// The view of one run: its status, steps, effects and results, folded from its journal. Executes nothing.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::id::RunId;
    /// # async fn example(engine: &Engine, run: &RunId) -> Result<(), Box<dyn std::error::Error>> {
    /// for step in engine.view(run).await?.steps {
    ///     println!("{} is {}", step.command, step.status);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`StoreError`] when there is no such run or its journal is unreadable.
    pub async fn view(&self, run: &RunId) -> Result<RunView, StoreError> {
        Ok(self.measured(RunView::load(&*self.inner.shared.store, run).await?))
    }

    /// One page of the steps of a run, with everything else of its view. For runs of many steps: the rest of them is never in
    /// memory. Executes nothing.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::id::RunId;
    /// # use aether_core::view::StepPage;
    /// # async fn example(engine: &Engine, run: &RunId) -> Result<(), Box<dyn std::error::Error>> {
    /// let view = engine.view_page(run, StepPage::last().size(20)).await?;
    /// println!("{} steps, of which the last are", view.step_count());
    /// for (number, step) in (view.first_step()..).zip(&view.steps) {
    ///     println!("{number}: {} is {}", step.command, step.status);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`StoreError`] when there is no such run or its journal is unreadable.
    pub async fn view_page(&self, run: &RunId, page: StepPage) -> Result<RunView, StoreError> {
        Ok(self.measured(RunView::load_page(&*self.inner.shared.store, run, page).await?))
    }

    fn measured(&self, mut view: RunView) -> RunView {
        view.history.limit = Some(self.inner.shared.limits.history);
        view
    }

    /// Every contract that a run made and every transition of a status, in order, with trigger, actor and time. Displays
    /// one entry per line. Executes nothing.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::id::RunId;
    /// # async fn example(engine: &Engine, run: &RunId) -> Result<(), Box<dyn std::error::Error>> {
    /// println!("{}", engine.trace(run).await?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Engine::view`].
    pub async fn trace(&self, run: &RunId) -> Result<Trace, StoreError> {
        Ok(self.view(run).await?.trace())
    }

    /// Exports a run and the runs it started, with the events they have so far: for tests, for people, for another
    /// machine. Secrets that [`Masking::standard`] finds are masked; [`Engine::export_with`] takes another masking.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::id::RunId;
    /// # async fn example(engine: &Engine, run: &RunId) -> Result<(), Box<dyn std::error::Error>> {
    /// engine.export(run).await?.write("fixtures/ticket.json")?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`RecordingError`] when there is no such run, or the store or a journal cannot be read.
    pub async fn export(&self, run: &RunId) -> Result<Recording, RecordingError> {
        self.export_with(run, &Masking::standard()).await
    }

    /// Exports as [`Engine::export`] does, and masks the secrets that `masking` finds.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::id::RunId;
    /// # use aether_core::recording::Masking;
    /// # async fn example(engine: &Engine, run: &RunId) -> Result<(), Box<dyn std::error::Error>> {
    /// let masking = Masking::standard();
    /// engine.export_with(run, &masking).await?.write("fixtures/ticket.json")?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Engine::export`].
    pub async fn export_with(&self, run: &RunId, masking: &Masking) -> Result<Recording, RecordingError> {
        Recording::export(&*self.inner.shared.store, run, masking).await
    }

    /// Loads a recording into this engine's store and returns the ids of its runs. Executes nothing; see
    /// [`Recording::import`].
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::id::RunId;
    /// # use aether_core::recording::Recording;
    /// # async fn example(engine: &Engine, run: &RunId) -> Result<(), Box<dyn std::error::Error>> {
    /// let recording = Recording::read("fixtures/ticket.json")?;
    /// let runs = engine.import(&recording).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`RecordingError::Exists`] when the store has one of the runs already; others when the store fails.
    pub async fn import(&self, recording: &Recording) -> Result<Vec<RunId>, RecordingError> {
        let (recording, store) = (recording.clone(), Arc::clone(&self.inner.shared.store));
        whole(&self.inner, async move { recording.import(&*store).await }).await
    }

    /// The ledger rows of a run: one for each world-changing call that was granted, with its key, status and value.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::id::RunId;
    /// # async fn example(engine: &Engine, run: &RunId) -> Result<(), Box<dyn std::error::Error>> {
    /// for row in engine.ledger(run).await? {
    ///     println!("{} {} {}", row.tool, row.key, row.status.as_str());
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`StoreError`] when the store fails, or such a value is missing or was altered.
    pub async fn ledger(&self, run: &RunId) -> Result<Vec<LedgerEntry>, StoreError> {
        let store = &*self.inner.shared.store;
        let mut rows = store.entries(run).await?;
        complete(store, run, &mut rows).await?;
        Ok(rows)
    }

    /// Asks a run to end; `reason` and `actor` are recorded. Bodies in flight are notified and get a grace period
    /// ([`EngineBuilder::cancel_grace`](crate::engine::builder::EngineBuilder::cancel_grace)) to finish. Then the steps
    /// that declare a compensation are undone, and attached children are cancelled.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::id::RunId;
    /// # async fn example(engine: &Engine, run: &RunId) -> Result<(), Box<dyn std::error::Error>> {
    /// engine.cancel(run, "the order was withdrawn", "ann@example.com").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`SendError`] when `actor` is blank, a text is over a limit, there is no such run, or the store fails.
    pub async fn cancel(&self, run: &RunId, reason: &str, actor: &str) -> Result<Sent, SendError> {
        request_end(&self.inner, run, reason, actor, false).await
    }

    /// Ends a run at once, even while its steps are being undone: nothing is undone, world-changing calls in flight stay
    /// in doubt, and attached children are terminated. `reason` and `actor` are recorded.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::id::RunId;
    /// # async fn example(engine: &Engine, run: &RunId) -> Result<(), Box<dyn std::error::Error>> {
    /// engine.terminate(run, "the target system is gone", "ops@example.com").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Engine::cancel`].
    pub async fn terminate(&self, run: &RunId, reason: &str, actor: &str) -> Result<Sent, SendError> {
        request_end(&self.inner, run, reason, actor, true).await
    }

    /// Sends a signal to a run, for `cx.signal(name)` to receive now or later. `id` makes the call safe to repeat: a
    /// second signal with the same id to the same run is dropped, whatever its name.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::id::RunId;
    /// # async fn example(engine: &Engine, run: &RunId) -> Result<(), Box<dyn std::error::Error>> {
    /// engine.signal(run, "paid", "payment-17", &12_50).await?;
    /// # Ok(()) }
    /// ```
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

    /// Stops claiming runs, gives step bodies in flight at most ten seconds to finish, releases every run, and waits
    /// until everything is durable. It cancels nothing: the runs resume at the next start. World-changing bodies that
    /// are cut off are in doubt.
    ///
    /// Closes the store, unless something else in this process holds it, such as another engine.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::id::RunId;
    /// # async fn example(engine: Engine) -> Result<(), Box<dyn std::error::Error>> {
    /// engine.shutdown().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be flushed.
    pub async fn shutdown(self) -> Result<(), StoreError> {
        self.shutdown_within(PATIENCE).await
    }

    /// Shuts down as [`Engine::shutdown`] does, with `patience` for bodies in flight.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::id::RunId;
    /// # use std::time::Duration;
    /// # async fn example(engine: Engine) -> Result<(), Box<dyn std::error::Error>> {
    /// engine.shutdown_within(Duration::from_secs(2)).await?;
    /// # Ok(()) }
    /// ```
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

/// Sends a message to a run's inbox, and notifies the run if it is advanced here.
async fn post(inner: &Arc<Inner>, run: &RunId, message: Message) -> Result<Sent, SendError> {
    let sent = inner.shared.send(run, message).await?;
    notify_run(inner, run).await;
    Ok(sent)
}

/// Checks a caller's request to end a run, and sends it.
async fn request_end(
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
    send_end_request(inner, run, &request, at_once).await
}

/// Sends a run the request to end, `at_once` or after its steps are undone. A run that ends passes its own reason and
/// actor on to its children, so they are not checked again here.
pub(super) async fn send_end_request(
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
    /// ```
    /// # use aether_core::engine::RunHandle;
    /// # async fn example<W>(run: RunHandle<W>) -> Result<(), Box<dyn std::error::Error>> {
    /// run.cancel("the order was withdrawn", "ann@example.com").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Engine::cancel`].
    pub async fn cancel(&self, reason: &str, actor: &str) -> Result<Sent, SendError> {
        request_end(&self.inner, &self.id, reason, actor, false).await
    }

    /// Ends the run at once; see [`Engine::terminate`].
    ///
    /// ```
    /// # use aether_core::engine::RunHandle;
    /// # async fn example<W>(run: RunHandle<W>) -> Result<(), Box<dyn std::error::Error>> {
    /// run.terminate("the target system is gone", "ops@example.com").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Engine::cancel`].
    pub async fn terminate(&self, reason: &str, actor: &str) -> Result<Sent, SendError> {
        request_end(&self.inner, &self.id, reason, actor, true).await
    }
}
