//! What all runs of one engine share: store, world, provided values, policy, limits, and who listens.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use tokio::sync::broadcast;

use crate::approval::Approvals;
use crate::confirm::Verifiers;
use crate::def::StepOptions;
use crate::deps::Deps;
use crate::event::Event;
use crate::id::{CommandId, RunId, WorkerId};
pub use crate::limits::{Limits, OverLimit};
use crate::payload::Payload;
use crate::policy::ReplayPolicy;
use crate::replay::Answer;
use crate::step::{BodyResult, ProbeResult, RegisteredStep};
use crate::step_cx::StepCx;
use crate::store::{Message, Sent, Store, StoreError};
use crate::turn::{CANCEL, TERMINATE};
use crate::world::World;

/// A body call about to happen.
#[derive(Debug)]
pub struct BodyCall<'a> {
    /// The run.
    pub run: &'a RunId,
    /// The command.
    pub command: &'a CommandId,
    /// Unique name of the step: module path and name, or the effect's name.
    pub path: &'a str,
    /// How the step is executed.
    pub options: &'a StepOptions,
    /// Logical attempt, from 0.
    pub attempt: u32,
    /// The recorded arguments.
    pub args: &'a Payload,
}

/// Stands between the engine and bodies: tests answer in their place.
pub trait Interceptor: Send + Sync + Debug + 'static {
    /// Answers a call, or lets it through with `None`. The outer error of the answer is not used for stubs.
    fn intercept(&self, call: &BodyCall<'_>, cx: &StepCx) -> Option<BoxFuture<'static, BodyResult>>;

    /// Answers in place of a step's probe, or lets it look with `None`.
    fn probe(&self, _call: &BodyCall<'_>, _cx: &StepCx) -> Option<BoxFuture<'static, ProbeResult>> {
        None
    }

    /// The clock reading, UUID or random value that a command of the workflow gets, in place of the world's.
    fn draw(&self, _run: &RunId, _command: &CommandId) -> Option<Answer> {
        None
    }

    /// Learns what a command of the workflow got where [`Interceptor::draw`] gave nothing.
    fn drawn(&self, _run: &RunId, _command: &CommandId, _answer: &Answer) {}

    /// Stands around a body, answered or let through: what is returned runs in its place. Where it is dropped or not
    /// polled to its end, neither is the body.
    fn around(
        &self,
        _call: &BodyCall<'_>,
        body: BoxFuture<'static, BodyResult>,
    ) -> BoxFuture<'static, BodyResult> {
        body
    }
}

/// Events as they are appended, for progress displays. They may not be durable yet.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The run.
    pub run: RunId,
    /// When.
    pub at: Timestamp,
    /// The events of one append.
    pub events: Arc<[Event]>,
}

/// What all runs of one engine share.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) world: Arc<dyn World>,
    pub(crate) worker: WorkerId,
    pub(crate) deps: Arc<Deps>,
    pub(crate) policy: Arc<dyn ReplayPolicy>,
    pub(crate) interceptor: Option<Arc<dyn Interceptor>>,
    pub(crate) approvals: Approvals,
    pub(crate) limits: Limits,
    pub(crate) verifiers: Verifiers,
    pub(crate) grace: Duration,
    /// How long bodies may go on in a run that is being cancelled.
    pub(crate) cancel_grace: Duration,
    /// Steps by their unique names.
    pub(crate) steps: HashMap<&'static str, RegisteredStep>,
    pub(crate) observers: broadcast::Sender<Observed>,
}

impl Host {
    /// Puts a message into a run's inbox, within the limits.
    pub(crate) async fn send(&self, run: &RunId, message: Message) -> Result<Sent, StoreError> {
        self.limits.check_name("topic", &message.topic)?;
        self.limits.check_name("message id", &message.id)?;
        let what = format!("bytes of JSON in message `{}`", message.topic);
        self.limits.check(what, message.payload.as_str().len(), self.limits.payload, "payload")?;
        // A request to end a run gets through to one that is drowned in messages.
        let ends = message.topic == CANCEL || message.topic == TERMINATE;
        if !ends {
            let unread = self.store.unread(run).await?;
            self.limits.check(
                "messages in the inbox",
                unread.saturating_add(1),
                self.limits.inbox,
                "inbox",
            )?;
        }
        self.store.send(run, message).await
    }

    /// Tells whoever listens.
    pub(crate) fn observe(&self, run: &RunId, at: Timestamp, events: Vec<Event>) {
        if self.observers.receiver_count() > 0 {
            let observed = Observed { run: run.clone(), at, events: events.into() };
            let _nobody_left = self.observers.send(observed);
        }
    }
}
