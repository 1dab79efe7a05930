//! The boundaries of a run as a test asks for them: all, or the one that the environment names; and the check that a
//! replay tells other arguments from the recorded ones.
//!
//! Promise: what the environment says wrongly is an error that says what is right; nothing is altered but a copy.

use std::sync::Arc;

use aether_core::engine::{EngineBuilder, VerifyError};
use aether_core::event::Event;
use aether_core::fault::Fault;
use aether_core::id::{CommandId, RunId};
use aether_core::journal::Frame;
use aether_core::memory::MemoryStore;
use aether_core::payload::{Digest, Payload};
use aether_core::step::Workflow;
use aether_core::store::{NewRun, RunRecord, Store, StoreError};
use futures_util::future::BoxFuture;

use super::life::{Simulated, runtime, verifying};
use super::orders::{is_lost, races};
use super::stage::Stage;
use super::{CrashReport, Running, Settings, Sim, SimError, SimWorld, crashes};
use crate::crash::CrashPoint;
use crate::trap::LastCommands;

/// The boundary that the environment names.
pub(super) fn only(variable: &str) -> Result<Option<CrashPoint>, SimError> {
    let Some(named) = std::env::var_os(variable) else { return Ok(None) };
    let point = named.to_string_lossy().parse();
    point
        .map(Some)
        .map_err(|error| SimError::Environment { variable: variable.into(), problem: format!("{error}") })
}

/// The name of the test on this thread, as `cargo test` takes it.
pub(super) fn test_name() -> String {
    match std::thread::current().name() {
        Some(name) if name != "main" && !name.starts_with("tokio") => name.to_owned(),
        _ => "<the test>".to_owned(),
    }
}

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
            if replays_as::<W>(settings, &record, &altered).await? {
                return Err(accepted(&started.command, test, reference.report.journal()));
            }
            refused += 1;
        }
        Ok(refused)
    })
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
    let world = SimWorld::new(settings.at, settings.seed);
    let engine = verifying(EngineBuilder::new(Arc::new(world)), settings)
        .store(store)
        .deps(settings.deps.clone())
        .interceptor(Arc::new(Stage::new(settings)))
        .policy(LastCommands)
        .limits(settings.limits)
        .register::<W>()
        .start()
        .await?;
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
        digest: record.digest.clone(),
        parent: record.parent.clone(),
        frame: Frame::encode(events).map_err(|error| unreadable(&error, &record.id))?,
        at: record.created_at,
        // Held by nobody who lives, for longer than the replay takes: it is not taken up.
        owner: Some(aether_core::id::WorkerId::from("copy".to_owned())),
        lease_until: jiff::Timestamp::MAX,
    })
}

impl<W: Workflow> Sim<W> {
    /// Runs the workflow once to learn its boundaries, and then once for each of them, where the process dies and
    /// another one takes the run up:
    ///
    /// - before each write, and between each write and its acknowledgement;
    /// - with each append on its way, which arrives when another process owns the run, and must be refused;
    /// - before and after each write to the effect store;
    /// - in each body before it does anything, and after it came back;
    /// - half-way through each suspension;
    /// - at all of these while steps are being undone.
    ///
    /// Each time the documented guarantees must hold: same result, same status, and the same input, status and value
    /// of every command; no world-changing body called twice under one key unless its policy is `retry`; in doubt
    /// exactly what the crash cut off and the policy leaves so; whatever the dead process left is whole; and the journal
    /// replays. Values of `cx.now()`, `cx.uuid()` and `cx.random()` that a crash took along are drawn again, here with
    /// the same values. Arguments that are altered in a copy of the journal must be refused by a replay.
    ///
    /// With the environment variable `AETHER_CRASH_AT=<id>`, only the boundary of this id is tried, and the journal is
    /// shown as the crash left it and as it was in the end.
    ///
    /// # Panics
    /// When a crash changes more than it may; tells how to reproduce it.
    #[track_caller]
    pub fn crash_at_every_boundary(&self, input: W::Input) -> Running<CrashReport> {
        Running::new(self.at_every_boundary(input))
    }

    /// Like [`Sim::crash_at_every_boundary`].
    ///
    /// # Errors
    /// [`SimError::Crash`] when a crash changes what it must not; [`SimError::Undisturbed`] when a guarantee does not
    /// hold without one; any other when the run without a crash fails.
    pub async fn try_crash_at_every_boundary(&self, input: W::Input) -> Result<CrashReport, SimError> {
        self.at_every_boundary(input).await
    }

    fn at_every_boundary(&self, input: W::Input) -> BoxFuture<'static, Result<CrashReport, SimError>> {
        let test = test_name();
        self.apart(input, move |settings, input| crashes::at_every_boundary::<W>(settings, input, &test))
    }

    /// The same as [`Sim::crash_at_every_boundary`].
    ///
    /// # Panics
    /// As [`Sim::crash_at_every_boundary`].
    #[track_caller]
    pub fn crash_at_every_append(&self, input: W::Input) -> Running<CrashReport> {
        self.crash_at_every_boundary(input)
    }

    /// Called before each run of the simulation: puts the world outside, such as a folder that real bodies write to,
    /// back as it was.
    pub fn prepare(self, prepare: impl Fn() + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.prepare = Some(Arc::new(prepare)))
    }

    /// Puts a store between the engine of each process and the store that dies with it. The closure gets the number of
    /// the process, from 1. For tests of the sweeps themselves.
    #[doc(hidden)]
    pub fn front_store(
        self,
        front: impl Fn(Arc<dyn Store>, usize) -> Arc<dyn Store> + Send + Sync + 'static,
    ) -> Self {
        self.with(|settings| settings.front = Some(Arc::new(front)))
    }
}
