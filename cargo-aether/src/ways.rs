//! All that any of the workflows reaches, looked at once: they share most of it.
//!
//! Promise: what is met behind a way marks it, so that a walk from one workflow passes over what leads nowhere.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use crate::allow::{Allow, Kinds};
use crate::graph::nodes::Id;
use crate::parallel;
use crate::steps::{Around, At, Met, Steps};

/// Number of a way.
pub(crate) type Number = u32;

/// A node that is reached in one way.
#[derive(Debug)]
pub(crate) struct Way {
    at: At,
    /// What it names that it may not.
    pub(crate) met: Vec<Met>,
    /// What it names, and where.
    pub(crate) next: Vec<(Number, u64)>,
    /// Whether something is met here or behind it.
    pub(crate) leads: bool,
}

/// The ways to all that is reached.
#[derive(Debug, Default)]
pub(crate) struct Ways {
    pub(crate) all: Vec<Way>,
    /// The way of each root.
    pub(crate) starts: Vec<Number>,
    /// Helpers at which they end, because their authors call them deterministic.
    pub(crate) believed: BTreeSet<Id>,
    /// Functions at which they end, because the project lets them pass.
    pub(crate) let_pass: BTreeSet<Id>,
    numbers: FxHashMap<At, Number>,
}

impl Ways {
    /// Those from `roots`, on `jobs` threads; things of other kinds are not met, and nothing is entered that `stops` cover.
    pub(crate) fn new(steps: &Steps<'_>, roots: &[Id], of: (&Kinds, &[&Allow]), jobs: usize) -> Self {
        let (mut ways, (kinds, stops)) = (Self::default(), of);
        ways.starts = roots.iter().map(|id| ways.number(steps.start(*id))).collect();
        let mut looked = 0;
        while looked < ways.all.len() {
            let ahead: Vec<At> = ways.all[looked..].iter().map(|way| way.at).collect();
            for around in parallel::map(&ahead, jobs, |at| steps.around(*at)) {
                ways.add(looked, around, steps, kinds, stops);
                looked += 1;
            }
        }
        ways.mark();
        ways
    }

    pub(crate) fn id(&self, number: Number) -> Id {
        self.all[number as usize].at.id
    }

    fn number(&mut self, at: At) -> Number {
        let all = &mut self.all;
        *self.numbers.entry(at).or_insert_with(|| {
            all.push(Way { at, met: Vec::new(), next: Vec::new(), leads: false });
            last_of(all)
        })
    }

    fn add(&mut self, number: usize, around: Around, steps: &Steps<'_>, kinds: &Kinds, stops: &[&Allow]) {
        let mut next = Vec::with_capacity(around.next.len());
        for (to, offset) in around.next {
            if let Some(known) = self.numbers.get(&to) {
                next.push((*known, offset));
            } else if stops.iter().any(|stop| stop.covers(&steps.program.named(to.id).name)) {
                self.let_pass.insert(to.id);
            } else if steps.program.is_called_deterministic(to.id) {
                self.believed.insert(to.id);
            } else {
                next.push((self.number(to), offset));
            }
        }
        let met = around.met.into_iter().filter(|met| kinds.include(met.kind)).collect();
        let way = &mut self.all[number];
        (way.met, way.next) = (met, next);
    }

    fn mark(&mut self) {
        // Most ways lead to later numbers, so few rounds are needed.
        let mut is_new = true;
        while is_new {
            is_new = false;
            for number in (0..self.all.len()).rev() {
                let way = &self.all[number];
                let leads = || way.next.iter().any(|(next, _)| self.all[*next as usize].leads);
                if !way.leads && (!way.met.is_empty() || leads()) {
                    self.all[number].leads = true;
                    is_new = true;
                }
            }
        }
    }
}

/// Whether something of these kinds is reached from a function at which ways end.
pub(crate) fn hides(steps: &Steps<'_>, id: Id, kinds: &Kinds) -> bool {
    Ways::new(steps, &[id], (kinds, &[]), 1).all.iter().any(|way| way.leads)
}

#[allow(clippy::cast_possible_truncation, reason = "nodes are counted with as many bits")]
fn last_of(all: &[Way]) -> Number {
    (all.len() - 1) as Number
}
