//! Crashes at every write: what must be the same afterwards, and what may be in doubt.
//!
//! Promise: a process that dies changes no result, except that a world-changing call whose intent was durable and
//! whose outcome was not is in doubt; and no body of such a call is called twice under one key.

use std::collections::{BTreeMap, BTreeSet};

use aether_core::def::{OnUnknown, StepOptions};
use aether_core::id::{CommandId, RunId};
use aether_core::payload::Payload;
use aether_core::step::Workflow;

use super::life::{Doubt, Simulated, simulate};
use super::{Settings, SimError, SimReport};
use crate::crash::CrashPoint;

/// What crashing at every write showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrashReport {
    /// Writes of the run without a crash; it was crashed twice at each.
    pub writes: u64,
    /// Its writes to the effect store; it was crashed twice at each of them too.
    pub effects: u64,
    /// Crash points after which the run had its usual result.
    pub same: Vec<CrashPoint>,
    /// Crash points after which a call was in doubt.
    pub in_doubt: Vec<CrashPoint>,
}

/// Runs once without a crash, and then twice for each of its writes.
pub(super) fn at_every_write<W: Workflow>(
    settings: &Settings,
    input: &Payload,
) -> Result<CrashReport, SimError> {
    let settings = Settings { crashes: Vec::new(), ..settings.clone() };
    let reference = simulate::<W>(&settings, input)?;
    let (writes, effects) = (reference.report.writes, reference.report.effects);
    let mut report = CrashReport { writes, effects, same: Vec::new(), in_doubt: Vec::new() };
    let writes = (1..=writes).flat_map(|write| [CrashPoint::Before(write), CrashPoint::After(write)]);
    let effects =
        (1..=effects).flat_map(|write| [CrashPoint::BeforeEffect(write), CrashPoint::AfterEffect(write)]);
    for point in writes.chain(effects) {
        let settings = Settings { crashes: vec![point], ..settings.clone() };
        let crashed = simulate::<W>(&settings, input).map_err(|error| SimError::Crash {
            point,
            broken: error.to_string(),
            reproduce: reproduce::<W>(&settings, point),
            journal: String::from("  (none)"),
        })?;
        check(&reference, &crashed).map_err(|broken| SimError::Crash {
            point,
            broken,
            reproduce: reproduce::<W>(&settings, point),
            journal: crashed.report.journal(),
        })?;
        let points = if crashed.left.is_empty() { &mut report.same } else { &mut report.in_doubt };
        points.push(point);
    }
    Ok(report)
}

fn reproduce<W: Workflow>(settings: &Settings, point: CrashPoint) -> String {
    let Settings { at, seed, .. } = settings;
    format!(
        "Sim::new::<{}>() with the same stubs, `.at(\"{at}\".parse()?).seed({seed}).crash(CrashPoint::{point:?}).run(input)`",
        W::DEF.name
    )
}

fn check<W: Workflow>(reference: &Simulated<W>, crashed: &Simulated<W>) -> Result<(), String> {
    let report = &crashed.report;
    if report.crashes == 0 {
        return Err("the process did not die: the run made fewer writes than without a crash".into());
    }
    called_once(report)?;
    if let Some(illegal) = report.view.illegal.first() {
        return Err(format!("the journal holds an illegal move: {illegal}"));
    }
    if let Some(Err(error)) = &report.verified {
        return Err(format!("the journal does not replay: {error}"));
    }
    let expected = must_stay(&reference.report, &crashed.left);
    if let Some(doubt) = expected.iter().find(|doubt| !crashed.doubts.contains(doubt)) {
        return Err(format!("{} was started and its outcome was lost, yet it is not in doubt", told(doubt)));
    }
    let unexpected = |doubt: &&Doubt| !crashed.left.contains(doubt) && !reference.doubts.contains(doubt);
    if let Some(doubt) = crashed.doubts.iter().find(unexpected) {
        return Err(format!("{} is in doubt, though the crash did not cut it off", told(doubt)));
    }
    if expected.is_empty() { same_result(&reference.report, report) } else { Ok(()) }
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

fn called_once<W: Workflow>(report: &SimReport<W>) -> Result<(), String> {
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

fn same_result<W: Workflow>(reference: &SimReport<W>, crashed: &SimReport<W>) -> Result<(), String> {
    let told = |report: &SimReport<W>| format!("{} with {:?}", report.view.status, report.view.result);
    let (expected, found) = (told(reference), told(crashed));
    if expected == found {
        return Ok(());
    }
    Err(format!("the run is {found}; without the crash it is {expected}"))
}
