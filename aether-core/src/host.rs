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
use crate::payload::Payload;
use crate::policy::ReplayPolicy;
use crate::step::{BodyResult, RegisteredStep};
use crate::step_cx::StepCx;
use crate::store::Store;
use crate::world::World;

/// What an engine refuses to exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest recorded value, in bytes of JSON. The default, 32 MiB, holds every answer that the HTTP client takes by
    /// its own default of 8 MiB, also as base64. Recovery reads all values of a run into memory.
    pub payload: usize,
    /// Values over so many bytes of JSON go to the effect store, and the journal refers to them. Default 64 KiB.
    /// With 0, every outcome goes there first.
    pub inline: usize,
    /// Longest journal of one run, in events.
    pub history: u64,
    /// Deepest nesting of scopes.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { payload: 32 << 20, inline: 64 << 10, history: 1_000_000, depth: 64 }
    }
}

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
    pub(crate) deps: Deps,
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
    /// Tells whoever listens.
    pub(crate) fn observe(&self, run: &RunId, at: Timestamp, events: Vec<Event>) {
        if self.observers.receiver_count() > 0 {
            let observed = Observed { run: run.clone(), at, events: events.into() };
            let _nobody_left = self.observers.send(observed);
        }
    }
}
