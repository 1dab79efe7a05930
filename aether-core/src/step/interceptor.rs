//! Interceptors: they stand between the engine and bodies, so that tests can answer in the bodies' place.
//!
//! Promise: an interceptor's answer is recorded as a body's own answer would be.

use std::fmt::Debug;

use futures_util::future::BoxFuture;

use crate::definition::def::{StepOptions, WorkflowDef};
use crate::journal::history::record::RecordedResult;
use crate::step::body::{BodyResult, ProbeResult};
use crate::step::context::StepCx;
use crate::vocabulary::id::{CommandId, RunId};
use crate::vocabulary::payload::Payload;

/// A body call about to happen.
#[derive(Debug)]
pub struct BodyCall<'a> {
    /// The run that makes the call.
    pub run: &'a RunId,
    /// The command of the call inside its run.
    pub command: &'a CommandId,
    /// Unique name of the step: module path and name, or the effect's name.
    pub path: &'a str,
    /// The options that the step declares.
    pub options: &'a StepOptions,
    /// Number of the logical attempt, from 0.
    pub attempt: u32,
    /// The recorded arguments.
    pub args: &'a Payload,
}

/// Stands between the engine and bodies. For tests.
///
/// ```
/// use aether_core::payload::Payload;
/// use aether_core::step::{BodyCall, BodyResult, Interceptor, StepCx};
/// use futures_util::future::{BoxFuture, FutureExt, ready};
/// /// Answers every call of one step with `null`.
/// #[derive(Debug)]
/// struct Stub(&'static str);
///
/// impl Interceptor for Stub {
///     fn intercept(&self, call: &BodyCall<'_>, _: &StepCx) -> Option<BoxFuture<'static, BodyResult>> {
///         (call.path == self.0).then(|| ready(Ok(Ok(Payload::null()))).boxed())
///     }
/// }
/// ```
pub trait Interceptor: Send + Sync + Debug + 'static {
    /// Answers a call, or lets the body run with `None`.
    fn intercept(&self, call: &BodyCall<'_>, cx: &StepCx) -> Option<BoxFuture<'static, BodyResult>>;

    /// Answers in place of a step's probe, or lets the probe run with `None`.
    fn probe(&self, _call: &BodyCall<'_>, _cx: &StepCx) -> Option<BoxFuture<'static, ProbeResult>> {
        None
    }

    /// The clock reading, UUID or random value that a command of the workflow gets, in place of the environment's.
    fn draw(&self, _run: &RunId, _command: &CommandId) -> Option<RecordedResult> {
        None
    }

    /// Observes the value that a command of the workflow got where [`Interceptor::draw`] gave none.
    fn drawn(&self, _run: &RunId, _command: &CommandId, _answer: &RecordedResult) {}

    /// The version of the run at a mark that it comes to for the first time, in place of the highest one. The command has
    /// the name of the mark; `range` is the lowest and the highest version that the code has a path for.
    fn version(&self, _run: &RunId, _mark: &CommandId, _range: (u32, u32)) -> Option<u32> {
        None
    }

    /// Answers in place of the code of the workflow `def`, whenever the run is taken up, or lets the code run with `None`. The
    /// answer is the run's end. It is replayed as a run whose code asks for no effect.
    fn workflow(
        &self,
        _run: &RunId,
        _def: &'static WorkflowDef,
        _input: &Payload,
    ) -> Option<BoxFuture<'static, BodyResult>> {
        None
    }

    /// Wraps a body, or the answer of [`Interceptor::intercept`]. The returned future runs in its place, so one that is
    /// not polled to completion cuts the body off.
    fn around(
        &self,
        _call: &BodyCall<'_>,
        body: BoxFuture<'static, BodyResult>,
    ) -> BoxFuture<'static, BodyResult> {
        body
    }
}
