//! What all runs of one engine share: store, environment, provided values, policy, limits, and observers.
//!
//! Promise: read-only once the engine runs; what changes is in the store.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::select;
use jiff::Timestamp;
use tokio::sync::broadcast;

use crate::inbox::error::SendError;
use crate::inbox::topics::{CANCEL, TERMINATE};
use crate::journal::event::Event;
use crate::policy::approvals::Approvals;
use crate::policy::replay::ReplayPolicy;
use crate::policy::retries::Retries;
use crate::policy::verifiers::Verifiers;
use crate::run::leases::Leases;
use crate::sched::{AtomicBool, HashMap, SharedLock};
use crate::step::body::RegisteredStep;
use crate::step::interceptor::Interceptor;
use crate::step::traced::TraceBodies;
use crate::store::api::Store;
use crate::store::error::StoreError;
use crate::store::records::{Message, Sent, Unread};
use crate::store::workers::LostRun;
use crate::stream::hub::StreamHub;
use crate::vocabulary::deps::Deps;
use crate::vocabulary::environment::Environment;
use crate::vocabulary::id::{RunId, WorkerId};
use crate::vocabulary::measures::Gauge;
use crate::vocabulary::redaction::Redaction;

use crate::vocabulary::limits::Limits;

/// Events as they are appended, for progress displays. They may not be durable yet.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The run that appended them.
    pub run: RunId,
    /// Time of the append by the worker's clock.
    pub at: Timestamp,
    /// The events of one append, in order.
    pub events: Arc<[Event]>,
}

/// How long the end of a worker waits for a renewal that is under way.
const LAST_RENEWAL: Duration = Duration::from_secs(1);

/// Whether this worker is one of those that others see.
#[derive(Debug, Default)]
pub(crate) struct Presence {
    /// Read by who renews its leases, written by who ends it.
    renewing: Arc<SharedLock<()>>,
    retired: AtomicBool,
}

/// What all runs of one engine share.
#[derive(Debug)]
pub(crate) struct EngineShared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) environment: Arc<dyn Environment>,
    pub(crate) worker: WorkerId,
    pub(crate) leases: Leases,
    pub(crate) presence: Presence,
    pub(crate) deps: Arc<Deps>,
    pub(crate) policy: Arc<dyn ReplayPolicy>,
    pub(crate) interceptor: Option<Arc<dyn Interceptor>>,
    /// Puts bodies into their trace contexts; without it no trace context is sent on.
    pub(crate) trace_bodies: Option<Arc<dyn TraceBodies>>,
    pub(crate) approvals: Approvals,
    pub(crate) limits: Limits,
    pub(crate) retries: Retries,
    pub(crate) verifiers: Verifiers,
    pub(crate) grace: Duration,
    /// How long bodies may continue in a run that is being cancelled.
    pub(crate) cancel_grace: Duration,
    /// Steps by their unique names.
    pub(crate) steps: HashMap<&'static str, RegisteredStep>,
    /// The workflows that are linked, by module and the name that their versions share.
    pub(crate) workflows: BTreeSet<String>,
    pub(crate) streams: Arc<StreamHub>,
    /// Held while a limit on steps is written: tasks of one process need not overtake each other.
    pub(crate) booking: SharedLock<()>,
    pub(crate) observers: broadcast::Sender<Observed>,
    /// What is replaced before it is recorded.
    pub(crate) redaction: Redaction,
    /// What is measured of the work of all of them.
    pub(crate) gauge: Arc<Gauge>,
}

impl EngineShared {
    /// Renews the leases of this worker. Returns the runs that others took from it; `noticed` are those of which nothing
    /// is in flight here any more.
    ///
    /// # Errors
    /// What the store says, and [`StoreError::Unavailable`] of a worker that has retired.
    pub(crate) async fn renew(&self, noticed: Vec<LostRun>) -> Result<Vec<LostRun>, StoreError> {
        let _under_way = Arc::clone(&self.presence.renewing).read_owned().await;
        if self.has_retired() {
            let (store, reason) = (self.store.describe(), "this worker has retired".to_owned());
            return Err(StoreError::Unavailable { store, reason });
        }
        // Read before the store is asked: a slow store makes the leases look older than they are.
        let began = self.environment.monotonic();
        let lost = self.store.renew(&self.worker, self.leases.lease, noticed).await?;
        // Whoever is about to call a body looks at what was lost himself, until nothing of it is in flight here any more.
        if lost.is_empty() {
            self.leases.renewed(began, self.environment.monotonic());
        }
        Ok(lost)
    }

    /// Ends this worker for all others, behind the renewals that are under way: one that came later would bring it back. One
    /// that is not answered is not waited for.
    pub(crate) async fn retire(&self) -> Result<(), StoreError> {
        self.retire_within(self.environment.sleep(LAST_RENEWAL)).await
    }

    async fn retire_within(&self, time: impl Future<Output = ()> + Unpin) -> Result<(), StoreError> {
        self.presence.retired.store(true, Ordering::Release);
        let nobody_renews = Box::pin(self.presence.renewing.write());
        let _guard = select(nobody_renews, time).await;
        self.store.retire(&self.worker).await
    }

    /// Whether it has retired, or is about to.
    pub(crate) fn has_retired(&self) -> bool {
        self.presence.retired.load(Ordering::Acquire)
    }

    /// Whether a step or a workflow with this path is linked.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.steps.contains_key(path) || self.workflows.contains(path)
    }

    /// How often the lease on any of its runs may have been over. What the store says of a claim after this was read, and before it
    /// has risen, is true for as long as the lease is fresh.
    pub(super) fn lapses(&self) -> u64 {
        self.leases.breaks().saturating_add(self.store.lapses(&self.worker))
    }

    /// Puts a message into a run's inbox, unless it or the inbox is over a limit.
    pub(crate) async fn send(&self, run: &RunId, message: Message) -> Result<Sent, SendError> {
        let message = Message { payload: self.redaction.value(message.payload), ..message };
        self.limits.check_name("topic", &message.topic)?;
        self.limits.check_name("message id", &message.id)?;
        let what = format!("bytes of JSON in message `{}`", message.topic);
        self.limits.check(what, message.payload.as_str().len(), self.limits.payload, "payload")?;
        // A full inbox must not keep an operator from ending the run.
        let ends = message.topic == CANCEL || message.topic == TERMINATE;
        if !ends {
            let (limits, new) = (&self.limits, Unread::of(&message));
            let held = [self.store.unread(run).await?, new].into_iter().sum::<Unread>();
            let what = format!("unread messages in the inbox of run `{run}`");
            limits.check(what, held.messages, limits.inbox, "inbox")?;
            // An empty inbox takes any message that is itself within the limits.
            if held != new {
                let what = format!("bytes of JSON in the unread messages of run `{run}`");
                limits.check(what, held.bytes, limits.inbox_bytes, "inbox_bytes")?;
            }
        }
        Ok(self.store.send(run, message).await?)
    }

    /// Sends events to the observers, if there are any.
    pub(crate) fn observe(&self, run: &RunId, at: impl FnOnce() -> Timestamp, events: Vec<Event>) {
        if self.observers.receiver_count() > 0 {
            let observed = Observed { run: run.clone(), at: at(), events: events.into() };
            let _no_observer_left = self.observers.send(observed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::task::{Context, Waker};

    use super::*;
    use crate::definition::def::StepOptions;
    use crate::perform::tests::stage::{Stage, now};
    use crate::vocabulary::outcome::EffectClass;

    #[test]
    fn no_renewal_brings_back_a_worker_that_has_retired() {
        let stage = Stage::new(StepOptions::of(EffectClass::Tool));
        let shared = &stage.take_up().shared;
        let workers = || now(shared.store.workers()).unwrap().len();
        assert_eq!((now(shared.renew(Vec::new())), workers()), (Ok(Vec::new()), 1));

        // While a renewal is under way, the end of the worker waits for it, and not for ever.
        let under_way = now(Arc::clone(&shared.presence.renewing).read_owned());
        let mut retired = Box::pin(shared.retire_within(pending()));
        assert!(retired.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(workers(), 1);
        drop(under_way);
        assert_eq!((now(retired), workers()), (Ok(()), 0));
        let never_answered = now(Arc::clone(&shared.presence.renewing).read_owned());
        assert_eq!(now(shared.retire_within(ready(()))), Ok(()));
        drop(never_answered);

        // Nobody renews from here on.
        assert!(matches!(now(shared.renew(Vec::new())), Err(StoreError::Unavailable { .. })));
        assert_eq!(workers(), 0);
    }
}
