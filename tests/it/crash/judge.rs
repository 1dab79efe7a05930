//! Holds what the lives of a program left against what it must do.

use std::collections::{BTreeMap, BTreeSet};

use aether::definition::OnUnknown;
use aether::effect::Outcome;
use aether::id::{CommandId, RunId};
use aether::store::event::{Event, InvocationDecision};
use aether::store::ledger::LedgerStatus;
use aether::view::RunView;
use aether::view::Status;

use super::lives::{Invoked, Lived};
use super::model::{Expected, Facts, Prediction, UNCALLED, predict};
use super::program::{Block, Call, Class, Ending, Word};
use super::steps::Kind;
use crate::view_pages::held_against_pages;

type Verdict<T = ()> = Result<T, String>;

/// What was found about the lives of one program.
pub(crate) struct Judged {
    pub(crate) facts: Facts,
    prediction: Prediction,
}

/// Holds the lives of a program, executed as `run`, against the model.
pub(crate) fn judge(run: &str, block: &Block, lived: &Lived) -> Verdict<Judged> {
    let facts = Facts::of(lived);
    let prediction = predict(run, block, &facts);
    if let Some(gap) = prediction.gaps.first() {
        return Err(gap.clone());
    }
    if let Some(fault) = lived.faults.first() {
        return Err(fault.clone());
    }
    if prediction.result.as_ref() != Some(&lived.result) {
        return Err(format!("the result is {:?}, not {:?}", lived.result, prediction.result));
    }
    decisions(lived, &facts, &prediction)?;
    deeds(lived, &prediction)?;
    for run in &prediction.runs {
        folded(run, lived, &prediction)?;
    }
    rows(lived, &facts, &prediction)?;
    for (run, events) in &lived.journals {
        unwound(run, events)?;
        called_off(run, events, lived)?;
    }
    Ok(Judged { facts, prediction })
}

/// Holds a crashed program against the undisturbed one. Returns whether they can be compared: not where another branch
/// won, another number was drawn, or a lost outcome changed what followed.
pub(crate) fn agree(undisturbed: (&Lived, &Judged), crashed: (&Lived, &Judged)) -> Verdict<bool> {
    let lost = |judged: &Judged| -> BTreeSet<Invoked> {
        let lost = |decision: &InvocationDecision| {
            matches!(decision, InvocationDecision::DidNotHappen | InvocationDecision::InDoubt)
        };
        let decided = judged.facts.decisions.iter().filter(|(_, decided)| decided.iter().any(lost));
        decided.map(|(invoked, _)| invoked.clone()).collect()
    };
    if undisturbed.1.prediction != crashed.1.prediction || lost(undisturbed.1) != lost(crashed.1) {
        return Ok(false);
    }
    for run in &crashed.1.prediction.runs {
        let events =
            |lived: &Lived, judged: &Judged| canonical(run, &lived.journals[run], &judged.prediction);
        let (expected, found) = (events(undisturbed.0, undisturbed.1), events(crashed.0, crashed.1));
        let commands: BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
        for command in commands {
            let (expected, found) = (expected.get(command), found.get(command));
            if expected != found {
                return Err(format!("{run} tells of {command}:\n{found:#?}\nnot\n{expected:#?}"));
            }
        }
    }
    Ok(true)
}

fn is_lost(run: &str, command: &CommandId, prediction: &Prediction) -> bool {
    // What undoes a step of a branch that lost is the branch's, too.
    let command = command.as_str().strip_prefix("undo.").unwrap_or(command.as_str());
    let command = CommandId::from(command.to_owned());
    prediction.lost.iter().any(|(lost, scope)| lost == run && command.is_within(scope))
}

/// The events of each command, without what tells when, by whom and how often it was asked.
fn canonical(run: &str, events: &[Event], prediction: &Prediction) -> BTreeMap<String, Vec<String>> {
    let mut commands: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for event in events {
        let Some(command) = event.command().filter(|command| !is_lost(run, command, prediction)) else {
            continue;
        };
        let mut event = event.clone();
        match &mut event {
            Event::InvocationResolved(_) | Event::StateConfirmed(_) => continue,
            Event::CommandCommitted(e) => e.caught_up = false,
            Event::ToolInvocationFinished(e) => e.caught_up = false,
            _ => {}
        }
        let mut event = serde_json::to_value(&event).unwrap();
        for fields in event.as_object_mut().unwrap().values_mut().filter_map(|fields| fields.as_object_mut())
        {
            fields.remove("due");
            fields.remove("spent_ms");
            // Why it is in doubt depends on who noticed.
            if let Some(failure) = fields.get_mut("error").and_then(|error| error.get_mut("in_doubt")) {
                *failure = serde_json::Value::Null;
            }
            if matches!(command.name(), "now" | "uuid" | "random") {
                fields.remove("value");
            }
        }
        let (told, events) = (event.to_string(), commands.entry(command.to_string()).or_default());
        // A question to a model whose answer was lost is asked again.
        if !(told.contains("command_emitted") && events.contains(&told)) {
            events.push(told);
        }
    }
    commands
}

/// Every decision has a reason and is the policy's; every invocation that was cut off is decided.
fn decisions(lived: &Lived, facts: &Facts, prediction: &Prediction) -> Verdict {
    let calls = calls(lived);
    for (invoked, decided) in &facts.decisions {
        let (run, invocation) = invoked;
        let (command, attempt) = invocation.rsplit_once('#').unwrap();
        let Some(call) = calls.get(&(run.clone(), command.to_owned())) else {
            return Err(format!("a decision about {invoked:?}, which was never called"));
        };
        let Some(call) = call.agreed() else {
            return Err(format!("a decision about {invoked:?}, to which nobody agreed"));
        };
        let scripted =
            matches!(call.ending(attempt.parse().unwrap()), Ending::Unknown { .. } | Ending::Hang { .. });
        if !scripted && !lived.cut.contains(invoked) {
            return Err(format!("{invoked:?} was never in doubt, and decided: {decided:?}"));
        }
        let happened = changes(lived, run, invocation) > 0;
        let policy = call.kind.on_unknown();
        let allowed = |decision: &InvocationDecision| match (policy, decision) {
            (OnUnknown::Fail, decision) => *decision == InvocationDecision::InDoubt,
            (OnUnknown::Retry, InvocationDecision::InDoubt) => sent_in_vain(lived, &call, run, invocation),
            (OnUnknown::Retry, decision) => *decision == InvocationDecision::Retry,
            (OnUnknown::Ask, InvocationDecision::Ask) => true,
            (OnUnknown::Ask | OnUnknown::Probe, InvocationDecision::Happened) => {
                happened && call.word == Word::Truth
            }
            (OnUnknown::Ask | OnUnknown::Probe, InvocationDecision::DidNotHappen) => {
                !happened && call.word == Word::Truth
            }
            (OnUnknown::Ask | OnUnknown::Probe, InvocationDecision::InDoubt) => call.word != Word::Truth,
            (OnUnknown::Ask | OnUnknown::Probe, _) => false,
        };
        if let Some(wrong) = decided.iter().find(|decision| !allowed(decision)) {
            return Err(format!(
                "{invoked:?} of policy {policy:?} (happened: {happened}) was decided as {wrong:?}"
            ));
        }
    }
    for invoked in &lived.cut {
        let (command, _) = invoked.1.rsplit_once('#').unwrap();
        let expected = prediction.commands.contains_key(&(invoked.0.clone(), command.to_owned()));
        if expected && !facts.decisions.contains_key(invoked) {
            return Err(format!("{invoked:?} was cut off, and nothing was decided about it"));
        }
    }
    Ok(())
}

/// Whether the last sending of an invocation failed for good.
fn sent_in_vain(lived: &Lived, call: &Call, run: &str, invocation: &str) -> bool {
    let (command, attempt) = invocation.rsplit_once('#').unwrap();
    let deeds = lived.deeds.get(&format!("aether:{run}:{command}:{attempt}"));
    deeds.is_some_and(|deeds| {
        let last = call.ending_of(attempt.parse().unwrap(), deeds.calls);
        matches!(last, Ending::Failure(Class::Permanent) | Ending::Panic)
    })
}

/// The arguments of every step, by run and command.
fn calls(lived: &Lived) -> BTreeMap<Invoked, Call> {
    let mut calls = BTreeMap::new();
    for (run, events) in &lived.journals {
        for event in events {
            if let Event::NodeStarted(e) = event
                && let Some(input) = &e.input
                && let Ok(input) = input.decode::<BTreeMap<String, serde_json::Value>>()
                && let Some(Ok(call)) = input.get("call").cloned().map(serde_json::from_value::<Call>)
            {
                // What undoes a call gets the arguments of what it undoes.
                let undoes = Kind::named(e.command.name()) == Some(Kind::Refund);
                let call = if undoes { call.undoing() } else { call };
                calls.insert((run.clone(), e.command.to_string()), call);
            }
        }
    }
    calls
}

/// How often an invocation changed the world.
fn changes(lived: &Lived, run: &str, invocation: &str) -> u32 {
    let (command, attempt) = invocation.rsplit_once('#').unwrap();
    lived.deeds.get(&format!("aether:{run}:{command}:{attempt}")).map_or(0, |deeds| deeds.changes)
}

/// No body that changes the world is called twice under one key unless its policy says so, no call changes it under
/// two keys, and a call changed it where its outcome says that it did.
fn deeds(lived: &Lived, prediction: &Prediction) -> Verdict {
    let mut changed: BTreeMap<&str, u32> = BTreeMap::new();
    for (key, deeds) in &lived.deeds {
        let (command, _attempt) = key.rsplit_once(':').unwrap();
        let kind = Kind::named(command.rsplit_once(':').unwrap().1).unwrap();
        if kind.changes_world()
            && kind.on_unknown() != OnUnknown::Retry
            && (deeds.calls > 1 || deeds.changes > 1)
        {
            return Err(format!("the body of `{key}` was called twice: {deeds:?}"));
        }
        *changed.entry(command).or_default() += u32::from(deeds.changes > 0);
    }
    if let Some((command, keys)) = changed.iter().find(|(_, keys)| **keys > 1) {
        return Err(format!("`{command}` changed the world under {keys} keys"));
    }
    for ((run, command), Expected { outcome, call }) in &prediction.commands {
        let Some((kind, _, told)) = call else { continue };
        if !kind.changes_world() && *kind != Kind::Booked {
            continue;
        }
        let found = changed.get(format!("aether:{run}:{command}").as_str()).copied().unwrap_or(0);
        let right = match outcome {
            Outcome::SideEffectCommitted => found == 1,
            Outcome::Compensated => found == u32::from(told.contains(" = ")),
            _ if told.ends_with("in doubt") => true,
            _ => found == 0,
        };
        if !right {
            return Err(format!("{run} {command} ({told}) changed the world {found} times"));
        }
    }
    Ok(())
}

/// The fold of a run's journal is what is expected of it.
fn folded(run: &str, lived: &Lived, prediction: &Prediction) -> Verdict {
    let Some(events) = lived.journals.get(run) else { return Err(format!("there is no run {run}")) };
    let view = RunView::fold(RunId::new(run).unwrap(), events.iter().cloned());
    held_against_pages(events).map_err(|wrong| format!("{run}, {wrong}"))?;
    let steps = view.steps.iter().filter(|step| !is_lost(run, &step.command, prediction));
    let found: BTreeMap<String, _> = steps.map(|step| (step.command.to_string(), step)).collect();
    let expected: BTreeMap<&String, &Expected> = prediction
        .commands
        .iter()
        .filter(|((of, _), _)| of == run)
        .map(|((_, command), e)| (command, e))
        .collect();
    if !found.keys().eq(expected.keys().copied()) {
        return Err(format!("{run} has the commands {:?}, not {:?}", found.keys(), expected.keys()));
    }
    let effects: Vec<&str> = view.effects.iter().map(|effect| effect.command.as_str()).collect();
    let distinct: BTreeSet<&str> = effects.iter().copied().collect();
    if distinct.len() != effects.len() {
        return Err(format!("{run} has an effect twice: {effects:?}"));
    }
    for (command, expected) in expected {
        let step = found[command];
        let told = expected.call.as_ref().map_or("", |(_, _, told)| told.as_str());
        let status = match expected.outcome {
            // It had failed half-way.
            Outcome::Compensated if !told.contains(" = ") => Status::Failed,
            outcome if outcome.is_complete() => Status::Completed,
            _ if told.ends_with("rejected") => Status::Rejected,
            _ => Status::Failed,
        };
        let (in_doubt, result) = (told.ends_with("in doubt"), step.result.as_ref());
        let value =
            result.and_then(|result| result.as_ref().ok()).and_then(|value| value.decode::<i64>().ok());
        let right_value =
            !told.contains(" = ") || value.is_some_and(|value| told.ends_with(&format!(" = {value}")));
        if step.outcome != Some(expected.outcome)
            || step.status != status
            || step.in_doubt != in_doubt
            || !right_value
        {
            return Err(format!("{run} {command} is {step:?}, and should be {expected:?}"));
        }
        if !distinct.contains(command.as_str()) {
            return Err(format!("{run} {command} is not among the effects {effects:?}"));
        }
    }
    Ok(())
}

/// No row of the ledger is left in flight, and each says what the journal says.
fn rows(lived: &Lived, facts: &Facts, prediction: &Prediction) -> Verdict {
    for row in &lived.ledger {
        let (run, command) = (row.run.to_string(), row.command.to_string());
        let Some(Expected { outcome, call: Some((_, attempt, told)) }) =
            prediction.commands.get(&(run.clone(), command.clone()))
        else {
            continue;
        };
        let last = row.invocation.as_str().ends_with(&format!("#{attempt}"));
        let decided = facts.decisions.get(&(run.clone(), row.invocation.to_string()));
        let sent_again = decided.is_some_and(|decided| decided.last() == Some(&InvocationDecision::Retry));
        let expected = match (last, outcome) {
            // More may have been done than the half.
            (true, Outcome::CompensatableFailure) if sent_again => LedgerStatus::InDoubt,
            (true, Outcome::SideEffectCommitted) if row.status == LedgerStatus::Confirmed => {
                LedgerStatus::Confirmed
            }
            (true, Outcome::SideEffectCommitted) => LedgerStatus::Succeeded,
            (true, Outcome::Compensated) if told.contains(" = ") => LedgerStatus::Succeeded,
            (true, _) if told.ends_with("in doubt") || told.ends_with("panicked") => LedgerStatus::InDoubt,
            _ => LedgerStatus::Failed,
        };
        if row.status != expected {
            return Err(format!(
                "the row of {run} {} ({told}) is {:?}, not {expected:?}",
                row.invocation, row.status
            ));
        }
    }
    Ok(())
}

/// No body was called of what was called off.
fn called_off(run: &str, events: &[Event], lived: &Lived) -> Verdict {
    for event in events {
        if let Event::InvocationResolved(e) = event
            && UNCALLED.contains(&e.actor.as_str())
        {
            let (command, attempt) = e.invocation.as_str().rsplit_once('#').unwrap();
            let deeds = lived.deeds.get(&format!("aether:{run}:{command}:{attempt}"));
            if e.decision != InvocationDecision::DidNotHappen || deeds.is_some() {
                return Err(format!("{run} called {} off ({:?}): {deeds:?}", e.invocation, e.decision));
            }
        }
    }
    Ok(())
}

/// A run that did not complete has undone its compensated steps, the last one first and each once; one that completed
/// those that failed half-way.
fn unwound(run: &str, events: &[Event]) -> Verdict {
    let half_way = match events.last() {
        Some(Event::RunCompleted(e)) if e.uncompensated.is_empty() => true,
        Some(Event::RunFailed(e)) if e.uncompensated.is_empty() => false,
        Some(Event::RunCancelled(e)) if e.uncompensated.is_empty() => false,
        Some(end) if end.is_terminal() => return Err(format!("{run} left something to be undone: {end:?}")),
        // Whoever lost a race may leave a child that nobody waits for.
        _ => return Ok(()),
    };
    let expected = events.iter().rev().filter_map(|event| match event {
        Event::CompensationRecorded(e) if e.half_way || !half_way => Some(&e.command),
        _ => None,
    });
    let undone = events.iter().filter_map(|event| match event {
        Event::StepCompensated(e) => Some(&e.undoes),
        _ => None,
    });
    let (expected, undone): (Vec<_>, Vec<_>) = (expected.collect(), undone.collect());
    if expected != undone {
        return Err(format!("{run} undid {undone:?}, not {expected:?}"));
    }
    Ok(())
}
