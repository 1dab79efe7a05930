//! A definition as a machine with names on its states, in which marks of changes take no place.
//!
//! Promise: a branch closure is a machine of its own, which the state that awaits it enters by the closure's place among
//! its branches.

use std::collections::{BTreeMap, BTreeSet};

use crate::definition::def::{END, EdgeKind, START, StateKind};
use crate::definition::diff::report::Site;
use crate::definition::owned::{DefinedState, Definition};
use crate::vocabulary::outcome::EffectClass;

/// What can be reached next: states and [`END`].
pub(super) type Next = BTreeSet<u16>;

/// What must be equal for a run to go from one code to the other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Label {
    kind: StateKind,
    /// The callee. A workflow that runs inside leaves no name in the journal.
    name: String,
    class: Option<String>,
    branches: usize,
}

/// A definition, ready to be compared.
pub(super) struct Shape<'d> {
    definition: &'d Definition,
    /// Which states may follow, in the same scope.
    next: BTreeMap<u16, Next>,
    /// The first states of each branch closure that a state awaits, in the order of the closures.
    forks: BTreeMap<u16, Vec<Next>>,
    /// The first states of branch closures that no state is known to await.
    loose: Vec<Next>,
}

impl<'d> Shape<'d> {
    pub(super) fn of(definition: &'d Definition) -> Self {
        let mut shape = Self { definition, next: BTreeMap::new(), forks: BTreeMap::new(), loose: Vec::new() };
        let mut starts: BTreeMap<Option<u16>, Next> = BTreeMap::new();
        let mut forks: BTreeMap<u16, BTreeMap<Option<u16>, Next>> = BTreeMap::new();
        for edge in &definition.edges {
            let branch = shape.branch(edge.to);
            if edge.kind == EdgeKind::Fork {
                // An inner closure has a greater number, so that nothing enters itself.
                if branch <= shape.branch(edge.from) {
                    continue;
                }
                forks.entry(edge.from).or_default().entry(branch).or_default().insert(edge.to);
            } else if edge.from == START && edge.to != END {
                starts.entry(branch).or_default().insert(edge.to);
            } else {
                shape.next.entry(edge.from).or_default().insert(edge.to);
            }
        }
        let awaited: BTreeSet<Option<u16>> = forks.values().flat_map(BTreeMap::keys).copied().collect();
        let root = starts.remove(&None).unwrap_or_default();
        shape.next.entry(START).or_default().extend(root);
        shape.loose = starts
            .into_iter()
            .filter(|(branch, _)| !awaited.contains(branch))
            .map(|(_, first)| first)
            .collect();
        shape.forks = forks.into_iter().map(|(state, all)| (state, all.into_values().collect())).collect();
        shape.skip_marks();
        shape
    }

    /// Marks leave no trace that later commands could miss: what follows them follows what was before them.
    fn skip_marks(&mut self) {
        let marks: BTreeSet<u16> =
            self.definition.states.iter().filter(|state| is_mark(state)).map(|state| state.state).collect();
        if marks.is_empty() {
            return;
        }
        let skipped = |next: &Next| {
            let mut open: Vec<u16> = next.iter().copied().collect();
            let (mut seen, mut found) = (BTreeSet::new(), Next::new());
            while let Some(place) = open.pop() {
                if !marks.contains(&place) {
                    found.insert(place);
                } else if seen.insert(place) {
                    open.extend(self.next.get(&place).into_iter().flatten());
                }
            }
            found
        };
        let next = self.next.iter().map(|(state, next)| (*state, skipped(next))).collect();
        let forks =
            self.forks.iter().map(|(state, all)| (*state, all.iter().map(&skipped).collect())).collect();
        let loose = self.loose.iter().map(&skipped).collect();
        (self.next, self.forks, self.loose) = (next, forks, loose);
    }

    pub(super) fn state(&self, state: u16) -> Option<&'d DefinedState> {
        self.definition.states.get(usize::from(state))
    }

    fn branch(&self, state: u16) -> Option<u16> {
        self.state(state).and_then(|state| state.branch)
    }

    /// The places that a run can stand at.
    pub(super) fn places(&self) -> impl Iterator<Item = u16> {
        self.definition.states.iter().filter(|state| !is_mark(state)).map(|state| state.state)
    }

    pub(super) fn label(&self, state: u16) -> Label {
        let branches = self.forks.get(&state).map_or(0, Vec::len);
        let Some(DefinedState { name, kind, step, class, inline, .. }) = self.state(state) else {
            return Label { kind: StateKind::Other, name: String::new(), class: None, branches };
        };
        let class = if inline.is_some() { None } else { class.as_ref().map(EffectClass::to_string) };
        let name = match (inline, step) {
            (Some(_), _) => "",
            (None, Some(step)) => step,
            (None, None) => name,
        };
        Label { kind: *kind, name: name.into(), class, branches }
    }

    /// What may follow any of `states`.
    pub(super) fn after(&self, states: &Next) -> Next {
        states.iter().filter_map(|state| self.next.get(state)).flatten().copied().collect()
    }

    /// What a run can begin with.
    pub(super) fn begin(&self) -> Next {
        self.after(&Next::from([START]))
    }

    /// The first states in branch `number` of any of `states`.
    pub(super) fn fork(&self, states: &Next, number: usize) -> Next {
        let forks = states.iter().filter_map(|state| self.forks.get(state)?.get(number));
        forks.flatten().copied().collect()
    }

    pub(super) fn branches(&self, states: &Next) -> usize {
        states.iter().filter_map(|state| self.forks.get(state)).map(Vec::len).max().unwrap_or(0)
    }

    pub(super) fn loose(&self) -> &[Next] {
        &self.loose
    }

    /// Everything that can be reached from `first`, with the branches on the way.
    pub(super) fn reachable(&self, first: &Next) -> Next {
        let mut open: Vec<u16> = first.iter().copied().collect();
        let mut seen = Next::new();
        while let Some(state) = open.pop() {
            if state != END && seen.insert(state) {
                open.extend(self.next.get(&state).into_iter().flatten());
                open.extend(self.forks.get(&state).into_iter().flatten().flatten());
            }
        }
        seen
    }

    pub(super) fn site(&self, state: u16) -> Option<Site> {
        let place = self.definition.site(state)?;
        Some(Site { name: self.state(state)?.name.clone(), place })
    }

    /// The workflows that run inside of these calls.
    pub(super) fn inline(&self, states: &Next) -> BTreeSet<&str> {
        states.iter().filter_map(|state| self.state(*state)?.inline.as_deref()).collect()
    }
}

fn is_mark(state: &DefinedState) -> bool {
    matches!(state.name.as_str(), "cx.version" | "cx.version_each")
}
