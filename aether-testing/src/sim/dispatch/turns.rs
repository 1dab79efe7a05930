//! Which answer of its script each call was given, over all processes of a simulation.
//!
//! Promise: a call whose answer was lost in a crash is given the same one again; a call that died before it did anything
//! uses none up.

use std::collections::BTreeMap;

/// Where answers are counted for requests of a workflow, whatever effect makes them.
pub(super) const HTTP: &str = "http";

/// Answers given so far.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Number of this process, from 1.
    process: usize,
    /// Number of answers given, by path and by matcher: the rest of a script has the number of its matchers.
    used: BTreeMap<(String, usize), usize>,
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

    /// How many answers of a matcher are used.
    pub(super) fn used(&self, path: &str, matcher: usize) -> usize {
        self.used.get(&(path.to_owned(), matcher)).copied().unwrap_or_default()
    }

    /// The answer that a process which died was given for this call.
    pub(super) fn given_before(&mut self, path: &str, key: &str) -> Option<Given> {
        let given = self.given.get_mut(&(path.to_owned(), key.to_owned()))?;
        let before = given.process < self.process;
        given.process = self.process;
        before.then_some(*given)
    }

    /// Uses the next answer of a matcher up; returns its number.
    pub(super) fn give(&mut self, path: &str, key: &str, matcher: usize) -> usize {
        let used = self.used.entry((path.to_owned(), matcher)).or_default();
        let turn = *used;
        *used += 1;
        let given = Given { process: self.process, matcher, turn };
        self.given.insert((path.to_owned(), key.to_owned()), given);
        turn
    }

    /// Puts the answer of a call back that died before it did anything.
    pub(super) fn put_back(&mut self, path: &str, key: &str) {
        for path in [path, HTTP] {
            let given = self.given.remove(&(path.to_owned(), key.to_owned()));
            if let Some(used) = given.and_then(|given| self.used.get_mut(&(path.to_owned(), given.matcher))) {
                *used = used.saturating_sub(1);
            }
        }
    }
}
