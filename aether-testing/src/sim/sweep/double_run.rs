//! The double run: one workflow in two worlds, and the first place at which they come apart.
//!
//! Promise: the second world differs in everything that workflow code can see past its context (a later clock, no
//! environment variables, another process id, other hash keys, seeds, thread and addresses), and in nothing that it
//! gets through its context: draws, times and answers of bodies are those of the first.

use std::sync::Arc;
use std::time::Duration;

use aether_core::engine::{EngineBuilder, Verified, VerifyError};
use aether_core::event::Event;
use aether_core::fault::{Divergence, Fault};
use aether_core::id::{CommandId, RunId};
use aether_core::payload::Payload;
use aether_core::step::Workflow;
use aether_core::store::Store;

use super::journal::{event_text, journal_text};
use super::life::{runtime, simulate, verifying};
use super::stage::{Stage, Tape};
use super::{Settings, SimError, SimReport, SimWorld};
use crate::trap::{Armed, LastCommands, Skew};

/// How much later the second world is past the context: another year, month, day, hour, minute, second and fraction.
const AHEAD: Duration = Duration::new(397 * 24 * 3600 + 13 * 3600 + 37 * 60 + 11, 123_456_789);
/// How much later the engine's own clock is in the replay: less than a lease, so that nothing is taken over.
const LATER: Duration = Duration::from_secs(17 * 60 + 3);
/// Bytes allocated first in the second world, so that what comes next has another address.
const PADDING: usize = 72_921;

/// Which two runs came apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Comparison {
    /// The first run, and a replay of its journal on the same thread.
    Replay,
    /// The first run, and a replay of its journal in the second world.
    ReplayElsewhere,
    /// The first run, and a second run in the second world.
    SecondRun,
}

impl std::fmt::Display for Comparison {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Replay => "a replay of its journal",
            Self::ReplayElsewhere => {
                "a replay of its journal at another time, with other hash keys and seeds"
            }
            Self::SecondRun => "a second run at another time, with other hash keys and seeds",
        })
    }
}

/// What the second world gets to see of the first run.
struct First<'a> {
    run: &'a RunId,
    store: &'a Arc<dyn Store>,
    events: &'a [Event],
    verified: &'a Option<Result<Verified, VerifyError>>,
}

/// Runs in two worlds, one after the other; the threads of both live until the end.
pub(super) fn twice<W: Workflow>(settings: &Settings, input: &Payload) -> Result<SimReport<W>, SimError> {
    let tape = Tape::default();
    let first_settings =
        Settings { crashes: Vec::new(), tape: Some(tape.recording()), skew: None, ..settings.clone() };
    let first = simulate::<W>(&first_settings, input)?;
    let skew = Some(Skew { ahead: AHEAD });
    let second_settings = Settings { tape: Some(tape.playing()), skew, ..first_settings };
    let SimReport { view, events, verified, .. } = &first.report;
    let seen = First { run: &view.run, store: &first.store, events, verified };
    std::thread::scope(|scope| {
        let second = || elsewhere::<W>(&second_settings, input, &seen);
        let name = format!("sim {} again", W::DEF.name);
        let begun = std::thread::Builder::new().name(name).spawn_scoped(scope, second);
        let begun = begun.map_err(|error| SimError::Broken(error.to_string()))?;
        begun.join().unwrap_or_else(|_| Err(SimError::Broken("its second thread panicked".into())))
    })?;
    Ok(first.report)
}

/// What happens on the thread of the second world.
fn elsewhere<W: Workflow>(settings: &Settings, input: &Payload, first: &First<'_>) -> Result<(), SimError> {
    let _padding = std::hint::black_box(vec![1_u8; PADDING]);
    let replayed = match first.verified {
        Some(Ok(_)) => {
            replay_elsewhere::<W>(settings, first)?.map_err(|error| (Comparison::ReplayElsewhere, error))
        }
        Some(Err(error)) => Err((Comparison::Replay, error.clone())),
        None => Ok(()),
    };
    let live = live_elsewhere::<W>(settings, input, first);
    match (replayed, live) {
        (Ok(()), live) => live,
        // A replay knows that the results differ; the second run knows how.
        (Err((_, error)), Err(SimError::Nondeterministic { first, second, .. }))
            if is_other_result(&error) =>
        {
            Err(SimError::Nondeterministic { between: Comparison::SecondRun, first, second })
        }
        (Err((between, error)), _) => Err(diverged(between, first.events, &error)),
    }
}

/// Replays the first run's journal here. The outer error is that of the simulation.
fn replay_elsewhere<W: Workflow>(
    settings: &Settings,
    first: &First<'_>,
) -> Result<Result<(), VerifyError>, SimError> {
    let stage = Arc::new(Stage::new(settings));
    let told = Arc::clone(&stage);
    let _armed = Armed::set(settings.trap.clone(), settings.skew, move |hit| {
        told.give_up(SimError::Trapped(Box::new(hit)));
    });
    let at = settings.at.saturating_add(LATER).unwrap_or(settings.at);
    runtime()?.block_on(async {
        let world = SimWorld::new(at, settings.seed.wrapping_add(1));
        let store: Arc<dyn Store> = Arc::clone(first.store);
        let engine = verifying(EngineBuilder::new(Arc::new(world)), settings)
            .store(store)
            .deps(settings.deps.clone())
            .interceptor(stage.clone())
            .policy(LastCommands)
            .limits(settings.limits)
            .register::<W>()
            .start()
            .await?;
        let verified = engine.verify(first.run).await;
        Ok(verified.map(|_verified| ()))
    })
}

/// Runs again here, and compares the journals.
fn live_elsewhere<W: Workflow>(
    settings: &Settings,
    input: &Payload,
    first: &First<'_>,
) -> Result<(), SimError> {
    let second = match simulate::<W>(settings, input) {
        Ok(second) => second.report,
        Err(error @ SimError::Trapped(_)) => return Err(error),
        Err(error) => return Err(between(Comparison::SecondRun, end_of(first.events), error.to_string())),
    };
    let (one, other) = (journal_text(first.events), journal_text(&second.events));
    let same = one.lines().zip(other.lines()).take_while(|(one, other)| one == other).count();
    if same == first.events.len() && same == second.events.len() {
        return Ok(());
    }
    Err(between(Comparison::SecondRun, told(first.events, same), told(&second.events, same)))
}

fn between(between: Comparison, first: String, second: String) -> SimError {
    SimError::Nondeterministic { between, first, second }
}

fn is_other_result(error: &VerifyError) -> bool {
    matches!(error, VerifyError::Fault(Fault::Diverged(divergence))
        if divergence.recorded.is_none() && divergence.requested.is_none())
}

/// A replay that does not fit its journal.
fn diverged(comparison: Comparison, events: &[Event], error: &VerifyError) -> SimError {
    let (first, second) = sides(events, error);
    between(comparison, first, second)
}

/// Both sides of a replay that does not fit its journal: what was recorded, and what the replay did.
pub(crate) fn sides(events: &[Event], error: &VerifyError) -> (String, String) {
    match error {
        VerifyError::Fault(Fault::Diverged(divergence)) => sides_of(events, divergence),
        VerifyError::Fault(Fault::Unrecorded { requested, .. }) => {
            (end_of(events), format!("asks for {requested}"))
        }
        error => (end_of(events), error.to_string()),
    }
}

fn sides_of(events: &[Event], divergence: &Divergence) -> (String, String) {
    let first = match &divergence.recorded {
        Some(recorded) => {
            let own = events.iter().position(|event| event.command() == Some(&recorded.command));
            let site = own.filter(|_| recorded.site.is_none()).map(|own| place(events, own));
            format!("asks for {recorded}{}", site.unwrap_or_default())
        }
        None => end_of(events),
    };
    let second = match &divergence.requested {
        Some(requested) => format!("asks for {requested}"),
        None if divergence.recorded.is_some() => "ends without asking for it".into(),
        None => format!("ends otherwise{}", place(events, events.len())),
    };
    (first, second)
}

fn end_of(events: &[Event]) -> String {
    told(events, events.len().saturating_sub(1))
}

/// One event, and where in the source it comes from.
fn told(events: &[Event], position: usize) -> String {
    match events.get(position) {
        Some(event) => format!("{}{}", event_text(event), place(events, position)),
        None => format!("has no further event{}", place(events, events.len())),
    }
}

/// The await of an event's command, or the last await before it.
fn place(events: &[Event], position: usize) -> String {
    let sites: Vec<(&CommandId, &str)> =
        events.iter().take(position + 1).filter_map(|event| started(event)).collect();
    let own = events.get(position).and_then(Event::command);
    let found = sites.iter().rev().find(|(command, _)| Some(*command) == own);
    match (found, sites.last()) {
        (Some((_, site)), _) => format!(" at {site}"),
        (None, Some((command, site))) => format!(", after `{command}` at {site}"),
        (None, None) => ", before the first step".into(),
    }
}

fn started(event: &Event) -> Option<(&CommandId, &str)> {
    match event {
        Event::NodeStarted(started) => Some((&started.command, started.site.as_deref()?)),
        _ => None,
    }
}
