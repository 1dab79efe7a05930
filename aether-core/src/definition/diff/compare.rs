//! The walk through both machines at once: all ways with equal names, in step.
//!
//! Promise: it ends. Each pair of sets of states is looked at once, and where there are too many, what was not looked at
//! counts as changed.

use std::collections::{BTreeMap, BTreeSet};

use crate::definition::def::END;
use crate::definition::diff::report::{Difference, PlaceDiff, Verdict};
use crate::definition::diff::shape::{Label, Next, Shape};
use crate::definition::owned::Definition;

/// How many pairs are looked at. What people write has a few hundred.
const MAX_PAIRS: usize = 4_096;
/// How deep branches are nested, so that the walk needs a bounded stack.
const MAX_DEPTH: usize = 64;

/// What was found.
pub(super) struct Compared {
    pub(super) places: Vec<PlaceDiff>,
    pub(super) differences: Vec<Difference>,
}

/// Compares two definitions.
pub(super) fn compare(old: &Definition, new: &Definition) -> Compared {
    let mut walk = Walk {
        old: Shape::of(old),
        new: Shape::of(new),
        found: BTreeMap::new(),
        differences: Vec::new(),
        pairs: 0,
        depth: 0,
        too_large: false,
    };
    let (old_begin, new_begin) = (walk.old.begin(), walk.new.begin());
    walk.machine(old_begin, new_begin);
    walk.loose();
    walk.finish()
}

/// What is known of a state of the old code.
#[derive(Default)]
struct Known {
    verdict: Option<Verdict>,
    cause: Option<usize>,
    counterparts: Next,
}

struct Walk<'d> {
    old: Shape<'d>,
    new: Shape<'d>,
    found: BTreeMap<u16, Known>,
    differences: Vec<Difference>,
    pairs: usize,
    depth: usize,
    /// Nothing more is looked at, and nothing can be told.
    too_large: bool,
}

/// States of both codes that the same ways lead to.
type Pair = (Next, Next);

/// What a machine or a pair was found to be.
#[derive(Clone, Copy)]
struct Match {
    /// Which difference a way of the old code meets, if any.
    differs: Option<usize>,
    /// Whether the new code also has no other ways.
    same: bool,
}

/// A pair in a machine, with what follows it.
struct Visited {
    pair: Pair,
    after: Vec<usize>,
    same: bool,
}

impl Walk<'_> {
    /// Walks one machine from its first states: the workflow itself, or a branch.
    fn machine(&mut self, old: Next, new: Next) -> Match {
        let mut visited: Vec<Visited> = Vec::new();
        let mut known: BTreeMap<Pair, usize> = BTreeMap::new();
        let mut differs = None;
        // From `None`, the start of the machine, or from a pair that was visited.
        let mut open: Vec<(Option<usize>, Next, Next)> = vec![(None, old, new)];
        let mut start_same = true;
        while let Some((from, old, new)) = open.pop().filter(|_| !self.too_large) {
            let mut same = true;
            let mut after = Vec::new();
            for (label, pair) in self.steps(&old, &new) {
                match label {
                    Step::Both => match known.get(&pair) {
                        Some(at) => after.push(*at),
                        None => {
                            let at = visited.len();
                            known.insert(pair.clone(), at);
                            after.push(at);
                            let inner = self.enter(&pair);
                            differs = differs.or(inner.differs);
                            visited.push(Visited { pair: pair.clone(), after: Vec::new(), same: inner.same });
                            // What comes behind a difference is marked already.
                            if inner.differs.is_none() {
                                let (old, new) = (self.old.after(&pair.0), self.new.after(&pair.1));
                                open.push((Some(at), old, new));
                            }
                        }
                    },
                    Step::Old => {
                        same = false;
                        differs = Some(self.differ(&pair.0, &new));
                    }
                    Step::New => same = false,
                }
            }
            match from.and_then(|at| visited.get_mut(at)) {
                Some(visited) => {
                    visited.after = after;
                    visited.same &= same;
                }
                None => start_same &= same,
            }
        }
        let all_same = self.mark_later(&visited);
        Match { differs, same: start_same && all_same && differs.is_none() }
    }

    /// The ways on, by their names. The end has none, so it is told apart.
    fn steps(&mut self, old: &Next, new: &Next) -> Vec<(Step, Pair)> {
        let by_label = |shape: &Shape<'_>, next: &Next| {
            let mut all: BTreeMap<Option<Label>, Next> = BTreeMap::new();
            for state in next {
                let label = (*state != END).then(|| shape.label(*state));
                all.entry(label).or_default().insert(*state);
            }
            all
        };
        let (mut old, mut new) = (by_label(&self.old, old), by_label(&self.new, new));
        let labels: BTreeSet<Option<Label>> = old.keys().chain(new.keys()).cloned().collect();
        let mut steps = Vec::new();
        for label in labels {
            let pair = (old.remove(&label).unwrap_or_default(), new.remove(&label).unwrap_or_default());
            let step = match (pair.0.is_empty(), pair.1.is_empty()) {
                (false, false) if label.is_none() => continue,
                (false, false) => Step::Both,
                (false, true) => Step::Old,
                (true, _) => Step::New,
            };
            steps.push((step, pair));
        }
        steps
    }

    /// Notes a pair, and walks the branches of its states.
    fn enter(&mut self, pair: &Pair) -> Match {
        let (old, new) = pair;
        self.pairs += 1;
        if self.pairs > MAX_PAIRS || self.depth > MAX_DEPTH {
            self.too_large = true;
            return Match { differs: None, same: false };
        }
        for state in old {
            let known = self.found.entry(*state).or_default();
            known.counterparts.extend(new);
            known.verdict = known.verdict.max(Some(Verdict::Same));
        }
        if self.old.inline(old) != self.new.inline(new) {
            let behind = self.old.reachable(old);
            self.mark(&behind, Verdict::CalleeChanged, None);
        }
        let mut found = Match { differs: None, same: true };
        for branch in 0..self.old.branches(old) {
            let (first, second) = (self.old.fork(old, branch), self.new.fork(new, branch));
            self.depth += 1;
            let inner = self.machine(first, second);
            self.depth -= 1;
            found = Match { differs: found.differs.or(inner.differs), same: found.same && inner.same };
        }
        if let Some(cause) = found.differs {
            // Whoever is behind the branches went through one of them.
            let behind = self.old.reachable(&self.old.after(old));
            self.mark(&behind, Verdict::ChangedBefore, Some(cause));
        }
        found
    }

    /// Branch closures that are awaited in a way the definition does not show are compared in their order.
    fn loose(&mut self) {
        for branch in 0..self.old.loose().len() {
            let first = self.old.loose().get(branch).cloned().unwrap_or_default();
            let second = self.new.loose().get(branch).cloned().unwrap_or_default();
            if let Some(cause) = self.machine(first, second).differs {
                // Nobody knows what comes behind it.
                let all = self.old.reachable(&self.old.begin());
                self.mark(&all, Verdict::ChangedBefore, Some(cause));
            }
        }
    }

    /// Notes that ways of the old code lead to `old`, and those of the new only to `new`.
    fn differ(&mut self, old: &Next, new: &Next) -> usize {
        let sites = new.iter().filter_map(|state| self.new.site(*state)).collect::<BTreeSet<_>>();
        let first = old.iter().find_map(|state| self.old.site(*state));
        let difference = Difference { old: first, new: sites.into_iter().collect() };
        let known = self.differences.iter().position(|known| *known == difference);
        let cause = known.unwrap_or_else(|| {
            self.differences.push(difference);
            self.differences.len() - 1
        });
        let behind = self.old.reachable(old);
        self.mark(&behind, Verdict::ChangedBefore, Some(cause));
        cause
    }

    fn mark(&mut self, states: &Next, verdict: Verdict, cause: Option<usize>) {
        for state in states {
            let known = self.found.entry(*state).or_default();
            if known.verdict < Some(verdict) {
                (known.verdict, known.cause) = (Some(verdict), cause);
            }
        }
    }

    /// Marks the pairs from which a difference can be reached; says whether there are none.
    fn mark_later(&mut self, visited: &[Visited]) -> bool {
        let mut differs: Vec<bool> = visited.iter().map(|visited| !visited.same).collect();
        loop {
            let grown: Vec<bool> = visited
                .iter()
                .zip(&differs)
                .map(|(visited, own)| *own || visited.after.iter().any(|at| differs.get(*at) == Some(&true)))
                .collect();
            if grown == differs {
                break;
            }
            differs = grown;
        }
        for (Visited { pair: (old, _), .. }, _) in
            visited.iter().zip(&differs).filter(|(_, differs)| **differs)
        {
            // A run that stands in a branch comes to what follows the branch.
            let inside: Next =
                (0..self.old.branches(old)).flat_map(|branch| self.old.fork(old, branch)).collect();
            let mut later = self.old.reachable(&inside);
            later.extend(old);
            self.mark(&later, Verdict::LaterChanged, None);
        }
        differs.iter().all(|differs| !differs)
    }

    fn finish(self) -> Compared {
        let Self { old, new, mut found, differences, too_large, .. } = self;
        let places = old.places().filter_map(|state| {
            let known = found.remove(&state).unwrap_or_default();
            let new = known.counterparts.iter().filter_map(|state| new.site(*state)).collect::<BTreeSet<_>>();
            Some(PlaceDiff {
                old: old.site(state)?,
                new: new.into_iter().collect(),
                verdict: match known.verdict {
                    _ if too_large => Verdict::ChangedBefore,
                    // Code that no way leads to holds no run.
                    verdict => verdict.unwrap_or(Verdict::Same),
                },
                cause: known.cause.filter(|_| !too_large),
            })
        });
        Compared { places: places.collect(), differences }
    }
}

/// Who has a way.
#[derive(Clone, Copy)]
enum Step {
    Both,
    Old,
    New,
}
