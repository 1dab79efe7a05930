//! Replaying one recording against the workflows of this program.

use std::sync::Arc;
use std::time::Duration;

use aether_core::definition::combined_fingerprint;
use aether_core::engine::{Engine, EngineBuilder, Verified, VerifyError};
use aether_core::recording::{RecordedRun, Recording};
use aether_core::run::Fault;
use aether_core::store::memory::MemoryStore;
use jiff::Timestamp;

use super::report::{Counts, RecordingFailure};
use crate::sim::processes::engine::{runtime, trusting};
use crate::sim::report::divergence::sides;
use crate::sim::world::SimEnvironment;

/// Virtual time after which a replay counts as hanging; a replay waits for nothing.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Replays every run of `recording`, on a thread of its own.
pub(super) fn verify(recording: &Recording) -> Result<Counts, RecordingFailure> {
    let broken = |reason: String| match recording.root() {
        Some(root) => RecordingFailure::Broken { run: root.run.clone(), reason },
        None => RecordingFailure::Vacuous,
    };
    std::thread::scope(|scope| {
        let replay = || {
            let runtime = runtime().map_err(|error| broken(error.to_string()))?;
            runtime.block_on(replay(recording, &broken))
        };
        let begun = std::thread::Builder::new().name("recording".into()).spawn_scoped(scope, replay);
        let begun = begun.map_err(|error| broken(error.to_string()))?;
        begun.join().unwrap_or_else(|_| Err(broken("the replay panicked".into())))
    })
}

async fn replay(
    recording: &Recording,
    broken: &dyn Fn(String) -> RecordingFailure,
) -> Result<Counts, RecordingFailure> {
    let store = Arc::new(MemoryStore::new());
    recording.import(&*store).await?;
    let world = Arc::new(SimEnvironment::new(Timestamp::UNIX_EPOCH, 0));
    let engine = trusting(EngineBuilder::new(world).store(store)).start().await;
    let engine = engine.map_err(|error| broken(error.to_string()))?;
    let mut counts = Counts::default();
    for run in recording.runs() {
        let verified = match tokio::time::timeout(PATIENCE, engine.verify(&run.run)).await {
            Ok(verified) => verified,
            Err(_) => Err(hung(run)),
        };
        let Verified { recorded, matched, .. } = match verified {
            Ok(verified) => verified,
            Err(error) => return Err(failure(&engine, run, &error)),
        };
        counts.runs += 1;
        counts.recorded += recorded;
        counts.matched += matched;
    }
    if counts.recorded == 0 { Err(RecordingFailure::Vacuous) } else { Ok(counts) }
}

fn hung(run: &RecordedRun) -> VerifyError {
    VerifyError::Panicked { run: run.run.clone(), message: "the replay hangs".into() }
}

fn failure(engine: &Engine, run: &RecordedRun, error: &VerifyError) -> RecordingFailure {
    let id = run.run.clone();
    let events = match run.events() {
        Ok(events) => events,
        Err(error) => return error.into(),
    };
    match error {
        VerifyError::Fault(Fault::NotLinked { workflow, linked, .. }) => {
            RecordingFailure::NotLinked { run: id, workflow: workflow.clone(), linked: linked.clone() }
        }
        VerifyError::Fault(Fault::Diverged(_) | Fault::Unrecorded { .. }) => {
            let (recorded, today) = sides(&events, error);
            RecordingFailure::Diverged { run: id, workflow: definition(engine, run), recorded, today }
        }
        error => RecordingFailure::Broken { run: id, reason: error.to_string() },
    }
}

/// The workflow, and how its definition differs from the recorded one.
fn definition(engine: &Engine, run: &RecordedRun) -> String {
    let created = &run.created;
    let name = &created.workflow;
    let versions = engine.versions(name, &created.module);
    let recorded = versions.iter().find(|def| def.version == created.version);
    match recorded.or(versions.last()) {
        Some(def) if combined_fingerprint(def) == created.fingerprint => {
            format!(
                "workflow `{name}` at {}:{}, unchanged with all that it calls by name: what plain functions do has changed",
                def.file, def.line
            )
        }
        Some(def) => format!("workflow `{name}` at {}:{}, changed since", def.file, def.line),
        None => format!("workflow `{name}`"),
    }
}
