//! All that any of the workflows reaches, looked at once: they share most of it.
//!
//! Promise: what is met behind a way marks it, so that a walk from one workflow passes over what leads nowhere.

use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::allow::{Allow, Kinds};
use crate::graph::nodes::Id;
use crate::graph::parts::Kind;
use crate::parallel;
use crate::rules::Level;
use crate::steps::{Around, At, Met, Source, Steps};

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
    /// The ways of each root.
    pub(crate) starts: Vec<Vec<Number>>,
    /// Helpers at which they end, because their authors call them deterministic.
    pub(crate) believed: BTreeSet<Id>,
    /// Functions at which they end, because the project lets them pass.
    pub(crate) let_pass: BTreeSet<Id>,
    numbers: FxHashMap<At, Number>,
}

impl Ways {
    /// Those from `roots`, on `jobs` threads; things of other kinds are not met, and nothing is entered that `stops` cover.
    pub(crate) fn new(steps: &Steps<'_>, roots: &[&[Id]], of: (&Kinds, &[&Allow]), jobs: usize) -> Self {
        let (mut ways, (kinds, stops)) = (Self::default(), of);
        for begins in roots {
            let starts = begins.iter().map(|id| ways.number(steps.start(*id))).collect();
            ways.starts.push(starts);
        }
        let mut looked = 0;
        while looked < ways.all.len() {
            let ahead: Vec<At> = ways.all[looked..].iter().map(|way| way.at).collect();
            for around in parallel::map(&ahead, jobs, |at| steps.around(*at)) {
                ways.add(looked, around, steps, kinds, stops);
                looked += 1;
            }
        }
        ways.tell_caches_from_what_others_write(steps);
        ways.mark();
        ways
    }

    /// What is behind a cell may be a cache, which those fill who read it. It is none where all that is reached only reads it,
    /// and a function that is not reached, such as one that loads the configuration anew, changes it.
    fn tell_caches_from_what_others_write(&mut self, steps: &Steps<'_>) {
        let cell = |met: &Met| match met.source {
            Source::Named(id) if met.kind == "static" && met.level == Level::Note => Some(id),
            _ => None,
        };
        let mut read = FxHashSet::default();
        for way in &self.all {
            let cells = way.met.iter().filter_map(&cell);
            read.extend(cells.filter(|_| steps.only_reads(way.at.id)));
        }
        let reached: FxHashSet<Id> = self.all.iter().map(|way| way.at.id).collect();
        let written = written_elsewhere(steps, &read, &reached);
        for way in &mut self.all {
            let is_written = |met: &&mut Met| cell(met).is_some_and(|cell| written.contains(&cell));
            way.met.iter_mut().filter(is_written).for_each(|met| met.level = Level::Error);
        }
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

/// Those of `cells` that code changes which is not reached, and that no code which is reached changes.
fn written_elsewhere(steps: &Steps<'_>, cells: &FxHashSet<Id>, reached: &FxHashSet<Id>) -> FxHashSet<Id> {
    let (mut elsewhere, mut here) = (FxHashSet::default(), FxHashSet::default());
    if cells.is_empty() {
        return elsewhere;
    }
    for (id, node) in steps.program.graph.iter().filter(|(_, node)| node.kind == Kind::Code) {
        let named = steps.program.graph.named_by(id).iter().map(|(to, _)| *to);
        let named: Vec<Id> = named.filter(|to| cells.contains(to)).collect();
        if node.symbol.is_some() && !named.is_empty() && steps.changes(id) {
            let written = if reached.contains(&id) { &mut here } else { &mut elsewhere };
            written.extend(named);
        }
    }
    elsewhere.retain(|cell| !here.contains(cell));
    elsewhere
}

/// Whether something of these kinds is reached from a function at which ways end.
pub(crate) fn hides(steps: &Steps<'_>, id: Id, kinds: &Kinds) -> bool {
    Ways::new(steps, &[&[id]], (kinds, &[]), 1).all.iter().any(|way| way.leads)
}

#[allow(clippy::cast_possible_truncation, reason = "nodes are counted with as many bits")]
fn last_of(all: &[Way]) -> Number {
    (all.len() - 1) as Number
}
