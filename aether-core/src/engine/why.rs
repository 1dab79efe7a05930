//! Why a run does not move: one typed reason for every run.
//!
//! Promise: exactly one for each run, read from the store, so that any process that opens the store can ask. Only for how
//! long another worker has been silent is what this engine has seen itself, because a store keeps no time of it.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use crate::engine::adopt::parked::parked_run;
use crate::engine::hold::{Hold, OpenWaitOf};
use crate::engine::inner::{Engine, Inner, now};
use crate::sched::HashMap;
use crate::store::error::StoreError;
use crate::store::filter::RunFilter;
use crate::store::open_waits::WaitDetail;
use crate::store::queues::QueuePosition;
use crate::store::records::RunRecord;
use crate::store::waits::{ListedWait, WaitFilter};
use crate::store::workers::Serving;
use crate::vocabulary::contract::Status;
use crate::vocabulary::error_text::error_text;
use crate::vocabulary::id::{RunId, WorkerId};
use crate::vocabulary::waiting::Waiting;

/// How many open waits of a run are looked at.
const WAITS: usize = 100;

impl Engine {
    /// Why `run` does not move, or that it does. Reads the store alone, so that a [client](crate::engine::EngineBuilder::client)
    /// in another process can ask.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::id::RunId;
    /// # async fn example(engine: &Engine, run: &RunId) -> Result<(), Box<dyn std::error::Error>> {
    /// println!("{run}: {}", engine.why(run).await?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`StoreError`] when there is no such run, or the store fails.
    pub async fn why(&self, run: &RunId) -> Result<Hold, StoreError> {
        let inner = &*self.inner;
        let Some(record) = inner.shared.store.run(run).await? else {
            return Err(StoreError::UnknownRun { run: run.clone() });
        };
        Asking::of(inner).await?.hold(&record).await
    }

    /// The runs that `filter` lets through, newest first, each with the reason why it does not move. Give the filter a
    /// limit: the waits of every waiting run are read.
    ///
    /// ```
    /// # use aether_core::engine::{Engine, Hold};
    /// # use aether_core::store::RunFilter;
    /// # async fn example(engine: &Engine) -> Result<(), Box<dyn std::error::Error>> {
    /// for (run, hold) in engine.holds(RunFilter::new().open().limit(100)).await? {
    ///     if let Hold::InDoubt { .. } = hold {
    ///         println!("{} needs an operator: {hold}", run.id);
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub async fn holds(&self, filter: RunFilter) -> Result<Vec<(RunRecord, Hold)>, StoreError> {
        let inner = &*self.inner;
        let records = inner.shared.store.runs(filter).await?;
        let asking = Asking::of(inner).await?;
        let mut found = Vec::with_capacity(records.len());
        for record in records {
            let hold = asking.hold(&record).await?;
            found.push((record, hold));
        }
        Ok(found)
    }
}

/// What is looked up once for all runs that are asked about.
struct Asking<'e> {
    inner: &'e Inner,
    now: Timestamp,
    /// What the workers that are there can advance.
    serving: Vec<Serving>,
    /// How long other workers have been silent, and their leases.
    silence: HashMap<WorkerId, (Duration, Duration)>,
    /// Workers whose processes are known to have died.
    dead: BTreeSet<WorkerId>,
}

impl<'e> Asking<'e> {
    async fn of(inner: &'e Inner) -> Result<Self, StoreError> {
        let shared = &inner.shared;
        let mut serving = shared.store.serving_elsewhere(&shared.worker).await?;
        if inner.takes_runs() {
            serving.push(Serving { codes: inner.codes(), serves: inner.serves.clone() });
        }
        // Clients have no codes.
        serving.retain(|worker| !worker.codes.is_empty());
        let known = shared.store.known_workers().await?;
        let dead = known.into_iter().filter(|worker| worker.is_dead).map(|worker| worker.id).collect();
        let silence = inner.watch().silences();
        Ok(Self { inner, now: now(inner), serving, silence, dead })
    }

    async fn hold(&self, run: &RunRecord) -> Result<Hold, StoreError> {
        if run.status.is_terminal() {
            return Ok(Hold::Ended { status: run.status, at: run.updated_at });
        }
        let store = &*self.inner.shared.store;
        if run.parked
            && let Some(parked) = parked_run(store, run.clone()).await?
        {
            return Ok(Hold::Parked { since: parked.since, why: parked.why, needs: parked.needs });
        }
        if let Some(held) = self.held(run).await? {
            return Ok(held);
        }
        if run.owner.is_some() || run.wake_at.is_some_and(|wake_at| wake_at <= self.now) {
            return match self.due(run) {
                // Without a worker for it, its place in the queue is not what keeps it.
                Hold::Due { since } => Ok(self.queued(run).await?.unwrap_or(Hold::Due { since })),
                hold => Ok(hold),
            };
        }
        let waits = self.waits(run).await?;
        match (Hold::of_waits(waits), run.wake_at) {
            (Some(hold), _) => Ok(hold),
            (None, Some(at)) => Ok(Hold::NotYet { at }),
            // It waits for messages alone, and the list does not say for which.
            (None, None) => Ok(Hold::Waiting { on: Vec::new() }),
        }
    }

    /// Why a run that a worker holds does not move; `None` where nobody holds it, or one whose lease is over.
    async fn held(&self, run: &RunRecord) -> Result<Option<Hold>, StoreError> {
        let Some(worker) = &run.owner else { return Ok(None) };
        if *worker == self.inner.shared.worker {
            let monotonic = self.inner.shared.environment.monotonic();
            let refused = self.inner.vitals().refusing(monotonic, self.inner.settings.lease);
            if let Some((time, error)) = refused {
                return Ok(Some(Hold::StoreRefuses { time, error }));
            }
        } else if self.dead.contains(worker) {
            return Ok(None);
        } else if let Some((silent, lease)) = self.silence.get(worker) {
            // It renews four times in each lease.
            if silent >= lease && !matches!(self.due(run), Hold::Due { .. }) {
                return Ok(None);
            }
            if *silent >= *lease / 2 {
                let (worker, takeover_in) = (worker.clone(), lease.saturating_sub(*silent));
                return Ok(Some(Hold::SilentWorker { worker, silent: *silent, takeover_in }));
            }
        }
        let mut waits = self.waits(run).await?;
        if run.status != Status::Waiting {
            // A timer or a child beside a body that runs may be its time limit, or its company.
            waits.retain(|wait| {
                wait.waiting.is_for_reply() || [Waiting::Retry, Waiting::Limit].contains(&wait.waiting)
            });
        }
        let (worker, claim, since) = (worker.clone(), run.epoch, run.updated_at);
        Ok(Some(Hold::of_waits(waits).unwrap_or(Hold::Running { worker, claim, since })))
    }

    /// Why a run of a queue has no turn; `None` where it does not wait for one.
    async fn queued(&self, run: &RunRecord) -> Result<Option<Hold>, StoreError> {
        let (Some(place), Some(_)) = (&run.terms.queue, run.queue.waits_since) else { return Ok(None) };
        let position = self.inner.shared.store.queue_position(&run.id, self.now).await?;
        Ok(position.map(|QueuePosition { since, ahead, limit }| Hold::Queued {
            place: place.clone(),
            since,
            ahead,
            limit,
        }))
    }

    /// Why nobody takes a run that is due.
    fn due(&self, run: &RunRecord) -> Hold {
        let since = run.wake_at.unwrap_or(run.updated_at);
        let mut able = self.serving.iter().filter(|worker| worker.codes.contains(&run.code)).peekable();
        let place = run.terms.queue.as_ref();
        if self.serving.is_empty() {
            Hold::NoWorker { since }
        } else if able.peek().is_none() {
            Hold::NoCode { since, code: run.code.clone() }
        } else if !able.any(|worker| worker.serves.takes(place)) {
            Hold::NotServed { since, place: place.cloned() }
        } else {
            Hold::Due { since }
        }
    }

    async fn waits(&self, run: &RunRecord) -> Result<Vec<OpenWaitOf>, StoreError> {
        let filter = WaitFilter::default().run(run.id.clone()).limit(WAITS);
        let rows = self.inner.shared.store.waits(filter).await?;
        // A store that does not know this filter yet lists those of all runs.
        Ok(rows.into_iter().filter(|row| row.run == run.id).map(open_wait).collect())
    }
}

fn open_wait(row: ListedWait) -> OpenWaitOf {
    let wait = row.wait;
    let detail = wait.detail.decode::<WaitDetail>().ok();
    let (attempt, error) = detail.map_or((None, None), |detail| (detail.attempt, detail.error));
    OpenWaitOf {
        command: wait.command,
        waiting: wait.waiting,
        name: wait.name,
        since: wait.since,
        until: wait.until,
        attempt,
        error: error.map(|error| error_text(&error)),
    }
}
