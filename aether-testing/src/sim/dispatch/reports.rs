//! Completions that bodies handed over, and what is to be reported about them.
//!
//! Promise: the queue outlives every process of its simulation, so that no report is lost in a crash.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aether_core::failure::Failure;
use aether_core::id::{CommandId, RunId};
use aether_core::outcome::FailureClass;
use aether_core::payload::Payload;
use aether_core::step::StepCx;
use aether_core::step::{BodyError, BodyResult};
use tokio::sync::Notify;

/// Reports of outcomes by other systems, over all processes of a simulation.
#[derive(Debug, Default)]
pub(crate) struct ReportQueue {
    reports: Mutex<Vec<OutcomeReport>>,
    added: Notify,
}

/// What is reported about one completion.
#[derive(Clone, Debug)]
pub(crate) struct OutcomeReport {
    pub(crate) run: RunId,
    pub(crate) command: CommandId,
    pub(crate) token: String,
    pub(crate) after: Duration,
    pub(crate) outcome: Result<Payload, Payload>,
}

impl ReportQueue {
    fn reports(&self) -> MutexGuard<'_, Vec<OutcomeReport>> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a body ends with whose outcome is to be reported later.
    pub(super) fn hand_over(&self, cx: &StepCx, after: Duration, outcome: BodyResult) -> BodyResult {
        let outcome = outcome?.map_err(|error| error.error);
        let ended: Failure = match cx.callback() {
            Ok(callback) => {
                let (run, command, token) =
                    (cx.run_id().clone(), cx.command_id().clone(), callback.token().to_owned());
                self.reports().push(OutcomeReport { run, command, token, after, outcome });
                self.added.notify_one();
                callback.pending().into()
            }
            Err(error) => error.into(),
        };
        let (error, message) = (Payload::encode(&ended)?, ended.to_string());
        Ok(Err(BodyError { error, message, class: FailureClass::Permanent, retry_after: None }))
    }

    /// Waits for reports after the first `known` ones.
    pub(crate) async fn after(&self, known: usize) -> Vec<OutcomeReport> {
        loop {
            let new: Vec<OutcomeReport> = self.reports().iter().skip(known).cloned().collect();
            if !new.is_empty() {
                return new;
            }
            self.added.notified().await;
        }
    }
}
