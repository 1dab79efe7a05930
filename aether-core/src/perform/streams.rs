//! Streams of a step call: what its body sends, and what the end of the call means for them.
//!
//! Promise: what a body sent is written before its outcome is; that a stream's chunks count is said only after the outcome
//! is durable.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::perform::call::StepCall;
use crate::policy::replay::Mode;
use crate::sched::spawn;
use crate::store::streams::{StreamChange, StreamWrite};
use crate::stream::execution::Execution;
use crate::vocabulary::outcome::EffectClass;
use crate::vocabulary::payload::{Answered, Digest};

impl StepCall {
    /// Begins another execution of the body. It sends nothing where the body runs again in every replay.
    pub(crate) fn begin_execution(&mut self) {
        let run = &self.run;
        let is_silent = self.options.class == EffectClass::Pure || run.mode == Mode::Verify;
        let of = || Execution::new(run.id.clone(), run.epoch, self.command.clone(), self.attempt);
        self.execution = (!is_silent).then(of);
        run.shared.streams.begin();
    }

    /// Waits until what the body sent is written, and drops what is sent from here on.
    pub(crate) async fn flush_streams(&mut self) {
        let Some(execution) = &self.execution else { return };
        execution.over.store(true, Ordering::Release);
        if execution.has_sent() {
            self.has_sent = true;
            self.run.shared.streams.flushed().await;
        }
    }

    /// Says what becomes of the streams of this call, as soon as what was appended so far is durable.
    pub(crate) fn end_streams(&self, answered: &Answered) {
        if !self.has_sent {
            return;
        }
        let keeps = match answered {
            Ok(_) => self.execution.as_ref().map(|execution| execution.streams()),
            Err(_) => None,
        };
        let (Ok(value) | Err(value)) = answered;
        let Ok(digest) = Digest::of(value) else { return };
        let run = Arc::clone(&self.run);
        let write = StreamWrite {
            run: run.id.clone(),
            epoch: run.epoch,
            command: self.command.clone(),
            attempt: self.attempt,
            at: run.now(),
            change: StreamChange::End { keeps: Some(keeps.unwrap_or_default()), digest },
        };
        let position = run.next();
        drop(spawn(async move {
            if run.watermark().reached(position).await.is_ok() {
                run.shared.streams.end(write);
            }
        }));
    }
}
