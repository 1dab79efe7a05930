//! Requests that nobody responded to: a test that forgot a person must not take silence for a result.
//!
//! Promise: only runs that came to their own end count, and only requests that the test plans nothing for.

use aether_core::id::{CommandId, RunId};
use aether_core::journal::event::{ApprovalDecided, Event};
use aether_core::payload::Payload;
use aether_core::store::{RunFilter, Store};

use super::doubts::journal_of;
use crate::sim::report::advice::for_request;
use crate::sim::report::error::SimError;
use crate::sim::script::people::PeoplePlan;
use crate::sim::settings::Settings;

/// Fails if a run asked for consent or an answer, nobody responded, and the test does not say that this is meant. What a
/// recording or the test's own code does beside the run is not known here.
pub(super) async fn refuse_unanswered(
    settings: &Settings,
    store: &dyn Store,
    root: &RunId,
    events: &[Event],
) -> Result<(), SimError> {
    let people = &settings.people;
    if people.nobody_answers || settings.meanwhile.is_some() || settings.scripts.recorded.is_some() {
        return Ok(());
    }
    refuse(people, root, events)?;
    for record in store.runs(RunFilter::default()).await? {
        if record.id != *root {
            refuse(people, &record.id, &journal_of(store, &record.id).await?)?;
        }
    }
    Ok(())
}

fn refuse(people: &PeoplePlan, run: &RunId, events: &[Event]) -> Result<(), SimError> {
    let has_ended = events.iter().any(|event| matches!(event, Event::RunCompleted(_) | Event::RunFailed(_)));
    let is_cancelled =
        events.iter().any(|event| matches!(event, Event::RunCancelled(_) | Event::RunTerminated(_)));
    if !has_ended || is_cancelled {
        return Ok(());
    }
    for event in events {
        let Event::ApprovalRequested(asked) = event else { continue };
        if people.plans(&asked.request, asked.name.as_deref().unwrap_or_default())
            || is_decided(events, &asked.command)
        {
            continue;
        }
        let (run, command) = (run.clone(), asked.command.clone());
        let help = for_request(&command, &asked.request);
        return Err(SimError::Unanswered { run, command, help });
    }
    Ok(())
}

/// Whether a person responded to what this command asked.
fn is_decided(events: &[Event], command: &CommandId) -> bool {
    let by_person = |decided: &ApprovalDecided| decided.command == *command && !is_expiry(&decided.decision);
    events.iter().any(|event| matches!(event, Event::ApprovalDecided(decided) if by_person(decided)))
}

/// Whether a decision says that the time limit was over.
fn is_expiry(decision: &Payload) -> bool {
    decision.decode::<String>().is_ok_and(|decision| decision == "expired")
}
