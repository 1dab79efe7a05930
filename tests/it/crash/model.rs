//! What a program must do: a plain interpreter that knows nothing of engines, journals and crashes.
//!
//! Promise: it takes from the journals only what nobody can predict: which branch won a race, what was drawn, and what
//! was decided about invocations of unknown outcome. Whether those decisions were right is judged apart from it.

use std::collections::{BTreeMap, BTreeSet};

use aether::definition::OnUnknown;
use aether::effect::Outcome;
use aether::prelude::*;
use aether::store::event::{Event, InvocationDecision};

use super::interpret::told;
use super::lives::{Invoked, Lived};
use super::program::{Block, Call, Class, Ending, Node, Part};
use super::steps::Kind;

/// Attempts after which a probe that denies all of them is believed for good.
const DENIED: u32 = 5;

/// Who decides about an invocation that is given up between its intent and its body.
pub(crate) const UNCALLED: [&str; 2] = ["engine: cancelled", "engine: abandoned"];

/// What a person answers.
pub(crate) const ANSWER: u32 = 7;

/// What only the journals can tell.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) decisions: BTreeMap<Invoked, Vec<InvocationDecision>>,
    winners: BTreeMap<Invoked, usize>,
    draws: BTreeMap<Invoked, u64>,
    /// How often bodies were called, by key.
    calls: BTreeMap<String, u32>,
}

impl Facts {
    pub(crate) fn of(lived: &Lived) -> Self {
        let calls = lived.deeds.iter().map(|(key, deeds)| (key.clone(), deeds.calls));
        let mut facts = Self { calls: calls.collect(), ..Self::default() };
        for (run, event) in
            lived.journals.iter().flat_map(|(run, events)| events.iter().map(move |event| (run, event)))
        {
            match event {
                // Not in doubt: it is known that the body was not called.
                Event::InvocationResolved(e) if UNCALLED.contains(&e.actor.as_str()) => {}
                Event::InvocationResolved(e) => {
                    facts
                        .decisions
                        .entry((run.clone(), e.invocation.to_string()))
                        .or_default()
                        .push(e.decision);
                }
                Event::RaceDecided(e) => {
                    let winner = usize::from(e.winner.ends_with(".b1"));
                    facts.winners.insert((run.clone(), e.command.place().to_owned()), winner);
                }
                Event::RandomRecorded(e) => {
                    let drawn = e.value.decode().unwrap();
                    facts.draws.insert((run.clone(), e.command.place().to_owned()), drawn);
                }
                _ => {}
            }
        }
        facts
    }
}

/// What is expected of one command.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expected {
    pub(crate) outcome: Outcome,
    /// The call, where it is one of a step: its kind, its last attempt and what the workflow tells of it.
    pub(crate) call: Option<(Kind, u32, String)>,
}

/// What is expected of a program.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Prediction {
    pub(crate) result: Option<std::result::Result<Vec<String>, String>>,
    /// By run and command.
    pub(crate) commands: BTreeMap<Invoked, Expected>,
    pub(crate) runs: BTreeSet<String>,
    /// Run and scope of branches that lost.
    pub(crate) lost: BTreeSet<Invoked>,
    /// What cannot be predicted although it should be.
    pub(crate) gaps: Vec<String>,
}

/// What `block` must do when it is executed as `run`, as far as `facts` decide it.
pub(crate) fn predict(run: &str, block: &Block, facts: &Facts) -> Prediction {
    let prediction = Prediction::default();
    let mut model = Model { facts, prediction, held: BTreeSet::new(), owed: Vec::new() };
    let part = Part { block: block.clone(), salt: 0, unit: 0 };
    let result = model.run(run.to_owned(), &part);
    Prediction { result: Some(result), ..model.prediction }
}

/// A place in a run that counts its commands.
struct Scope {
    run: String,
    path: String,
    next: u32,
}

impl Scope {
    fn place(&mut self) -> String {
        let number = self.next;
        self.next += 1;
        if self.path.is_empty() { number.to_string() } else { format!("{}.{number}", self.path) }
    }

    fn below(&self, path: String) -> Self {
        Self { run: self.run.clone(), path, next: 0 }
    }
}

type Inspection = std::result::Result<Vec<String>, String>;

struct Model<'a> {
    facts: &'a Facts,
    prediction: Prediction,
    /// Irreversible calls that must not be made again: run, number and turn.
    held: BTreeSet<(String, u32, u32)>,
    /// What can be undone in the run that is being executed.
    owed: Vec<Owed>,
}

/// A call that can be undone.
struct Owed {
    command: String,
    call: Call,
    half_way: bool,
}

impl Model<'_> {
    fn run(&mut self, run: String, part: &Part) -> Inspection {
        self.prediction.runs.insert(run.clone());
        let others = std::mem::take(&mut self.owed);
        let mut scope = Scope { run, path: String::new(), next: 0 };
        let seen = self.block(&mut scope, part);
        for owed in std::mem::replace(&mut self.owed, others) {
            if seen.is_err() || owed.half_way {
                self.undo(&scope, &owed);
            }
        }
        seen
    }

    fn undo(&mut self, scope: &Scope, owed: &Owed) {
        let undone = self.prediction.commands.get_mut(&(scope.run.clone(), owed.command.clone()));
        undone.into_iter().for_each(|undone| undone.outcome = Outcome::Compensated);
        let place = owed.command.split(':').next().unwrap_or_default();
        let call = owed.call.undoing();
        let command = format!("undo.{place}:{}", call.kind.name());
        let (attempt, outcome, answered) = self.attempts(scope, &command, &call);
        self.expect(scope, command, outcome, Some((call.kind, attempt, told(&call, &answered))));
    }

    fn expect(
        &mut self,
        scope: &Scope,
        command: String,
        outcome: Outcome,
        call: Option<(Kind, u32, String)>,
    ) {
        self.prediction.commands.insert((scope.run.clone(), command), Expected { outcome, call });
    }

    fn inline(&mut self, scope: &mut Scope, part: &Part) -> Inspection {
        let path = scope.place();
        self.block(&mut scope.below(path), part)
    }

    fn branch(&mut self, scope: &Scope, path: String, part: &Part) -> Inspection {
        self.inline(&mut scope.below(path), part)
    }

    fn block(&mut self, scope: &mut Scope, part: &Part) -> Inspection {
        let mut seen = Vec::new();
        let mut last = i64::from(part.salt);
        for node in &part.block {
            match node {
                Node::Call(call) => {
                    let call = Call { salt: part.salt, ..call.clone() };
                    let path = scope.place();
                    let answered = self.call(&mut scope.below(path), &call);
                    seen.push(told(&call, &answered));
                    match answered {
                        Ok(value) => last = value,
                        Err(_) if call.strict => return Err(seen.pop().unwrap()),
                        Err(_) => {}
                    }
                }
                Node::Twice(call) => {
                    let call = Call { salt: part.salt, ..call.clone() };
                    for _ in 0..2 {
                        let answered = self.call(scope, &call);
                        seen.push(told(&call, &answered));
                    }
                }
                Node::IfLast(then, otherwise) => {
                    let way = if last % 2 == 0 { then } else { otherwise };
                    seen.extend(self.inline(scope, &part.of(way))?);
                }
                Node::IfRandom(then, otherwise) => {
                    let way = if self.drawn(scope).is_multiple_of(2) { then } else { otherwise };
                    seen.extend(self.inline(scope, &part.of(way))?);
                }
                Node::Repeat(times, block) => {
                    for turn in 0..*times {
                        seen.extend(self.inline(scope, &part.turn(block, turn))?);
                    }
                }
                Node::Inline(block) => seen.extend(self.inline(scope, &part.of(block))?),
                Node::Child(block) => seen.push(self.child(scope, &part.of(block))),
                Node::Start(block, meanwhile) => {
                    let ended = self.started(scope, &part.of(block));
                    let between = self.inline(scope, &part.of(meanwhile));
                    let command = format!("{}:child_result", scope.place());
                    seen.push(self.child_ended(scope, command, ended));
                    seen.extend(between?);
                }
                Node::Detach(block) => drop(self.started(scope, &part.of(block))),
                Node::Plan(block) => {
                    let place = scope.place();
                    let plan = self.branch(scope, format!("{place}.p0"), &part.of(block))?;
                    self.expect(scope, format!("{place}:plan.p"), Outcome::Success, None);
                    seen.extend(plan);
                }
                Node::Ask => {
                    self.plain(scope, "ask");
                    seen.push(format!("answer {ANSWER}"));
                }
                Node::Join(a, b) => {
                    let place = scope.place();
                    let a = self.branch(scope, format!("{place}.b0"), &part.of(a));
                    let b = self.branch(scope, format!("{place}.b1"), &part.of(b));
                    seen.extend(a?);
                    seen.extend(b?);
                }
                Node::Race(a, b) => seen.extend(self.race(scope, &[part.of(a), part.of(b)])?),
                Node::Each(items, _, block) => {
                    let place = scope.place();
                    let turns: Vec<Inspection> = (0..*items)
                        .map(|turn| self.branch(scope, format!("{place}.i{turn}"), &part.turn(block, turn)))
                        .collect();
                    for turn in turns {
                        seen.extend(turn?);
                    }
                }
                Node::Sleep(_) => self.plain(scope, "sleep"),
                Node::Signal(number) => {
                    self.plain(scope, "signal");
                    seen.push(format!("signal {number}"));
                }
                Node::Now => self.plain(scope, "now"),
                Node::Uuid => self.plain(scope, "uuid"),
            }
        }
        Ok(seen)
    }

    fn plain(&mut self, scope: &mut Scope, name: &str) {
        let command = format!("{}:{name}", scope.place());
        self.expect(scope, command, Outcome::Success, None);
    }

    fn drawn(&mut self, scope: &mut Scope) -> u64 {
        let place = scope.place();
        self.expect(scope, format!("{place}:random"), Outcome::Success, None);
        self.facts.draws.get(&(scope.run.clone(), place.clone())).copied().unwrap_or_else(|| {
            self.prediction.gaps.push(format!("nothing was drawn at {place} of {}", scope.run));
            0
        })
    }

    fn child(&mut self, scope: &mut Scope, part: &Part) -> String {
        let command = format!("{}:interpret", scope.place());
        let seen = self.run(format!("{}/{command}", scope.run), part);
        self.child_ended(scope, command, seen)
    }

    /// A child that nobody waits for yet; how it ends.
    fn started(&mut self, scope: &mut Scope, part: &Part) -> Inspection {
        let command = format!("{}:interpret", scope.place());
        let seen = self.run(format!("{}/{command}", scope.run), part);
        self.expect(scope, command, Outcome::Success, None);
        seen
    }

    fn child_ended(&mut self, scope: &Scope, command: String, seen: Inspection) -> String {
        let outcome = if seen.is_ok() { Outcome::Success } else { Outcome::PermanentFailure };
        self.expect(scope, command, outcome, None);
        match seen {
            Ok(seen) => format!("child {seen:?}"),
            Err(error) => format!("child failed: {error}"),
        }
    }

    fn race(&mut self, scope: &mut Scope, parts: &[Part; 2]) -> Inspection {
        let place = scope.place();
        let Some(winner) = self.facts.winners.get(&(scope.run.clone(), place.clone())).copied() else {
            self.prediction.gaps.push(format!("the race at {place} of {} was not decided", scope.run));
            return Ok(Vec::new());
        };
        self.prediction.lost.insert((scope.run.clone(), format!("{place}.b{}", 1 - winner)));
        let mut seen = vec![format!("winner {winner}")];
        seen.extend(self.branch(scope, format!("{place}.b{winner}"), &parts[winner])?);
        Ok(seen)
    }

    fn call(&mut self, scope: &mut Scope, call: &Call) -> std::result::Result<i64, StepError> {
        let command = format!("{}:{}", scope.place(), call.kind.name());
        let held = (scope.run.clone(), call.id, call.salt);
        let rejected = (0, Outcome::PermanentFailure, Err(StepError::Rejected(Failure::new(""))));
        let (attempt, outcome, answered) = if self.held.contains(&held) {
            rejected
        } else {
            call.agreed().map_or(rejected, |call| self.attempts(scope, &command, &call))
        };
        let definite = matches!(answered, Err(StepError::App(_) | StepError::Exhausted(_)));
        if matches!(call.kind, Kind::Once | Kind::OnceInStore) && !definite {
            self.held.insert(held);
        }
        let half_way = outcome == Outcome::CompensatableFailure;
        if call.kind == Kind::Compensated && (half_way || answered.is_ok()) {
            self.owed.push(Owed { command: command.clone(), call: call.clone(), half_way });
        }
        if call.kind != Kind::Pure {
            self.expect(scope, command, outcome, Some((call.kind, attempt, told(call, &answered))));
        }
        answered
    }

    /// The last attempt, and what it came to.
    fn attempts(
        &mut self,
        scope: &Scope,
        command: &str,
        call: &Call,
    ) -> (u32, Outcome, std::result::Result<i64, StepError>) {
        let (kind, retry) = (call.kind, call.kind.def().options.retry());
        let failed = |class: Class| match class {
            Class::Retryable => Outcome::RetryableFailure,
            Class::Compensatable => Outcome::CompensatableFailure,
            Class::Unclassified | Class::Permanent => Outcome::PermanentFailure,
        };
        for attempt in 0.. {
            let invoked = (scope.run.clone(), format!("{command}#{attempt}"));
            let message = || Failure::new(call.message(attempt));
            let last_attempt = attempt + 1 >= retry.attempts();
            let decided = self.facts.decisions.get(&invoked).and_then(|decisions| decisions.last());
            let ending = match decided {
                None => call.ending(attempt),
                Some(InvocationDecision::Happened) => Ending::Value,
                Some(InvocationDecision::Retry) => {
                    let key = format!("aether:{}:{command}:{attempt}", scope.run);
                    call.ending_of(attempt, self.facts.calls.get(&key).copied().unwrap_or(0))
                }
                Some(InvocationDecision::DidNotHappen)
                    if kind.on_unknown() == OnUnknown::Probe
                        && attempt + 1 >= DENIED.max(retry.attempts()) =>
                {
                    return (attempt, Outcome::PermanentFailure, Err(StepError::TimedOut(message())));
                }
                Some(InvocationDecision::DidNotHappen) => continue,
                Some(InvocationDecision::InDoubt) => {
                    return (attempt, Outcome::PermanentFailure, Err(StepError::InDoubt(message())));
                }
                Some(InvocationDecision::Ask) => {
                    self.prediction.gaps.push(format!("nobody answered about {invoked:?}"));
                    return (attempt, Outcome::PermanentFailure, Err(StepError::InDoubt(message())));
                }
            };
            let (outcome, again) = match ending {
                Ending::Value => {
                    return (attempt, Outcome::of_success(kind.class()), Ok(call.value(attempt)));
                }
                Ending::Panic => {
                    return (attempt, Outcome::PermanentFailure, Err(StepError::Panicked(message())));
                }
                Ending::Failure(class) => {
                    (failed(class), matches!(class, Class::Unclassified | Class::Retryable))
                }
                Ending::Unknown { .. } if !kind.changes_world() => (Outcome::PermanentFailure, true),
                Ending::Unknown { .. } | Ending::Hang { .. } => {
                    self.prediction.gaps.push(format!("nothing was decided about {invoked:?}"));
                    (Outcome::PermanentFailure, false)
                }
            };
            if again && !last_attempt {
                continue;
            }
            let exhausted = again && retry.max_retries > 0;
            let error = if exhausted { StepError::Exhausted(message()) } else { StepError::App(message()) };
            return (attempt, outcome, Err(error));
        }
        unreachable!("a script ends")
    }
}
