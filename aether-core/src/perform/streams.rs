//! Streams of a step call: what its body sends, and what the end of the call means for them.
//!
//! Promise: what a body sent is written before its outcome is; whether it counts is said in the same write as the outcome.
//! Only what the execution sent whose outcome is recorded counts.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::perform::call::StepCall;
use crate::policy::replay::Mode;
use crate::run::append::AppendExtras;
use crate::store::streams::StreamEnd;
use crate::stream::execution::Execution;
use crate::vocabulary::outcome::EffectClass;
use crate::vocabulary::payload::{Answered, Digest, Payload};

impl StepCall {
    /// Begins another execution of the body. It sends nothing where the body runs again in every replay.
    pub(crate) fn begin_execution(&mut self) {
        let run = &self.run;
        let is_silent = self.options.class == EffectClass::Pure || run.mode == Mode::Verify;
        let open = || Arc::clone(&run.streams);
        let of = || Execution::new(run.id.clone(), run.epoch, self.command.clone(), self.attempt, open());
        self.execution = (!is_silent).then(of);
        (self.disowned, self.returned) = (false, None);
    }

    /// Waits until what the body sent is written, and drops what is sent from here on.
    pub(crate) async fn flush_streams(&self) {
        let Some(execution) = &self.execution else { return };
        self.run.shared.streams.end(execution);
        if execution.has_sent() {
            self.run.shared.streams.flushed().await;
        }
    }

    /// Somebody else says what the outcome is: what the body sent is no part of it.
    pub(crate) fn disown_streams(&mut self) {
        self.disowned = true;
    }

    /// Adds to the append of the outcome what becomes of what the command has sent, in this claim or an earlier one.
    pub(crate) fn end_streams(&self, answered: &Answered, extras: &mut AppendExtras) {
        // Without an execution in this claim: the body came back in an earlier one, and all was written before it did.
        let keeps = self.execution.as_ref().map(|execution| self.kept(execution));
        self.end_streams_but(keeps, answered, extras);
    }

    /// The streams of which this execution's chunks are part of the outcome: none where a later attempt made it.
    fn kept(&self, execution: &Execution) -> Vec<String> {
        if execution.attempt == self.attempt { execution.streams() } else { Vec::new() }
    }

    /// As [`StepCall::end_streams`], of an outcome that keeps what was sent to these streams; `None` for all.
    pub(crate) fn end_streams_but(
        &self,
        keeps: Option<Vec<String>>,
        answered: &Answered,
        extras: &mut AppendExtras,
    ) {
        let run = &self.run;
        if !run.streams.contains(&self.command) || run.mode == Mode::Verify {
            return;
        }
        let digest = match answered {
            Ok(value) if !self.disowned => Digest::of(value).ok(),
            _ => None,
        };
        // What a store was slow to write may come behind this, and is looked for once more at the end of the run.
        if !self.execution.as_ref().is_some_and(|execution| execution.lost.load(Ordering::Acquire)) {
            run.streams.close(&self.command);
        }
        let (command, attempt) = (self.command.clone(), self.attempt);
        extras.streams.push(StreamEnd { command, attempt, keeps, digest });
    }

    /// The body came back and handed its completion over. Where it sent nothing that counts, a report in a later claim must
    /// keep nothing.
    pub(crate) fn hand_over_streams(&mut self, extras: &mut AppendExtras) {
        self.returned = Some(self.attempt);
        if self.execution.as_ref().is_some_and(|execution| self.kept(execution).is_empty()) {
            self.end_streams_but(None, &Err(Payload::null()), extras);
        }
    }
}
