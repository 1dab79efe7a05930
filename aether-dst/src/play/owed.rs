//! What a run owes at its end: everything that it has made is undone, or its end says that it is not.
//!
//! Promise: what was made and undone is known from the world's bodies; what was committed, and in which order, from the run's
//! journal and from the results that it has carried along.

use std::collections::BTreeMap;

use aether_core::contract::Status;
use aether_core::id::CommandId;
use aether_core::journal::event::{Event, Uncompensated};
use aether_core::outcome::Outcome;

use crate::judge::undone::Came;
use crate::judge::{self, violated};
use crate::model;
use crate::play::verdict::{Left, broken};
use crate::story::{Op, contains, walk};

/// What a journal says of the things of its run.
struct Account<'r> {
    run: &'r Left,
    /// Made in earlier generations.
    before: Vec<u32>,
    /// Made in this one, in the order of their commitment.
    made: Vec<u32>,
    /// Which journal says are undone.
    undone: Vec<u32>,
    left: &'r [Uncompensated],
}

/// Judges a run that has ended.
pub(super) fn judge(run: &Left, program: &[Op]) {
    let account = Account::of(run, program);
    let half_way: Vec<u32> = half_way(program);
    let unwinds = matches!(run.record.status, Status::Failed | Status::Cancelled);
    for number in account.before.iter().chain(&account.made) {
        if unwinds || half_way.contains(number) {
            account.settled(*number);
        }
    }
    account.left.iter().for_each(|left| account.is_left(left));
    account.said(unwinds || contains(program, &|op| matches!(op, Op::Undo | Op::HalfWay(..))));
    account.in_order();
    asked_again(run);
    begun_again(run);
}

fn half_way(program: &[Op]) -> Vec<u32> {
    let mut numbers = Vec::new();
    walk(program, &mut |op| {
        if let Op::HalfWay(number, _) = op {
            numbers.push(*number);
        }
    });
    numbers
}

impl<'r> Account<'r> {
    fn of(run: &'r Left, program: &[Op]) -> Self {
        let (mut before, mut made, mut undone) = (Vec::new(), Vec::new(), Vec::new());
        for event in &run.events {
            match event {
                Event::RunCreated(e) => {
                    let input: Vec<Op> = e.input.decode().unwrap_or_default();
                    if let Some(Op::Earlier(got)) = input.first() {
                        before = model::made_before(program, got);
                    }
                }
                Event::CommandCommitted(e)
                    if e.outcome.is_complete() || e.outcome == Outcome::CompensatableFailure =>
                {
                    made.extend(number_of(run, &e.command));
                }
                Event::StepCompensated(e) => undone.extend(number_of(run, &e.undoes)),
                _ => {}
            }
        }
        let left: &[Uncompensated] = match run.events.last() {
            Some(Event::RunFailed(e)) => &e.uncompensated,
            Some(Event::RunCancelled(e)) => &e.uncompensated,
            Some(Event::RunCompleted(e)) => &e.uncompensated,
            _ => &[],
        };
        Self { run, before, made, undone, left }
    }

    fn name(&self) -> &str {
        self.run.record.id.as_str()
    }

    /// It is undone, or the run's end says that it is not.
    fn settled(&self, number: u32) {
        let is_undone = judge::with(|facts| facts.things.is_undone(number));
        let is_named = self.left.iter().any(|left| number_of(self.run, &left.step) == Some(number));
        if !is_undone && !is_named {
            violated("not-undone", format!("{number} of {}, left {:?}", self.name(), self.left));
        }
    }

    /// What a run's end says that it has left is so, for a reason.
    fn is_left(&self, left: &Uncompensated) {
        let Some(number) = number_of(self.run, &left.step) else { return };
        let came: Vec<Came> = judge::with(|facts| facts.things.calls(number).collect());
        let what = || format!("{number} of {}: {left}, {came:?}", self.name());
        // Behind its body a call may be dropped as well, before anything of it is recorded; and a race that is lost during a
        // shutdown drops calls that nobody can abandon any more.
        let is_known = match judge::with(|facts| facts.keeps_bodies) {
            true => came.iter().all(|came| matches!(came, Came::Failed | Came::Returned)),
            false => came.is_empty() && !judge::stops(),
        };
        if left.in_doubt && is_known && !judge::may_lose_runs() {
            broken("in-doubt", what());
        }
        if !left.in_doubt && !came.contains(&Came::Failed) {
            violated("left-undone", what());
        }
        if !left.in_doubt && came.contains(&Came::Returned) {
            violated("undone-and-left", what());
        }
    }

    /// What the journal says is undone is undone, and is said once; nothing is undone without need.
    fn said(&self, undoes: bool) {
        for (at, number) in self.undone.iter().enumerate() {
            if self.undone[..at].contains(number) {
                violated("compensated-twice", format!("{number} of {}", self.name()));
            }
            if !judge::with(|facts| facts.things.is_undone(*number)) {
                violated("undone-by-nobody", format!("{number} of {}", self.name()));
            }
        }
        for number in self.before.iter().chain(&self.made) {
            if !undoes && judge::with(|facts| facts.things.calls(*number).next().is_some()) {
                violated("undone-without-need", format!("{number} of {}", self.name()));
            }
        }
    }

    /// The unwinding begins to undo what was made last first.
    fn in_order(&self) {
        let events = self.run.events.iter();
        let unwinding = events.skip_while(|event| !matches!(event, Event::RunUnwinding(_)));
        let begun = unwinding.filter_map(|event| match event {
            Event::StepCompensated(e) => {
                let number = number_of(self.run, &e.undoes)?;
                self.made.iter().position(|made| *made == number)
            }
            _ => None,
        });
        let begun: Vec<usize> = begun.collect();
        if !begun.is_sorted_by(|a, b| a > b) {
            violated("undone-out-of-order", format!("{}: {begun:?} of {:?}", self.name(), self.made));
        }
    }
}

/// The number of the thing that a command has made.
fn number_of(run: &Left, command: &CommandId) -> Option<u32> {
    judge::with(|facts| facts.things.made_by(&run.record.id, command))
}

/// Nobody is asked for a consent that is given.
fn asked_again(run: &Left) {
    let mut agreed = Vec::new();
    for event in &run.events {
        match event {
            Event::ApprovalDecided(e) => agreed.push(&e.command),
            Event::ApprovalRequested(e) if agreed.contains(&&e.command) => {
                violated("asked-again", format!("{} in {}", e.command, run.record.id));
            }
            _ => {}
        }
    }
}

/// An attempt whose end is recorded is not made again.
fn begun_again(run: &Left) {
    let mut failed = BTreeMap::new();
    for event in &run.events {
        match event {
            Event::StepRetried(e) => drop(failed.insert(&e.command, e.attempt)),
            Event::ToolInvocationStarted(e) if failed.get(&e.command).is_some_and(|of| e.attempt <= *of) => {
                violated("begun-again", format!("{} in {}", e.key, run.record.id));
            }
            _ => {}
        }
    }
}
