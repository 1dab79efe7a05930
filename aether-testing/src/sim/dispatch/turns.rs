//! Which answer of its script each call was given, over all processes of a simulation.
//!
//! Promise: a call whose answer was lost in a crash is given the same one again; a call that died before it did anything
//! uses none up.

use std::collections::{BTreeMap, BTreeSet};

/// Where answers are counted for requests of a workflow, whatever effect makes them.
pub(super) const HTTP: &str = "http";

/// Answers given so far.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Number of this process, from 1.
    process: usize,
    /// Number of answers given, by path and by matcher: the rest of a script has the number of its matchers.
    used: BTreeMap<(String, usize), usize>,
    /// Answers that were put back, by path and by matcher: they are given before the next ones.
    put_back: BTreeMap<(String, usize), BTreeSet<usize>>,
    /// The answer that each path and key was given last.
    given: BTreeMap<(String, String), Given>,
}

/// The answer that a call was given, by its place in the script.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given {
    /// To which process.
    process: usize,
    pub(super) matcher: usize,
    pub(super) turn: usize,
}

impl Turns {
    /// Counts the next process.
    pub(super) fn begin_process(&mut self) {
        self.process += 1;
    }

    /// The number of the next answer of a matcher.
    pub(super) fn next(&self, path: &str, matcher: usize) -> usize {
        let of = (path.to_owned(), matcher);
        let put_back = self.put_back.get(&of).and_then(|turns| turns.first());
        put_back.or_else(|| self.used.get(&of)).copied().unwrap_or_default()
    }

    /// The answer that a process which died was given for this call.
    pub(super) fn given_before(&mut self, path: &str, key: &str) -> Option<Given> {
        let given = self.given.get_mut(&(path.to_owned(), key.to_owned()))?;
        let before = given.process < self.process;
        given.process = self.process;
        before.then_some(*given)
    }

    /// The number of the answer that a call was given.
    pub(super) fn turn_of(&self, path: &str, key: &str) -> Option<usize> {
        self.given.get(&(path.to_owned(), key.to_owned())).map(|given| given.turn)
    }

    /// Uses the next answer of a matcher up; returns its number.
    pub(super) fn give(&mut self, path: &str, key: &str, matcher: usize) -> usize {
        let of = (path.to_owned(), matcher);
        let turn = self.put_back.get_mut(&of).and_then(BTreeSet::pop_first).unwrap_or_else(|| {
            let used = self.used.entry(of).or_default();
            *used += 1;
            *used - 1
        });
        let given = Given { process: self.process, matcher, turn };
        self.given.insert((path.to_owned(), key.to_owned()), given);
        turn
    }

    /// Puts the answer of a call back that died before it did anything.
    pub(super) fn put_back(&mut self, path: &str, key: &str) {
        for path in [path, HTTP] {
            if let Some(given) = self.given.remove(&(path.to_owned(), key.to_owned())) {
                self.put_back.entry((path.to_owned(), given.matcher)).or_default().insert(given.turn);
            }
        }
    }
}
