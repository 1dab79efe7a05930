//! Other systems of a simulation: signals, and reports of outcomes that bodies handed over.
//!
//! Promise: what a process that died has sent already is not sent twice; what it had still to send is.

use std::sync::Arc;

use aether_core::engine::DecideError;

use crate::sim::dispatch::dispatcher::StubDispatcher;
use crate::sim::dispatch::reports::OutcomeReport;
use crate::sim::live::Live;
use crate::sim::report::error::SimError;
use crate::sim::script::people::PlannedSignal;
use crate::sim::script::recorded::RecordedAnswers;

/// Sends a signal at its time. `number` makes its id, so that it is taken once however many processes send it.
pub(super) async fn send_signal(
    signal: PlannedSignal,
    number: usize,
    dispatcher: Arc<StubDispatcher>,
    live: Live,
) {
    let PlannedSignal { after, name, value } = signal;
    let value = match value {
        Ok(value) => value,
        Err(error) => return dispatcher.give_up(SimError::Input(error)),
    };
    live.sleep_until(after).await;
    if let Err(error) = live.engine().signal(live.run_id(), &name, &format!("sim-{number}"), &value).await {
        dispatcher.give_up(error.into());
    }
}

/// Sends the signals of a recording, under their recorded ids.
pub(super) async fn send_recorded(recorded: Arc<RecordedAnswers>, live: Live) {
    for signal in recorded.signals() {
        let id = signal.id.strip_prefix("signal:").unwrap_or(&signal.id);
        // A run that ended without it needs it no more.
        let _sent = live.engine().signal(live.run_id(), &signal.name, id, &signal.value).await;
    }
}

/// Delivers reports while a process lives, those too that the last one did not live to deliver.
pub(super) async fn deliver_reports(dispatcher: Arc<StubDispatcher>, live: Live) {
    let mut known = 0;
    loop {
        for report in dispatcher.reports.after(known).await {
            known += 1;
            tokio::spawn(deliver(report, Arc::clone(&dispatcher), live.clone()));
        }
    }
}

async fn deliver(report: OutcomeReport, dispatcher: Arc<StubDispatcher>, live: Live) {
    let OutcomeReport { run, command, token, after, outcome } = report;
    live.sleep(after).await;
    let reported = match &outcome {
        Ok(value) => live.engine().complete_callback(&token, value).await,
        Err(error) => live.engine().fail_callback(&token, error).await,
    };
    match reported {
        // Reported by a process that died, or decided otherwise.
        Ok(_)
        | Err(DecideError::NotWaiting { .. } | DecideError::RunEnded { .. } | DecideError::Expired { .. }) => {
        }
        Err(error) => dispatcher.give_up(SimError::Refused { run, command, reason: error.to_string() }),
    }
}
