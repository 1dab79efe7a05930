//! Crashes at every boundary: what must be the same afterwards, and what may be in doubt.
//!
//! Promise: a process that dies changes no result, except that a world-changing call whose intent was durable and
//! whose outcome was not is in doubt; and no body of such a call is called twice under one key, unless its policy is
//! to be sent again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use aether_core::def::{OnUnknown, StepOptions};
use aether_core::event::Event;
use aether_core::id::{CommandId, RunId};
use aether_core::payload::Payload;
use aether_core::step::Workflow;

use super::journal::journal_text;
use super::life::{Doubt, Simulated, simulate};
use super::{Settings, SimError, SimReport, boundaries};
use crate::crash::{Boundary, CrashPoint};

/// Environment variable with the id of the one boundary to crash at.
pub(super) const ONLY: &str = "AETHER_CRASH_AT";

/// What crashing at every boundary showed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CrashReport {
    /// Writes of the run without a crash.
    pub writes: u64,
    /// Its writes to the effect store.
    pub effects: u64,
    /// Every boundary of the run without a crash, in order.
    pub boundaries: Vec<Boundary>,
    /// Crash points after which the run had its usual result.
    pub same: Vec<CrashPoint>,
    /// Crash points after which a call was in doubt.
    pub in_doubt: Vec<CrashPoint>,
    /// Commands whose arguments were altered in a copy of the journal, which the replay then refused.
    pub digests: u64,
}

impl CrashReport {
    /// Number of boundaries at which it was crashed.
    pub fn crashes(&self) -> usize {
        self.same.len() + self.in_doubt.len()
    }
}

impl fmt::Display for CrashReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unwinding = self.boundaries.iter().filter(|boundary| boundary.unwinding).count();
        write!(
            f,
            "{} crashes ({unwinding} in an unwinding): {} with the same result, {} in doubt",
            self.crashes(),
            self.same.len(),
            self.in_doubt.len()
        )
    }
}

/// Runs once without a crash, and then once for each of its boundaries. `test` is the name of the test that asks.
pub(super) fn at_every_boundary<W: Workflow>(
    settings: &Settings,
    input: &Payload,
    test: &str,
) -> Result<CrashReport, SimError> {
    let only = boundaries::only(ONLY)?;
    let draws = settings.draws.clone().unwrap_or_default();
    let settings = Settings { crashes: Vec::new(), draws: Some(draws), ..settings.clone() };
    let reference = simulate::<W>(&settings, input)?;
    undisturbed(&reference).map_err(|broken| SimError::Undisturbed {
        broken,
        reproduce: format!("cargo test {test}"),
        journal: reference.report.journal(),
    })?;
    let digests = boundaries::refuse_other_arguments::<W>(&settings, &reference, test)?;
    let (writes, effects) = (reference.report.writes, reference.report.effects);
    let boundaries = reference.boundaries.clone();
    let (same, in_doubt) = (Vec::new(), Vec::new());
    let mut report = CrashReport { writes, effects, boundaries, same, in_doubt, digests };
    for boundary in &reference.boundaries {
        let point = boundary.point;
        if only.is_some_and(|only| only != point) {
            continue;
        }
        let settings = Settings { crashes: vec![point], ..settings.clone() };
        let crash = |broken: String, journal: String| SimError::Crash {
            point,
            what: boundary.what.clone(),
            broken,
            reproduce: format!("{ONLY}={} cargo test {test}", point.id()),
            journal,
        };
        let crashed =
            simulate::<W>(&settings, input).map_err(|error| crash(error.to_string(), "  (none)".into()))?;
        if only.is_some() {
            tell(boundary, &crashed);
        }
        check(&reference, &crashed, true).map_err(|broken| crash(broken, crashed.report.journal()))?;
        let points = if crashed.left.is_empty() { &mut report.same } else { &mut report.in_doubt };
        points.push(point);
    }
    if let (Some(only), 0) = (only, report.crashes()) {
        println!("{ONLY}: the run of `{}` has no boundary {}", W::DEF.name, only.id());
    }
    Ok(report)
}

/// Shows one crash: the journal it left, and the journal in the end.
fn tell<W: Workflow>(boundary: &Boundary, crashed: &Simulated<W>) {
    let Boundary { point, what, .. } = boundary;
    let before = crashed.before.as_deref().map(journal_text).unwrap_or_default();
    let after = crashed.report.journal();
    println!("`{}` up to the crash:\n{before}\n-- crash {point} ({what}) --\n", W::DEF.name);
    println!("and after the restart:\n{after}\nended: {:?}", crashed.report.view.status);
}

/// What must hold without any crash.
pub(super) fn undisturbed<W: Workflow>(reference: &Simulated<W>) -> Result<(), String> {
    if let Some(broken) = &reference.broken {
        return Err(broken.clone());
    }
    called_once(&reference.report)?;
    replays(&reference.report)
}

/// Holds a disturbed run against the undisturbed one.
pub(super) fn check<W: Workflow>(
    reference: &Simulated<W>,
    crashed: &Simulated<W>,
    must_die: bool,
) -> Result<(), String> {
    let report = &crashed.report;
    if must_die && report.crashes == 0 {
        return Err("the process did not die: the run has fewer boundaries than without a crash".into());
    }
    if let Some(broken) = &crashed.broken {
        return Err(broken.clone());
    }
    called_once(report)?;
    replays(report)?;
    let expected = must_stay(&reference.report, &crashed.left);
    if let Some(doubt) = expected.iter().find(|doubt| !crashed.doubts.contains(doubt)) {
        return Err(format!("{} was started and its outcome was lost, yet it is not in doubt", told(doubt)));
    }
    let unexpected = |doubt: &&Doubt| !crashed.left.contains(doubt) && !reference.doubts.contains(doubt);
    if let Some(doubt) = crashed.doubts.iter().find(unexpected) {
        return Err(format!("{} is in doubt, though the crash did not cut it off", told(doubt)));
    }
    if expected.is_empty() { same(&reference.report, report) } else { Ok(()) }
}

fn replays<W: Workflow>(report: &SimReport<W>) -> Result<(), String> {
    if let Some(illegal) = report.view.illegal.first() {
        return Err(format!("the journal holds an illegal move: {illegal}"));
    }
    match &report.verified {
        Some(Err(error)) => Err(format!("the journal does not replay: {error}")),
        _ => Ok(()),
    }
}

/// The invocations whose policy leaves them in doubt; how a step is executed is known from the run without a crash.
fn must_stay<'a, W: Workflow>(reference: &SimReport<W>, left: &'a BTreeSet<Doubt>) -> BTreeSet<&'a Doubt> {
    let executed: BTreeMap<(&RunId, &CommandId), &StepOptions> =
        reference.log.iter().map(|call| ((&call.run, &call.command), &call.options)).collect();
    let fails = |doubt: &&Doubt| {
        let options = executed.get(&(&doubt.run, &doubt.command));
        options.is_some_and(|options| options.on_unknown == OnUnknown::Fail)
    };
    left.iter().filter(fails).collect()
}

fn told(doubt: &Doubt) -> String {
    format!("invocation `{}` of run `{}`", doubt.invocation.as_str(), doubt.run)
}

pub(super) fn called_once<W: Workflow>(report: &SimReport<W>) -> Result<(), String> {
    let mut calls: BTreeMap<_, usize> = BTreeMap::new();
    for call in &report.log {
        if call.options.class.changes_world() && call.options.on_unknown != OnUnknown::Retry {
            *calls.entry(&call.key).or_default() += 1;
        }
    }
    match calls.into_iter().find(|(_, times)| *times > 1) {
        Some((key, times)) => Err(format!("the body of `{key}` was called {times} times")),
        None => Ok(()),
    }
}

fn same<W: Workflow>(reference: &SimReport<W>, crashed: &SimReport<W>) -> Result<(), String> {
    let told = |report: &SimReport<W>| format!("{} with {:?}", report.view.status, report.view.result);
    let (expected, found) = (told(reference), told(crashed));
    if expected != found {
        return Err(format!("the run is {found}; without the crash it is {expected}"));
    }
    same_commands(&reference.events, &commands(reference), &commands(crashed))
}

/// What a journal says about each command, without what a crash may leave in it: who took the run up, how often an
/// attempt was made, what was decided about it, and when.
pub(super) fn commands<W: Workflow>(report: &SimReport<W>) -> BTreeMap<CommandId, String> {
    let steps = report.view.steps.iter();
    steps
        .map(|step| {
            let said = format!(
                "{} {} {:?} with {:?}: {:?}",
                step.class, step.status, step.outcome, step.input, step.result
            );
            (step.command.clone(), said)
        })
        .collect()
}

/// Compares what two journals of a run say about its commands. Branches of a race are left out: how far a loser comes is
/// a matter of time.
fn same_commands(
    events: &[Event],
    expected: &BTreeMap<CommandId, String>,
    found: &BTreeMap<CommandId, String>,
) -> Result<(), String> {
    let races: BTreeSet<&CommandId> = events
        .iter()
        .filter_map(|event| match event {
            Event::RaceDecided(decided) => Some(&decided.command),
            _ => None,
        })
        .collect();
    let raced = |command: &CommandId| races.iter().any(|race| command.is_within(race.place()));
    for (command, expected) in expected.iter().filter(|(command, _)| !raced(command)) {
        match found.get(command) {
            Some(found) if found == expected => {}
            Some(found) => return Err(format!("`{command}` is {found}; without the crash it is {expected}")),
            None => return Err(format!("`{command}` is missing; without the crash it is {expected}")),
        }
    }
    match found.keys().find(|command| !raced(command) && !expected.contains_key(*command)) {
        Some(command) => Err(format!("`{command}` is there, and is not without the crash")),
        None => Ok(()),
    }
}
