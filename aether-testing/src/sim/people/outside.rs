//! Other systems of a simulation: signals, and reports of outcomes that bodies handed over.
//!
//! Promise: what a process that died has sent already is not sent twice; what it had still to send is.

use std::sync::Arc;

use aether_core::engine::DecideError;
use aether_core::store::Sent;

use super::persist::persist;
use crate::sim::dispatch::dispatcher::StubDispatcher;
use crate::sim::dispatch::reports::OutcomeReport;
use crate::sim::live::Live;
use crate::sim::report::error::SimError;
use crate::sim::schedule::pace::{Acknowledged, Pace};
use crate::sim::schedule::plan::{Message, MessageKind};
use crate::sim::script::people::{PlannedCancel, PlannedSignal};
use crate::sim::script::recorded::RecordedAnswers;

/// Sends signals of one name, each at its time, and one after another. The number of each makes its id, so that it is
/// taken once however many processes send it.
pub(super) async fn send_signals(
    signals: Vec<(usize, PlannedSignal)>,
    pace: Option<Arc<Pace>>,
    dispatcher: Arc<StubDispatcher>,
    live: Live,
) {
    for (number, PlannedSignal { after, name, value }) in signals {
        let value = match value {
            Ok(value) => value,
            Err(error) => return dispatcher.give_up(SimError::Input(error)),
        };
        match &pace {
            Some(pace) => {
                let message = numbered(MessageKind::Signal, number);
                pace.arrives(message, &format!("signal `{name}`"), live.until(after)).await;
            }
            None => live.sleep_until(after).await,
        }
        let id = format!("sim-{number}");
        match persist(&live, || live.engine().signal(live.run_id(), &name, &id, &value)).await {
            Ok(Sent::Delivered | Sent::Duplicate) => {
                if let Some(pace) = &pace {
                    pace.acknowledge(Acknowledged::Signal(name, id));
                }
            }
            Ok(Sent::RunEnded(_)) => {}
            Err(error) => dispatcher.give_up(error.into()),
        }
    }
}

fn numbered(kind: MessageKind, number: usize) -> Message {
    Message { kind, number: u32::try_from(number).unwrap_or(u32::MAX).saturating_add(1) }
}

/// Asks the run to cancel itself.
pub(super) async fn cancel(
    planned: PlannedCancel,
    number: usize,
    pace: Option<Arc<Pace>>,
    dispatcher: Arc<StubDispatcher>,
    live: Live,
) {
    let PlannedCancel { after, reason, actor } = planned;
    match pace {
        Some(pace) => {
            let message = numbered(MessageKind::Cancel, number);
            pace.arrives(message, "the request to cancel", live.until(after)).await;
        }
        None => live.sleep_until(after).await,
    }
    if let Err(error) = persist(&live, || live.cancel(&reason, &actor)).await {
        dispatcher.give_up(error.into());
    }
}

/// Sends the signals of a recording, under their recorded ids.
pub(super) async fn send_recorded(recorded: Arc<RecordedAnswers>, live: Live) {
    for signal in recorded.signals() {
        let id = signal.id.strip_prefix("signal:").unwrap_or(&signal.id);
        // A run that ended without it needs it no more.
        let send = || live.engine().signal(live.run_id(), &signal.name, id, &signal.value);
        let _sent = persist(&live, send).await;
    }
}

/// Delivers reports while a process lives, those too that the last one did not live to deliver.
pub(super) async fn deliver_reports(dispatcher: Arc<StubDispatcher>, pace: Option<Arc<Pace>>, live: Live) {
    let mut known = 0;
    loop {
        for report in dispatcher.reports.after(known).await {
            let late = Late { number: known, pace: pace.clone() };
            known += 1;
            tokio::spawn(deliver(report, late, Arc::clone(&dispatcher), live.clone()));
        }
    }
}

/// Which report it is, and the schedule that says when it comes.
struct Late {
    number: usize,
    pace: Option<Arc<Pace>>,
}

async fn deliver(report: OutcomeReport, late: Late, dispatcher: Arc<StubDispatcher>, live: Live) {
    let OutcomeReport { run, command, token, after, outcome } = report;
    match &late.pace {
        Some(pace) => {
            let message = numbered(MessageKind::Report, late.number);
            pace.arrives(message, &format!("the report about {command}"), after).await;
        }
        None => live.sleep(after).await,
    }
    let report = || async {
        match &outcome {
            Ok(value) => live.engine().complete_callback(&token, value).await,
            Err(error) => live.engine().fail_callback(&token, error).await,
        }
    };
    match persist(&live, report).await {
        // Reported by a process that died, or decided otherwise.
        Ok(_)
        | Err(
            DecideError::NotWaiting { .. }
            | DecideError::AlreadyDecided { .. }
            | DecideError::RunEnded { .. }
            | DecideError::Expired { .. },
        ) => {}
        Err(error) => dispatcher.give_up(SimError::Refused { run, command, reason: error.to_string() }),
    }
}
