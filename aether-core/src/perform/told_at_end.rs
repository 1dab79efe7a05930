//! Words from outside about calls whose run ends: reports and resolutions that were acknowledged, and that no call takes any
//! more.
//!
//! Promise: such a word counts as if the call had taken it, but for further attempts, of which there are none. What the step
//! does not accept stays unread, and the outcome unknown.

use std::sync::Arc;

use crate::inbox::decisions::{Resolution, Resolved};
use crate::inbox::topics::resolution_topic;
use crate::journal::event::{Event, InvocationDecision};
use crate::journal::history::record::{CommandRecord, Invocation};
use crate::perform::body_outcome::BodyOutcome;
use crate::perform::call::{Next, StepCall};
use crate::perform::recorded_call::recorded_call;
use crate::run::append::AppendExtras;
use crate::run::claim::Run;
use crate::run::taken::Taken;
use crate::store::ledger::LedgerStatus;
use crate::vocabulary::id::InvocationId;
use crate::vocabulary::outcome::FailureClass;

/// What is appended about the recorded call, which has no outcome, because of what the run's inbox says of it; `None` where that
/// is nothing that counts, or where the step is not linked, which alone could tell.
pub(crate) async fn told(run: &Arc<Run>, record: &CommandRecord) -> Option<(Vec<Event>, AppendExtras)> {
    let invocation = record.invocation.as_deref().filter(|invocation| invocation.finished.is_none())?;
    let mut call = recorded_call(run, record)?;
    call.take_up(record, invocation).await;
    if let Some(Next::Settle(ended)) = call.early_callback(&invocation.id).await {
        return call.told_outcome(ended);
    }
    let message = run.take_message(&resolution_topic(&invocation.id))?;
    call.told_resolution(&invocation.id, message)
}

impl StepCall {
    /// Takes up the place of who made this invocation.
    async fn take_up(&mut self, record: &CommandRecord, invocation: &Invocation) {
        let details = record.details();
        (self.started, self.emitted, self.attempt) = (record.started, record.emitted, invocation.attempt);
        (self.round, self.handed_over) = (details.round, details.callback.is_some());
        self.note_returned(invocation, details.callback.as_ref().map(|(awaited, _)| awaited));
        self.take_up_resend(invocation);
        // A row that holds a final outcome keeps it.
        self.in_ledger = self.row(&invocation.key).await.is_some_and(|row| !row.committed);
    }

    /// What a reported outcome appends.
    fn told_outcome(&mut self, ended: BodyOutcome) -> Option<(Vec<Event>, AppendExtras)> {
        let error = match ended {
            BodyOutcome::Value(value) => {
                let (events, extras, _answer) = self.success(value, Vec::new());
                return Some((events, extras));
            }
            BodyOutcome::Error(error) if error.class != FailureClass::Unknown => error,
            // It says that nobody knows.
            _ => return None,
        };
        let class = error.class;
        // More may have been done than the half.
        let unclear = class == FailureClass::Compensatable && self.is_sent_again();
        let status = if unclear { LedgerStatus::InDoubt } else { LedgerStatus::Failed };
        let error = self.error_of(BodyOutcome::Error(error), false);
        let (events, extras, _answer) = self.failure(class.outcome(), &error, Some(status));
        Some((events, extras))
    }

    /// What an operator's word appends.
    fn told_resolution(
        &mut self,
        invocation: &InvocationId,
        message: Taken,
    ) -> Option<(Vec<Event>, AppendExtras)> {
        let Resolved { resolution, actor } = message.payload.decode().ok()?;
        match resolution {
            Resolution::Happened(value) => {
                self.ask_body(|body| body.accepts(&value)).ok()?;
                self.note_happened(invocation, &actor);
                let (events, extras, _answer) = self.success(value, vec![message]);
                Some((events, extras))
            }
            Resolution::DidNotHappen => {
                let decision = self.decision(invocation, InvocationDecision::DidNotHappen, &actor);
                let ledger = self.ledger_update(LedgerStatus::Failed, None, None).into_iter().collect();
                let consumed = vec![message];
                Some((vec![decision], AppendExtras { ledger, consumed, ..AppendExtras::default() }))
            }
            Resolution::Abandon => None,
        }
    }
}
