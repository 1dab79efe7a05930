//! What stands between the engine and bodies: tests answer in their place.
//!
//! Promise: what an interceptor answers is recorded as a body's own answer would be.

use std::fmt::Debug;

use futures_util::future::BoxFuture;

use crate::definition::def::StepOptions;
use crate::journal::history::RecordedResult;
use crate::step::body::{BodyResult, ProbeResult};
use crate::step::context::StepCx;
use crate::vocabulary::id::{CommandId, RunId};
use crate::vocabulary::payload::Payload;

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
    fn draw(&self, _run: &RunId, _command: &CommandId) -> Option<RecordedResult> {
        None
    }

    /// Learns what a command of the workflow got where [`Interceptor::draw`] gave nothing.
    fn drawn(&self, _run: &RunId, _command: &CommandId, _answer: &RecordedResult) {}

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
