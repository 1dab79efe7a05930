//! What must hold of the messages of a schedule: what their senders were told, against what the run recorded.
//!
//! Promise: a message is asked for only if its sender was told that it is durable.

use std::collections::{BTreeMap, BTreeSet};

use aether_core::contract::Status;
use aether_core::journal::event::{Event, InvocationDecision};
use aether_core::workflow::Workflow;

use super::races::{is_lost, races};
use super::schedule_rules::is_cancelled;
use crate::sim::processes::simulate::Simulated;
use crate::sim::schedule::pace::{Acknowledged, PaceRecord};

/// Each message counts once, and no body began after a shutdown. Of a run that was cancelled, or has not ended, no message
/// is missed.
pub(super) fn messages_count<W: Workflow>(
    run: &Simulated<W>,
    record: &PaceRecord,
    signals_may_be_left: bool,
) -> Result<(), (&'static str, String)> {
    if let Some(broken) = &record.broken {
        return Err(("shutdown", broken.clone()));
    }
    received_in_order(run, record).map_err(|broken| ("messages", broken))?;
    if is_cancelled(&run.report) || !matches!(run.report.view.status, Status::Completed | Status::Failed) {
        return Ok(());
    }
    if !signals_may_be_left {
        nothing_left(run, record).map_err(|broken| ("left", broken))?;
    }
    replies_count(run, record).map_err(|broken| ("replies", broken))
}

/// No signal was received twice, and those of one name were received in the order in which they were sent.
fn received_in_order<W: Workflow>(run: &Simulated<W>, record: &PaceRecord) -> Result<(), String> {
    let events = &run.report.events;
    let mut received: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for event in events {
        let Event::SignalReceived(signal) = event else { continue };
        let id = signal.id.strip_prefix("signal:").unwrap_or(&signal.id);
        if !seen.insert(id) {
            return Err(format!("signal `{}` with id `{id}` was received twice", signal.name));
        }
        received.entry(&signal.name).or_default().push(id);
    }
    for (name, ids) in &received {
        let sent = record.acknowledged.iter().filter_map(|message| match message {
            Acknowledged::Signal(sent, id) if sent == name => Some(id.as_str()),
            _ => None,
        });
        // Sent by something else, or received before the sender was told: not part of what is compared.
        let sent: Vec<&str> = sent.filter(|id| ids.contains(id)).collect();
        let received: Vec<&str> = ids.iter().copied().filter(|id| sent.contains(id)).collect();
        if sent != received {
            return Err(format!("signals `{name}` were sent as {sent:?} and received as {received:?}"));
        }
    }
    Ok(())
}

/// Each signal whose sender was told that it is durable was received.
fn nothing_left<W: Workflow>(run: &Simulated<W>, record: &PaceRecord) -> Result<(), String> {
    let received: BTreeSet<&str> = run.report.events.iter().filter_map(signal_id).collect();
    let unread = record.acknowledged.iter().find_map(|message| match message {
        Acknowledged::Signal(name, id) if !received.contains(id.as_str()) => Some((name, id)),
        _ => None,
    });
    if let Some((name, id)) = unread {
        return Err(format!(
            "signal `{name}` with id `{id}` was acknowledged to its sender, and the run ended without it"
        ));
    }
    Ok(())
}

fn signal_id(event: &Event) -> Option<&str> {
    match event {
        Event::SignalReceived(signal) => Some(signal.id.strip_prefix("signal:").unwrap_or(&signal.id)),
        _ => None,
    }
}

/// Each decision, answer and resolution that was acknowledged is recorded once, unless what asked for it lost a race.
fn replies_count<W: Workflow>(run: &Simulated<W>, record: &PaceRecord) -> Result<(), String> {
    let report = &run.report;
    let races = races(&report.events);
    for message in &record.acknowledged {
        let (of, command) = match message {
            Acknowledged::Reply(of, command) => (of, command.clone()),
            Acknowledged::Resolution(of, invocation) => (of, invocation.command()),
            Acknowledged::Signal(..) => continue,
        };
        if *of != report.view.run || is_lost(&races, &command) {
            continue;
        }
        match report.events.iter().filter(|event| records(event, message)).count() {
            1 => {}
            0 => return Err(format!("the reply to `{command}` was acknowledged, and is not recorded")),
            more => return Err(format!("`{command}` was decided {more} times")),
        }
    }
    Ok(())
}

/// Whether an event is the record of a decision, an answer or a resolution.
fn records(event: &Event, reply: &Acknowledged) -> bool {
    match (event, reply) {
        (Event::ApprovalDecided(decided), Acknowledged::Reply(_, command)) => decided.command == *command,
        (Event::InvocationResolved(resolved), Acknowledged::Resolution(_, invocation)) => {
            resolved.invocation == *invocation && resolved.decision != InvocationDecision::Ask
        }
        _ => false,
    }
}
