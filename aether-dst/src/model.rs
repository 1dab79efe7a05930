//! An independent model of the guarantees: which results a program may have, given what was sent to its run and what its
//! bodies returned.
//!
//! Promise: knows programs and facts, and nothing of the engine. A result is allowed if some order of events explains it:
//! every signal ends one wait, every value is what one body returned, a race has one winner, and a child's result is what
//! the child's own run ended with.

use std::collections::{BTreeMap, BTreeSet};

use crate::program::Got;
use crate::story::{Op, contains};

/// What is known about one run.
#[derive(Debug, Default)]
pub struct RunFacts {
    /// Signals that it got, in order: name and number.
    pub signals: Vec<(u8, u64)>,
    /// Values that its bodies returned.
    pub values: BTreeSet<u64>,
    /// How its children ended; `None`: not with a result.
    pub children: BTreeMap<String, Option<Vec<Got>>>,
    /// The keys within the store that any run asks for, each with the run.
    pub asked: BTreeSet<(u8, String)>,
    /// A step may be in doubt.
    pub may_doubt: bool,
    /// Things that somebody has tried to undo, each with whether that may have left them as they are.
    pub undoing: BTreeMap<u32, bool>,
}

/// What a body says that definitely fails.
pub const FAILS: &str = "definitely not";

/// What a body says that fails half-way.
pub const HALF_WAY: &str = "half-way";

/// What is wrong with a result: the rule, and why.
pub type Wrong = (&'static str, String);

/// Whether `got` is a result that `program` may have.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn check(program: &[Op], got: &[Got], facts: &RunFacts) -> Result<(), Wrong> {
    Reader { facts, used: BTreeSet::new(), made: Vec::new() }.generations(&generations(program), got)
}

/// The program of each generation of a run.
fn generations(program: &[Op]) -> Vec<&[Op]> {
    let mut all = vec![program];
    while let Some(Op::Continue(rest)) = all.last().and_then(|newest| newest.last()) {
        all.push(rest);
    }
    all
}

/// What the generations before the newest one have made, by what the newest one begins with.
pub fn made_before(program: &[Op], earlier: &[Got]) -> Vec<u32> {
    let (mut made, generations) = (Vec::new(), generations(program));
    let mut got = Some(earlier);
    let mut of_each = Vec::new();
    while let Some(of_one) = got {
        got = match of_one.first() {
            Some(Got::Earlier(before)) => Some(before),
            _ => None,
        };
        of_each.push(&of_one[usize::from(got.is_some())..]);
    }
    for (program, got) in generations.iter().zip(of_each.into_iter().rev()) {
        made_by(program, got, &mut made);
    }
    made
}

fn made_by(program: &[Op], got: &[Got], made: &mut Vec<u32>) {
    for (op, got) in program.iter().zip(got) {
        match (op, got) {
            (Op::Make(number, ..), Got::Value(_)) => made.push(*number),
            (Op::HalfWay(number, _), Got::Error(error)) if error.contains(HALF_WAY) => made.push(*number),
            (Op::Race(a, _), Got::Race(0, got)) => made_by(a, got, made),
            (Op::Race(_, b), Got::Race(_, got)) => made_by(b, got, made),
            (Op::Join(a, b), Got::Join(of_a, of_b)) => {
                made_by(a, of_a, made);
                made_by(b, of_b, made);
            }
            _ => {}
        }
    }
}

/// Whether waits for `name` in this program follow each other: no two of them are open at once.
pub fn in_sequence(program: &[Op], name: u8) -> bool {
    let waits = |op: &Op| matches!(op, Op::Signal(n) | Op::SignalWithin(n, _) if *n == name);
    program.iter().all(|op| match op {
        Op::Race(a, b) | Op::Join(a, b) => {
            !(contains(a, &waits) && contains(b, &waits)) && in_sequence(a, name) && in_sequence(b, name)
        }
        // What was received before is in no journal.
        Op::Continue(_) => false,
        _ => true,
    })
}

struct Reader<'f> {
    facts: &'f RunFacts,
    /// Numbers that were explained.
    used: BTreeSet<u64>,
    /// Things that were made before, in this branch.
    made: Vec<u32>,
}

impl Reader<'_> {
    fn generations(&mut self, programs: &[&[Op]], got: &[Got]) -> Result<(), Wrong> {
        match (programs, got) {
            ([], _) => Ok(()),
            ([only], got) => self.program(only, got),
            ([before @ .., newest], [Got::Earlier(earlier), got @ ..]) => {
                self.generations(before, earlier)?;
                self.program(newest, got)
            }
            _ => Err(("wrong-result", format!("{got:?} of {} generations", programs.len()))),
        }
    }

    fn program(&mut self, program: &[Op], got: &[Got]) -> Result<(), Wrong> {
        let awaited = program.iter().filter_map(|op| match op {
            Op::StartChild(id, _, true) => Some(id),
            _ => None,
        });
        if got.len() < program.len() {
            return Err(("wrong-result", format!("{got:?} is too short for {program:?}")));
        }
        let (got, of_kids) = got.split_at(program.len());
        for (op, got) in program.iter().zip(got) {
            self.op(op, got)?;
        }
        // A child that could not be started is not waited for.
        let started = program.iter().zip(got).filter(|(_, got)| !matches!(got, Got::Error(_)));
        let started: BTreeSet<&String> = started
            .filter_map(|(op, _)| if let Op::StartChild(id, ..) = op { Some(id) } else { None })
            .collect();
        let awaited: Vec<&String> = awaited.filter(|id| started.contains(id)).collect();
        if awaited.len() != of_kids.len() {
            return Err(("wrong-result", format!("{of_kids:?} for the children {awaited:?}")));
        }
        awaited.into_iter().zip(of_kids).try_for_each(|(id, got)| self.child(id, got))
    }

    fn op(&mut self, op: &Op, got: &Got) -> Result<(), Wrong> {
        match (op, got) {
            (Op::SignalWithin(..), Got::Expired)
            | (Op::Sleep(_) | Op::Hold(_) | Op::Continue(_) | Op::StartChild(..), Got::Done)
            // The outcome of the one is never known, that of the other may come too late again and again.
            | (Op::Unseen | Op::Expiring(..), Got::Error(_)) => Ok(()),
            (Op::Signal(name) | Op::SignalWithin(name, _), Got::Signal(number)) => {
                self.signal(*name, *number)
            }
            (
                Op::Tool(_) | Op::Approved(_) | Op::Callback | Op::Expiring(..) | Op::Read(_),
                Got::Value(value),
            ) => self.value(*value),
            (Op::Make(number, ..), Got::Value(value)) => {
                self.made.push(*number);
                self.value(*value)
            }
            (Op::HalfWay(number, _), Got::Error(error)) if error.contains(HALF_WAY) => {
                self.made.push(*number);
                Ok(())
            }
            (Op::Make(..) | Op::HalfWay(..), Got::Error(error)) => self.doubt(error),
            (Op::Undo, Got::Left(left)) => self.undone(*left),
            (Op::Once(_, _, false), Got::Value(value)) => self.value(*value),
            (Op::Once(_, _, true), Got::Error(error)) if error.contains(FAILS) => Ok(()),
            (Op::Once(..), Got::Error(error)) => self.doubt(error),
            (Op::Once(key, ..), Got::Taken(by)) if self.facts.asked.contains(&(*key, by.clone())) => Ok(()),
            (Op::Reads(count, _), Got::Values(values)) if values.len() == usize::from(*count) => {
                values.iter().try_for_each(|value| self.value(*value))
            }
            (Op::Tool(_) | Op::Approved(_) | Op::Callback, Got::Error(error)) => self.doubt(error),
            (Op::Race(a, _), Got::Race(0, got)) => self.program(a, got),
            (Op::Race(_, b), Got::Race(1, got)) => self.program(b, got),
            (Op::Join(a, b), Got::Join(of_a, of_b)) => {
                let before = self.made.len();
                self.program(a, of_a)?;
                let of_first = self.made.split_off(before);
                self.program(b, of_b)?;
                self.made.extend(of_first);
                Ok(())
            }
            (Op::Child(id, _), got) => self.child(id, got),
            _ => Err(("wrong-result", format!("{got:?} from {op:?}"))),
        }
    }

    /// Somebody has tried to undo everything that was made before; what is left has a reason.
    fn undone(&self, left: usize) -> Result<(), Wrong> {
        if self.facts.may_doubt {
            return Ok(());
        }
        if let Some(thing) = self.made.iter().find(|thing| !self.facts.undoing.contains_key(thing)) {
            return Err(("not-undone", format!("{thing}, by an `Undo` that left {left}")));
        }
        let may_be_left = self.facts.undoing.values().filter(|may_be_left| **may_be_left).count();
        if left > may_be_left {
            return Err(("left-undone", format!("{left} of {:?}", self.facts.undoing)));
        }
        Ok(())
    }

    fn doubt(&self, error: &str) -> Result<(), Wrong> {
        if self.facts.may_doubt { Ok(()) } else { Err(("in-doubt", error.to_owned())) }
    }

    fn signal(&mut self, name: u8, number: u64) -> Result<(), Wrong> {
        if !self.facts.signals.contains(&(name, number)) {
            return Err(("wrong-result", format!("signal {number} was not sent as s{name}")));
        }
        match self.used.insert(number | 1 << 63) {
            true => Ok(()),
            false => Err(("consumed-twice", format!("signal {number}"))),
        }
    }

    fn value(&mut self, value: u64) -> Result<(), Wrong> {
        if self.facts.values.contains(&value) && self.used.insert(value) {
            return Ok(());
        }
        Err(("wrong-result", format!("value {value}, which no body of this run returned for this call")))
    }

    fn child(&mut self, id: &str, got: &Got) -> Result<(), Wrong> {
        match (self.facts.children.get(id), got) {
            (Some(Some(own)), Got::Child(got)) if own == got => Ok(()),
            // It ended without a result, or never was.
            (Some(None) | None, Got::Error(_)) => Ok(()),
            (own, got) => {
                Err(("wrong-result", format!("the child {id} ended with {own:?}, its parent got {got:?}")))
            }
        }
    }
}
