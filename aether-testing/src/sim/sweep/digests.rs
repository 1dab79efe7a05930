//! The check that a replay refuses other arguments than the recorded ones.
//!
//! Promise: nothing is altered but a copy of the journal.

use std::sync::Arc;

use aether_core::engine::VerifyError;
use aether_core::id::{CommandId, RunId, WorkerId};
use aether_core::journal::Frame;
use aether_core::journal::event::Event;
use aether_core::payload::{Digest, Payload};
use aether_core::run::Fault;
use aether_core::store::memory::MemoryStore;
use aether_core::store::{NewRun, RunRecord, Store, StoreError};
use aether_core::workflow::Workflow;

use super::races::{is_lost, races};
use crate::sim::dispatch::dispatcher::StubDispatcher;
use crate::sim::processes::engine::{replaying, runtime};
use crate::sim::processes::simulate::Simulated;
use crate::sim::report::error::SimError;
use crate::sim::settings::Settings;
use crate::sim::world::SimEnvironment;

/// Replays the run once for each of its commands that has a digest, from a copy of the journal in which that command had
/// other arguments: each of these replays must be refused. Returns their number.
pub(super) fn refuse_other_arguments<W: Workflow>(
    settings: &Settings,
    reference: &Simulated<W>,
    test: &str,
) -> Result<u64, SimError> {
    if !matches!(reference.report.verified, Some(Ok(_))) {
        return Ok(0);
    }
    let run = settings.run_id()?;
    runtime()?.block_on(async {
        let Some(record) = reference.store.run(&run).await? else { return Ok(0) };
        let events = &reference.report.events;
        let (races, mut refused) = (races(events), 0);
        for (position, event) in events.iter().enumerate() {
            let Event::NodeStarted(started) = event else { continue };
            if is_lost(&races, &started.command) {
                continue;
            }
            let mut altered = events.clone();
            if let Some(Event::NodeStarted(copy)) = altered.get_mut(position) {
                copy.digest = other_digest()?;
            }
            forget_arguments(&mut altered, &started.command);
            if replays_as::<W>(settings, &record, &altered).await? {
                return Err(accepted(&started.command, test, reference.report.journal()));
            }
            refused += 1;
        }
        Ok(refused)
    })
}

/// Leaves only the digest of a command's arguments: recorded arguments that today's types write as they are asked for would
/// be the same ones, whatever their digest says.
fn forget_arguments(events: &mut [Event], of: &CommandId) {
    for event in events {
        match event {
            Event::NodeStarted(e) if e.command == *of => e.input = None,
            Event::CommandEmitted(e) if e.command == *of => e.input = None,
            _ => {}
        }
    }
}

fn accepted(command: &CommandId, test: &str, journal: String) -> SimError {
    let broken = format!("a replay accepts other arguments for `{command}` than the recorded ones");
    SimError::Undisturbed { broken, reproduce: format!("cargo test {test}"), journal }
}

fn other_digest() -> Result<Digest, SimError> {
    let other = Payload::encode("other arguments than any that were recorded");
    other.and_then(|other| Digest::of(&other)).map_err(|error| SimError::Broken(error.to_string()))
}

/// Whether a replay of `events` gets by without a divergence.
async fn replays_as<W: Workflow>(
    settings: &Settings,
    record: &RunRecord,
    events: &[Event],
) -> Result<bool, SimError> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    store.create(copy(record, events)?).await?;
    let world = SimEnvironment::new(settings.at, settings.seed);
    let dispatcher = Arc::new(StubDispatcher::new(settings));
    let engine = replaying::<W>(settings, world, store, dispatcher).await?;
    let verified = engine.verify(&record.id).await;
    Ok(!matches!(verified, Err(VerifyError::Fault(Fault::Diverged(_)))))
}

fn copy(record: &RunRecord, events: &[Event]) -> Result<NewRun, StoreError> {
    let unreadable = |error: &dyn std::fmt::Display, run: &RunId| StoreError::Corrupt {
        store: "copy".into(),
        reason: format!("run `{run}`: {error}"),
    };
    Ok(NewRun {
        id: record.id.clone(),
        workflow: record.workflow.clone(),
        version: record.version,
        code: record.code.clone(),
        digest: record.digest.clone(),
        parent: record.parent.clone(),
        labels: record.labels.clone(),
        traceparent: None,
        frame: Frame::encode(events).map_err(|error| unreadable(&error, &record.id))?,
        at: record.created_at,
        // Its worker does not exist and its lease outlasts the replay, so that no engine claims it.
        owner: Some(WorkerId::from("copy".to_owned())),
        parent_epoch: None,
        terms: Default::default(),
    })
}
