//! The scopes of a run as spans: where they begin and end, and which of them are agents.
//!
//! Promise: which scopes there are follows from the places of commands alone. A scope has ended when the workflow asks for
//! something behind it, or when the run has ended; what comes later changes nothing about it.

use std::collections::{BTreeMap, BTreeSet};

use aether_core::id::{CommandId, Position};
use aether_core::view::EventTime;
use jiff::Timestamp;

/// A scope below the root.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    /// The first command in it, and the first event of that.
    pub(crate) first: (CommandId, Timestamp),
    /// The last event of it.
    pub(crate) last: Timestamp,
    /// All of it so far was copied from the origin of a fork.
    copied: bool,
    /// The agent that works in it, and since which event that is known.
    agent: Option<(Position, String)>,
}

impl Scope {
    /// The agent that works in it, as far as the journal shows it before `position`.
    pub(crate) fn agent(&self, position: Position) -> Option<&str> {
        self.agent.as_ref().filter(|(since, _)| *since <= position).map(|(_, agent)| &**agent)
    }
}

/// All scopes of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scopes {
    all: BTreeMap<String, Scope>,
    open: BTreeSet<String>,
    /// The highest number of a command in each scope.
    highest: BTreeMap<String, u32>,
    /// Scopes that have ended since they were asked for, with the position that shows it.
    ended: Vec<(String, Position)>,
}

impl Scopes {
    /// Takes an event of a command in. `agent` is the name of an agent whose question it is.
    pub(crate) fn apply(&mut self, command: &CommandId, now: EventTime, agent: Option<String>) {
        let place = command.place();
        let mut path = place;
        while !path.is_empty() {
            if let Some((outer, ordinal)) = numbered(path) {
                self.pass(outer, ordinal, now.position);
            }
            path = enclosing(path);
        }
        for path in around(place) {
            let is_new = !self.all.contains_key(path);
            if is_new {
                let scope =
                    Scope { first: (command.clone(), now.at), last: now.at, copied: false, agent: None };
                self.all.insert(path.to_owned(), scope);
                self.open.insert(path.to_owned());
            }
            if let Some(scope) = self.all.get_mut(path).filter(|_| self.open.contains(path)) {
                scope.last = now.at;
                scope.copied = false;
            }
        }
        // An agent is who asks a model that may call tools, in a scope of its own.
        if let Some(scope) = around(place).next().and_then(|path| self.all.get_mut(path))
            && scope.agent.is_none()
        {
            scope.agent = agent.map(|agent| (now.position, agent));
        }
    }

    /// Command `ordinal` of the scope `outer` ends what stands in the places before it.
    fn pass(&mut self, outer: &str, ordinal: u32, position: Position) {
        let highest = self.highest.entry(outer.to_owned()).or_insert(ordinal);
        if ordinal <= *highest {
            return;
        }
        *highest = ordinal;
        let is_before = |path: &String| {
            let inside =
                if outer.is_empty() { Some(&**path) } else { path.strip_prefix(outer)?.strip_prefix('.') };
            let number: u32 = inside?.split('.').next()?.parse().ok()?;
            Some(number < ordinal)
        };
        let over: Vec<_> = self.open.iter().filter(|path| is_before(path) == Some(true)).cloned().collect();
        over.into_iter().for_each(|path| self.end(path, position));
    }

    /// The run, or its generation, has ended.
    pub(crate) fn end_all(&mut self, position: Position) {
        std::mem::take(&mut self.open).into_iter().for_each(|path| self.end(path, position));
    }

    fn end(&mut self, path: String, position: Position) {
        self.open.remove(&path);
        if self.get(&path).is_some_and(|scope| !scope.copied) {
            self.ended.push((path, position));
        }
    }

    /// The scopes so far are the origin's. Those that are open and in which the fork goes on become its own.
    pub(crate) fn leave_to_origin(&mut self) {
        self.ended = Vec::new();
        self.all.values_mut().for_each(|scope| scope.copied = true);
    }

    /// The scopes that have ended since this was asked last.
    pub(crate) fn take_ended(&mut self) -> Vec<(String, Position)> {
        std::mem::take(&mut self.ended)
    }

    pub(crate) fn get(&self, path: &str) -> Option<&Scope> {
        self.all.get(path)
    }
}

/// The scopes around a place, from the innermost one out, the root left out: the prefixes that are followed by a number. In
/// `3.0.b1.2` they are `3.0.b1` and `3`, because `3.0` is the place where the branch began.
pub(crate) fn around(place: &str) -> impl Iterator<Item = &str> {
    let ends = place.char_indices().rev().filter(|(_, c)| *c == '.');
    let prefixes =
        ends.map(|(at, _)| (place.get(..at).unwrap_or_default(), place.get(at + 1..).unwrap_or_default()));
    prefixes
        .filter(|(path, rest)| {
            let next = rest.split('.').next().unwrap_or_default();
            next.parse::<u32>().is_ok() && !is_root(path)
        })
        .map(|(path, _)| path)
}

fn enclosing(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(outer, _)| outer)
}

/// Whether a path is the root of a later generation.
fn is_root(path: &str) -> bool {
    path.strip_prefix('c').is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Splits a place into the scope it is in and its number there.
pub(crate) fn numbered(place: &str) -> Option<(&str, u32)> {
    let (scope, last) = place.rsplit_once('.').unwrap_or(("", place));
    Some((scope, last.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scopes_around_a_place_are_those_with_numbers_behind_them() {
        let all = |place| around(place).collect::<Vec<_>>();
        assert_eq!(all("3.0.b1.2"), ["3.0.b1", "3"]);
        assert_eq!(all("3"), [""; 0]);
        assert_eq!(all("3.b0.1"), ["3.b0"]);
        assert_eq!(all("c2.3.b0.1"), ["c2.3.b0"]);
        assert_eq!(all("c2.4"), [""; 0]);
    }

    #[test]
    fn a_scope_ends_where_the_workflow_goes_on_behind_it() {
        let mut scopes = Scopes::default();
        let mut apply = |place: &str, position: Position, agent: Option<&str>| {
            let now = EventTime { position, at: Timestamp::UNIX_EPOCH };
            scopes.apply(&CommandId::new(place, "x"), now, agent.map(str::to_owned));
            scopes.take_ended()
        };
        assert_eq!(apply("0.b0.0", 1, None), []);
        assert_eq!(apply("0.b1.0", 2, None), []);
        assert_eq!(apply("0.b0.1", 3, None), []);
        assert_eq!(apply("1.0", 4, Some("clerk")), [("0.b0".into(), 4), ("0.b1".into(), 4)]);
        assert_eq!(apply("1.1.0", 5, None), []);
        assert_eq!(apply("1.2", 6, None), [("1.1".into(), 6)]);
        // Late news of a branch that lost a race.
        assert_eq!(apply("0.b1.0", 7, None), []);
        scopes.end_all(8);
        assert_eq!(scopes.take_ended(), [("1".into(), 8)]);
        let clerk = scopes.get("1").unwrap();
        assert_eq!((clerk.agent(3), clerk.agent(4)), (None, Some("clerk")));
    }

    #[test]
    fn of_the_scopes_that_a_fork_copies_it_has_those_that_it_goes_on_in() {
        let mut scopes = Scopes::default();
        let apply = |scopes: &mut Scopes, place: &str, position: Position| {
            let now = EventTime { position, at: Timestamp::UNIX_EPOCH };
            scopes.apply(&CommandId::new(place, "x"), now, None);
        };
        apply(&mut scopes, "0.0", 1);
        apply(&mut scopes, "1.b0.0", 2);
        apply(&mut scopes, "1.b1.0", 3);
        scopes.leave_to_origin();
        apply(&mut scopes, "1.b1.1", 4);
        apply(&mut scopes, "2", 5);
        assert_eq!(scopes.take_ended(), [("1.b1".into(), 5)]);
    }
}
