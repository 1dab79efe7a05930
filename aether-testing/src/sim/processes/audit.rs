//! What a store must hold at any instant, whatever the process that wrote it was doing when it died.
//!
//! Promise: only what was durable is looked at, so that a violation is one that a restart would find, too.

use std::collections::BTreeMap;

use aether_core::id::{IdempotencyKey, RunId};
use aether_core::journal::event::Event;
use aether_core::journal::{StoredFrame, read_verified};
use aether_core::outcome::EffectClass;
use aether_core::store::ledger::{LedgerEntry, LedgerStatus};
use aether_core::store::{RunFilter, RunRecord, Store, StoreError};

/// The first thing that is wrong in any run of `store`.
pub(super) async fn audit(store: &dyn Store) -> Result<Option<String>, StoreError> {
    for record in store.runs(RunFilter::default()).await? {
        let frames = store.load(&record.id, 0).await?;
        let rows = store.entries(&record.id).await?;
        if let Err(broken) = audit_run(&record, &frames, &rows) {
            return Ok(Some(format!("run `{}`: {broken}", record.id)));
        }
    }
    Ok(None)
}

fn audit_run(record: &RunRecord, frames: &[StoredFrame], rows: &[LedgerEntry]) -> Result<(), String> {
    let events = read_verified(frames).map_err(|error| error.to_string())?;
    for frame in frames {
        whole(&frame.events().map_err(|error| error.to_string())?)?;
    }
    accounted(&record.id, &events, rows)?;
    let ended = events.iter().any(is_end);
    if ended != record.status.is_terminal() {
        let journal = if ended { "has ended" } else { "is open" };
        return Err(format!("it {journal} by its journal, and its status is {}", record.status));
    }
    Ok(())
}

/// The outcome of a body and everything that follows from it are one append, and so are what a body reported, or its
/// input, and what became of it.
fn whole(frame: &[Event]) -> Result<(), String> {
    for (position, event) in frame.iter().enumerate() {
        let Some(command) = event.command() else { continue };
        let mut rest = frame.iter().skip(position + 1).filter(|later| later.command() == Some(command));
        let torn = match event {
            Event::ToolInvocationFinished(_) => {
                !rest.any(|later| matches!(later, Event::StepRetried(_) | Event::NodeFinished(_)))
            }
            Event::NodeStarted(started) if has_body(started.class) => rest.next().is_none(),
            Event::StateChanged(_) | Event::HttpRecorded(_) => {
                rest.all(|later| matches!(later, Event::StateChanged(_) | Event::HttpRecorded(_)))
            }
            _ => false,
        };
        if torn {
            return Err(format!("`{}` of `{command}` was not appended whole", event.kind()));
        }
    }
    Ok(())
}

/// Whether the first thing that is recorded of a step of this class comes with its intent, its question or its outcome.
fn has_body(class: EffectClass) -> bool {
    class.changes_world() || matches!(class, EffectClass::Read | EffectClass::Llm)
}

/// Every intent and outcome of the journal stands in the ledger.
fn accounted(run: &RunId, events: &[Event], rows: &[LedgerEntry]) -> Result<(), String> {
    let rows: BTreeMap<&IdempotencyKey, &LedgerEntry> = rows.iter().map(|row| (&row.key, row)).collect();
    let started = events.iter().filter_map(|event| match event {
        Event::ToolInvocationStarted(started) => Some(started),
        _ => None,
    });
    for started in started {
        let Some(row) = rows.get(&started.key) else {
            return Err(format!("`{}` was begun, and has no row in the ledger", started.invocation));
        };
        let ended = events.iter().any(
            |event| matches!(event, Event::ToolInvocationFinished(e) if e.invocation == started.invocation),
        );
        if ended && row.status == LedgerStatus::Started {
            return Err(format!(
                "`{}` has ended, and is open in the ledger of run `{run}`",
                started.invocation
            ));
        }
    }
    Ok(())
}

fn is_end(event: &Event) -> bool {
    matches!(
        event,
        Event::RunCompleted(_) | Event::RunFailed(_) | Event::RunCancelled(_) | Event::RunTerminated(_)
    )
}
