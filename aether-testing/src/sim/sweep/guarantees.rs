//! What must hold of every run, and what must be the same after a crash or a fault of the store.
//!
//! Promise: a disturbance changes no result, except that a world-changing call whose intent was durable and whose
//! outcome was not is in doubt; and no body of such a call is called twice under one key, unless its policy is `retry`.

use std::collections::{BTreeMap, BTreeSet};

use aether_core::definition::def::{OnUnknown, StepOptions};
use aether_core::id::{CommandId, RunId};
use aether_core::journal::event::Event;
use aether_core::workflow::Workflow;

use super::canonical::{canonical_args, canonical_result};
use super::races::races;
use crate::sim::processes::doubts::Doubt;
use crate::sim::processes::simulate::Simulated;
use crate::sim::report::sim_report::SimReport;

/// What must hold without any crash.
pub(super) fn undisturbed<W: Workflow>(reference: &Simulated<W>) -> Result<(), String> {
    if let Some(broken) = &reference.broken {
        return Err(broken.clone());
    }
    called_once(&reference.report)?;
    replays(&reference.report)
}

/// What a disturbance must bring about, and what it may.
#[derive(Clone, Copy)]
pub(super) struct Disturbance {
    /// The process dies of it.
    pub(super) must_die: bool,
    /// Streams may be given up: the store does not take what is sent.
    pub(super) may_lose_streams: bool,
}

/// Holds a disturbed run against the undisturbed one.
pub(super) fn check<W: Workflow>(
    reference: &Simulated<W>,
    crashed: &Simulated<W>,
    disturbance: Disturbance,
) -> Result<(), String> {
    let Disturbance { must_die, may_lose_streams } = disturbance;
    let report = &crashed.report;
    if must_die && report.crashes == 0 {
        return Err("the process did not die: the run has fewer boundaries than without a crash".into());
    }
    if let Some(broken) = &crashed.broken {
        return Err(broken.clone());
    }
    called_once(report)?;
    replays(report)?;
    let expected = must_stay(&reference.report, crashed);
    if let Some(doubt) = expected.iter().find(|doubt| !crashed.doubts.contains(doubt)) {
        return Err(format!(
            "{} was started and its outcome was lost, yet it is not in doubt",
            described(doubt)
        ));
    }
    let unexpected = |doubt: &&Doubt| !crashed.left.contains(doubt) && !reference.doubts.contains(doubt);
    if let Some(doubt) = crashed.doubts.iter().find(unexpected) {
        return Err(format!("{} is in doubt, though the crash did not cut it off", described(doubt)));
    }
    if !expected.is_empty() || failed_again(&reference.report, crashed) {
        return Ok(());
    }
    same(&reference.report, report)?;
    if may_lose_streams { Ok(()) } else { same_texts(reference, crashed) }
}

/// Every text that a model told a stream is there again. Branches of a race are left out.
fn same_texts<W: Workflow>(reference: &Simulated<W>, crashed: &Simulated<W>) -> Result<(), String> {
    let races = races(&reference.report.events);
    let raced = |run: &RunId, command: &CommandId| {
        *run != reference.report.view.run || races.iter().any(|(race, _)| command.is_within(race))
    };
    for (told, expected) in &reference.model_texts {
        let ((run, stream), command) = told;
        let found = crashed.model_texts.get(told);
        if found != Some(expected) && !raced(run, command) {
            return Err(format!(
                "`{command}` told stream `{stream}` {found:?}; without the crash it is {expected:?}"
            ));
        }
    }
    Ok(())
}

pub(super) fn replays<W: Workflow>(report: &SimReport<W>) -> Result<(), String> {
    if let Some(illegal) = report.view.illegal.first() {
        return Err(format!("the journal holds an illegal move: {illegal}"));
    }
    if let Some(Err(error)) = &report.verified {
        return Err(format!("the journal does not replay: {error}"));
    }
    for (run, verified) in &report.others {
        if let Err(error) = verified {
            return Err(format!("the journal of run `{run}` does not replay: {error}"));
        }
    }
    Ok(())
}

/// The invocations whose policy leaves them in doubt; how a step is executed is known from the run without a crash. One whose
/// outcome was reported before another process had taken the run over is settled.
pub(super) fn must_stay<'a, W: Workflow>(
    reference: &SimReport<W>,
    crashed: &'a Simulated<W>,
) -> BTreeSet<&'a Doubt> {
    let executed: BTreeMap<(&RunId, &CommandId), &StepOptions> =
        reference.log.iter().map(|call| ((&call.run, &call.command), &call.options)).collect();
    let fails = |doubt: &&Doubt| {
        let options = executed.get(&(&doubt.run, &doubt.command));
        options.is_some_and(|options| options.on_unknown == OnUnknown::Fail)
    };
    let is_reported = |doubt: &&Doubt| {
        let of =
            |event: &Event| matches!(event, Event::CallbackReceived(e) if e.invocation == doubt.invocation);
        crashed.events_of(&doubt.run).iter().any(of)
    };
    crashed.left.iter().filter(fails).filter(|doubt| !is_reported(doubt)).collect()
}

/// Whether a call that was cut off and made again is in doubt: what it fails with then says nothing about the call before.
fn failed_again<W: Workflow>(reference: &SimReport<W>, crashed: &Simulated<W>) -> bool {
    let made_again = reference.log.iter().filter(|call| call.options.on_unknown == OnUnknown::Retry);
    let made_again: BTreeSet<_> = made_again.map(|call| (&call.run, &call.command)).collect();
    let in_doubt = |doubt: &Doubt| made_again.contains(&(&doubt.run, &doubt.command));
    crashed.doubts.intersection(&crashed.left).any(in_doubt)
}

pub(super) fn described(doubt: &Doubt) -> String {
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

pub(super) fn same<W: Workflow>(reference: &SimReport<W>, crashed: &SimReport<W>) -> Result<(), String> {
    let (expected, found) = (end(reference), end(crashed));
    if expected != found {
        return Err(format!("the run is {found}; without the crash it is {expected}"));
    }
    same_commands(&reference.events, &commands(reference), &commands(crashed))
}

/// How a run ended.
pub(super) fn end<W: Workflow>(report: &SimReport<W>) -> String {
    format!("{} with {:?}", report.view.status, canonical_result(report.view.result.as_ref()))
}

/// What a journal says about each command, without what a crash may leave in it: which process resumed the run, how often an
/// attempt was made, what was decided about it, and when.
pub(super) fn commands<W: Workflow>(report: &SimReport<W>) -> BTreeMap<CommandId, String> {
    let steps = report.view.steps.iter();
    steps
        .map(|step| {
            let line = format!(
                "{} {} {:?} with {:?}: {:?}",
                step.class,
                step.status,
                step.outcome,
                step.input.as_ref().map(|input| canonical_args(&step.command, input)),
                canonical_result(step.result.as_ref())
            );
            (step.command.clone(), line)
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
    let races = races(events);
    let raced = |command: &CommandId| races.iter().any(|(race, _)| command.is_within(race));
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
