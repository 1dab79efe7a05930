//! The double run: one workflow in two worlds, and the first place at which they come apart.
//!
//! Promise: the second world differs in everything that workflow code can see past its context (a later clock, no
//! environment variables, another process id, other hash keys, seeds, thread and addresses; lines of a log that are on are
//! off, and the other way round), and in nothing that it
//! gets through its context: draws, times and answers of bodies are those of the first.

use std::sync::Arc;
use std::time::Duration;

use aether_core::engine::{Verified, VerifyError};
use aether_core::id::RunId;
use aether_core::journal::event::Event;
use aether_core::payload::Payload;
use aether_core::run::Fault;
use aether_core::store::Store;
use aether_core::workflow::Workflow;

use crate::sim::dispatch::dispatcher::StubDispatcher;
use crate::sim::processes::doubts::journal_of;
use crate::sim::processes::engine::{replaying, runtime};
use crate::sim::processes::simulate::{arm, simulate};
use crate::sim::report::divergence::{Comparison, described, end_of, sides};
use crate::sim::report::error::SimError;
use crate::sim::report::journal::journal_text;
use crate::sim::report::reordered::{order_line, reordered};
use crate::sim::report::sim_report::SimReport;
use crate::sim::settings::Settings;
use crate::sim::sweep::contrary_log::listen_contrary;
use crate::sim::tape::Tape;
use crate::sim::world::SimEnvironment;
use crate::trap::watch::Skew;

/// How much later the second world is past the context: another year, month, day, hour, minute, second and fraction.
const AHEAD: Duration = Duration::new(397 * 24 * 3600 + 13 * 3600 + 37 * 60 + 11, 123_456_789);
/// How much later the engine's own clock is in the replay: less than a lease, so that nothing is claimed by another engine.
const LATER: Duration = Duration::from_secs(17 * 60 + 3);
/// Bytes allocated first in the second world, so that what comes next has another address.
const PADDING: usize = 72_921;

/// What the second world gets to see of the first run.
struct First<'a> {
    run: &'a RunId,
    store: &'a Arc<dyn Store>,
    events: &'a [Event],
    verified: &'a Option<Result<Verified, VerifyError>>,
    /// Every other run that has ended.
    others: &'a [(RunId, Result<Verified, VerifyError>)],
}

/// Runs in two worlds, one after the other; the threads of both live until the end.
pub(crate) fn check_twice<W: Workflow>(
    settings: &Settings,
    input: &Payload,
) -> Result<SimReport<W>, SimError> {
    let tape = Tape::default();
    let first_settings =
        Settings { crashes: Vec::new(), tape: Some(tape.recording()), skew: None, ..settings.clone() };
    let first = simulate::<W>(&first_settings, input)?;
    let skew = Some(Skew { ahead: AHEAD });
    let second_settings = Settings { tape: Some(tape.playing()), skew, ..first_settings };
    let SimReport { view, events, verified, others, .. } = &first.report;
    let seen = First { run: &view.run, store: &first.store, events, verified, others };
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
    let _listening = listen_contrary();
    let _padding = std::hint::black_box(vec![1_u8; PADDING]);
    let replayed = match first.verified {
        Some(Ok(_)) => {
            replay_elsewhere::<W>(settings, first)?.map_err(|error| (Comparison::ReplayElsewhere, error))
        }
        Some(Err(error)) => Err((Comparison::Replay, error.clone())),
        None => Ok(()),
    };
    let live = live_elsewhere::<W>(settings, input, first);
    let live = match live {
        Ok(()) => others_elsewhere::<W>(settings, first),
        live => live,
    };
    match (replayed, live) {
        (Ok(()), live) => live,
        // A replay knows that the results differ; the second run knows how.
        (Err((_, error)), Err(SimError::Nondeterministic { first, second, .. }))
            if is_other_result(&error) =>
        {
            Err(SimError::Nondeterministic { between: Comparison::SecondRun, first, second })
        }
        // A replay has the digests of arguments; the second run has the arguments.
        (Err((between, error)), live) => Err(diverged(between, first.events, &error, &order_of(&live))),
    }
}

/// Replays the first run's journal here. The outer error is that of the simulation.
fn replay_elsewhere<W: Workflow>(
    settings: &Settings,
    first: &First<'_>,
) -> Result<Result<(), VerifyError>, SimError> {
    let dispatcher = Arc::new(StubDispatcher::new(settings));
    let _armed = arm(settings, &dispatcher);
    let at = settings.at.saturating_add(LATER).unwrap_or(settings.at);
    runtime()?.block_on(async {
        let world = SimEnvironment::new(at, settings.seed.wrapping_add(1));
        let engine = replaying::<W>(settings, world, Arc::clone(first.store), dispatcher).await?;
        let verified = engine.verify(first.run).await;
        Ok(verified.map(|_verified| ()))
    })
}

/// Replays here what the other runs of the first world have recorded: children, and what the test started.
fn others_elsewhere<W: Workflow>(settings: &Settings, first: &First<'_>) -> Result<(), SimError> {
    if first.others.is_empty() {
        return Ok(());
    }
    let dispatcher = Arc::new(StubDispatcher::new(settings));
    let _armed = arm(settings, &dispatcher);
    let at = settings.at.saturating_add(LATER).unwrap_or(settings.at);
    runtime()?.block_on(async {
        let world = SimEnvironment::new(at, settings.seed.wrapping_add(1));
        let engine = replaying::<W>(settings, world, Arc::clone(first.store), dispatcher).await?;
        for (run, verified) in first.others {
            let (comparison, error) = match verified {
                Err(error) => (Comparison::Replay, error.clone()),
                Ok(_) => match engine.verify(run).await {
                    Err(error) => (Comparison::ReplayElsewhere, error),
                    Ok(_) => continue,
                },
            };
            let events = journal_of(&**first.store, run).await?;
            return Err(diverged(comparison, &events, &error, &format!("\n  of run `{run}`")));
        }
        Ok(())
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
    let (first, second) = (described(first.events, same), described(&second.events, same));
    let order = reordered(&first, &second);
    Err(between(Comparison::SecondRun, first, second + &order))
}

/// The line about an order that a second run ends with, if it does.
fn order_of(live: &Result<(), SimError>) -> String {
    match live {
        Err(SimError::Nondeterministic { second, .. }) => order_line(second).to_owned(),
        _ => String::new(),
    }
}

fn between(between: Comparison, first: String, second: String) -> SimError {
    SimError::Nondeterministic { between, first, second }
}

fn is_other_result(error: &VerifyError) -> bool {
    matches!(error, VerifyError::Fault(Fault::Diverged(divergence))
        if divergence.recorded.is_none() && divergence.requested.is_none())
}

/// A replay that does not fit its journal.
fn diverged(comparison: Comparison, events: &[Event], error: &VerifyError, order: &str) -> SimError {
    let (first, second) = sides(events, error);
    between(comparison, first, second + order)
}
