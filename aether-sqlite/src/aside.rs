//! Transaction steps that cannot be carried out for the moment, each with what its run has queued behind it.
//!
//! Promise: what one run appends stays in its order, and a run is left to other workers only when nothing of it waits here;
//! nothing else waits for it. A step may find no room, or no connection, where every other write does. One that was called
//! off is the next to be taken, so that what waits behind it waits no longer.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use aether_core::id::RunId;
use aether_core::store::{Append, StoreError};

use crate::request::{Op, Pending, Try};
use crate::sched::Instant;
use crate::stuck::Stuck;

/// What waits, and when the next step of it is tried again.
#[derive(Default)]
pub(crate) struct Aside {
    /// The steps in the order in which they are tried.
    turns: VecDeque<RunId>,
    waiting: HashMap<RunId, VecDeque<Pending>>,
    due: Option<Instant>,
    stuck: Option<Stuck>,
}

impl Aside {
    /// Puts a step aside that could not be carried out: it is tried behind the others.
    pub(crate) fn put(&mut self, step: Append, error: StoreError) {
        let run = step.run.clone();
        self.turns.push_back(run.clone());
        self.waiting.insert(run, VecDeque::from([Pending { op: Op::Append(step), try_: Try::Again }]));
        let stuck = self
            .stuck
            .get_or_insert_with(|| Stuck::new("a transaction step cannot be carried out", error.clone()));
        stuck.failed(error, self.turns.iter().map(Some));
        self.due = Some(Instant::now() + stuck.next_pause());
    }

    /// `next`, unless it is to wait behind a step of its run.
    pub(crate) fn behind(&mut self, next: Pending) -> Option<Pending> {
        let Some(stuck) = self.stuck.as_ref().filter(|_| !self.turns.is_empty()) else { return Some(next) };
        match next.op {
            Op::Append(append) => match self.waiting.entry(append.run.clone()) {
                Entry::Occupied(mut waiting) => {
                    waiting.get_mut().push_back(Pending { op: Op::Append(append), try_: next.try_ });
                    None
                }
                Entry::Vacant(_) => Some(Pending { op: Op::Append(append), try_: next.try_ }),
            },
            // Another worker that took the run would fence what waits.
            Op::Call(call) if call.releases().is_some_and(|run| self.waiting.contains_key(run)) => {
                call.answer(Err(stuck.error.clone()));
                None
            }
            op => Some(Pending { op, try_: next.try_ }),
        }
    }

    /// When the next step is tried again; `None` where none waits.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due.filter(|_| !self.turns.is_empty())
    }

    /// The step that is to be tried again by now, and what waits behind it.
    pub(crate) fn take_due(&mut self) -> VecDeque<Pending> {
        if self.due().is_none_or(|due| due > Instant::now()) {
            return VecDeque::new();
        }
        let next = self.turns.iter().position(|run| self.is_called_off(run)).unwrap_or(0);
        let run = self.turns.remove(next);
        run.and_then(|run| self.waiting.remove(&run)).unwrap_or_default()
    }

    /// Whether nobody waits for the step of `run` any more.
    fn is_called_off(&self, run: &RunId) -> bool {
        let step = self.waiting.get(run).and_then(VecDeque::front).map(|pending| &pending.op);
        matches!(step, Some(Op::Append(Append { work: Some(work), .. })) if work.is_called_off())
    }

    /// A step was carried out, refused, or called off: nothing keeps the next one waiting.
    pub(crate) fn is_decided(&mut self, store: &str) {
        self.due = Some(Instant::now());
        if self.turns.is_empty()
            && let Some(stuck) = self.stuck.take()
        {
            stuck.over(store);
        }
    }

    /// All that waits, and why, if anything does.
    pub(crate) fn give_up(&mut self) -> Option<(Vec<Pending>, StoreError)> {
        let stuck = self.stuck.take().filter(|_| !self.turns.is_empty())?;
        let waiting = self.turns.drain(..).filter_map(|run| self.waiting.remove(&run));
        Some((waiting.flatten().collect(), stuck.error))
    }
}
