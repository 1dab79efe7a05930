//! What must hold of every schedule.
//!
//! Promise: a rule looks at what the run recorded and at what callers were told, never at how the schedule was made.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use aether_core::definition::def::StepOptions;
use aether_core::id::{CommandId, RunId};
use aether_core::journal::event::Event;
use aether_core::outcome::EffectClass;
use aether_core::workflow::Workflow;

use super::guarantees::{called_once, described, must_stay, replays, same};
use super::order_outcome::{Order, OrderOutcome};
use super::races::{is_lost, races};
use super::schedule_failure::ScheduleFailure;
use crate::sim::processes::doubts::Doubt;
use crate::sim::processes::simulate::Simulated;
use crate::sim::report::sim_report::SimReport;

/// What must hold of a schedule by itself, which holds things for so long. `reference` is the plain simulation.
pub(super) fn keeps_rules<W: Workflow>(
    reference: &Simulated<W>,
    run: &Simulated<W>,
    held: Duration,
) -> Result<(), (&'static str, String)> {
    if let Some(broken) = &run.broken {
        return Err(("store", broken.clone()));
    }
    called_once(&run.report).map_err(|broken| ("calls", broken))?;
    replays(&run.report).map_err(|broken| ("replay", broken))?;
    doubts_are_due(reference, run, held).map_err(|broken| ("doubt", broken))
}

/// In doubt is only what a crash cut off, what is in doubt in a plain simulation, and what its run itself dropped: at a
/// time limit, as the loser of a race, or when it was cancelled. Other runs than the simulated one are judged once they have
/// ended.
fn doubts_are_due<W: Workflow>(
    reference: &Simulated<W>,
    run: &Simulated<W>,
    held: Duration,
) -> Result<(), String> {
    let report = &run.report;
    let lost = must_stay(report, run).into_iter().find(|doubt| !run.doubts.contains(*doubt));
    if let Some(doubt) = lost
        && !is_dropped(run, doubt, held)
    {
        return Err(format!(
            "{} was started and its outcome was lost, yet it is not in doubt",
            described(doubt)
        ));
    }
    let due = |doubt: &&Doubt| {
        run.left.contains(*doubt) || reference.doubts.contains(*doubt) || is_dropped(run, doubt, held)
    };
    match run.doubts.iter().find(|doubt| !due(doubt)) {
        Some(doubt) => Err(format!("{} is in doubt, though no crash cut it off", described(doubt))),
        None => Ok(()),
    }
}

fn is_dropped<W: Workflow>(run: &Simulated<W>, doubt: &Doubt, held: Duration) -> bool {
    let (report, events) = (&run.report, run.events_of(&doubt.run));
    let limited: BTreeMap<(&RunId, &CommandId), &StepOptions> =
        report.log.iter().map(|call| ((&call.run, &call.command), &call.options)).collect();
    let has_limit = limited
        .get(&(&doubt.run, &doubt.command))
        .is_some_and(|options| options.timeout.is_some_and(|limit| held >= limit));
    let goes_on = doubt.run != report.view.run && !report.others.iter().any(|(ended, _)| *ended == doubt.run);
    has_limit
        || goes_on
        || is_cancelled(report)
        || was_cancelled(events)
        || is_lost(&races(events), &doubt.command)
}

pub(super) fn is_cancelled<W: Workflow>(report: &SimReport<W>) -> bool {
    was_cancelled(&report.events)
}

fn was_cancelled(events: &[Event]) -> bool {
    events.iter().any(|event| matches!(event, Event::RunCancelled(_) | Event::RunTerminated(_)))
}

/// In which way a run's races, waits and cancels came out. Runs in which they came out alike must have one result.
pub(super) fn way<W: Workflow>(report: &SimReport<W>) -> String {
    let waits = report.view.steps.iter().filter(|step| step.class == EffectClass::Human);
    // By command: in which order they were begun is no outcome.
    let waits: BTreeSet<String> = waits.map(|step| format!("{} {:?}", step.command, step.outcome)).collect();
    let ended = if is_cancelled(report) { "cancelled" } else { "" };
    format!("{ended} {:?} {waits:?}", races(&report.events))
}

/// The first schedule in which a run came out in one way, and what it did.
pub(super) struct First<W: Workflow> {
    pub(super) run: Simulated<W>,
    outcome: OrderOutcome,
}

impl<W: Workflow> First<W> {
    pub(super) fn of(run: Simulated<W>) -> Self {
        Self { outcome: OrderOutcome::of(Order::default(), &run.report), run }
    }

    /// The first thing that is different in a run that came out alike. What a crash left in doubt may be.
    pub(super) fn difference(&self, other: &Simulated<W>) -> Option<String> {
        if [&self.run, other].into_iter().any(|run| !run.doubts.is_empty() || is_cancelled(&run.report)) {
            return None;
        }
        if self.run.report.crashes > 0 || other.report.crashes > 0 {
            return same(&self.run.report, &other.report).err();
        }
        self.outcome.difference(&OrderOutcome::of(Order::default(), &other.report))
    }
}

/// A failure with the journal in which it is seen.
pub(super) fn failure<W: Workflow>(
    (rule, broken): (&'static str, String),
    run: &Simulated<W>,
) -> ScheduleFailure {
    ScheduleFailure { rule, broken, journal: run.report.journal() }
}
