//! What a store in memory keeps of its queues: lanes of ready runs, limits and what they count, keyed starts.
//!
//! Promise: a lane is active exactly while it holds a ready run and was not set aside.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;

use crate::store::queues::{DueStarts, KeyedStart, Limit};
use crate::vocabulary::id::{CodeId, RunId};
use crate::vocabulary::queue::LimitPattern;

/// What a store keeps of its queues.
#[derive(Debug, Default)]
pub(super) struct Queues {
    pub(super) limits: BTreeMap<(LimitPattern, &'static str), Limit>,
    /// Virtual time of each queue, and when it was served last.
    pub(super) times: BTreeMap<String, (i64, u64)>,
    pub(super) served: u64,
    pub(super) lanes: BTreeMap<(String, String), LaneOfKey>,
    pub(super) starts: BTreeMap<String, VecDeque<Timestamp>>,
    keyed: BTreeMap<String, KeyedStart>,
    /// Runs of queues that are open, in the order of their creation.
    pub(super) open: BTreeMap<u64, RunId>,
}

#[derive(Debug, Default)]
pub(super) struct LaneOfKey {
    pub(super) time: i64,
    pub(super) aside: Option<Timestamp>,
    /// By rank and place in the order of creation.
    pub(super) ready: BTreeMap<(i64, u64), ReadyRun>,
}

#[derive(Debug)]
pub(super) struct ReadyRun {
    pub(super) run: RunId,
    pub(super) code: CodeId,
    pub(super) is_new: bool,
}

impl LaneOfKey {
    pub(super) fn is_active(&self) -> bool {
        self.aside.is_none() && !self.ready.is_empty()
    }

    pub(super) fn has_begun(&self) -> bool {
        self.ready.values().any(|run| !run.is_new)
    }
}

impl Queues {
    pub(super) fn put_limit(&mut self, limit: Limit) {
        self.limits.insert((limit.pattern.clone(), limit.kind.name()), limit);
        self.look_again();
    }

    pub(super) fn remove_limit(&mut self, pattern: &LimitPattern, kind: &str) -> bool {
        let before = self.limits.len();
        self.limits.retain(|(of, name), _| of != pattern || *name != kind);
        let prefix = format!("{pattern}\n");
        if kind == "starts" {
            self.starts.retain(|counter, _| !counter.starts_with(&prefix));
        }
        self.look_again();
        self.limits.len() < before
    }

    pub(super) fn limits(&self) -> Vec<Limit> {
        self.limits.values().cloned().collect()
    }

    /// Limits have changed: what was set aside for one may be taken.
    fn look_again(&mut self) {
        self.lanes.values_mut().for_each(|lane| lane.aside = None);
    }

    pub(super) fn note_open(&mut self, no: u64, run: &RunId) {
        self.open.insert(no, run.clone());
    }

    pub(super) fn keyed_start(&self, name: &str) -> Option<KeyedStart> {
        self.keyed.get(name).cloned()
    }

    pub(super) fn put_keyed_start(&mut self, start: KeyedStart, replaces: u64) -> bool {
        let found = self.keyed.get(&start.name).map_or(0, |known| known.revision);
        if found == replaces {
            self.keyed.insert(start.name.clone(), start);
        }
        found == replaces
    }

    pub(super) fn remove_keyed_start(&mut self, name: &str, revision: u64) -> bool {
        let is_there = self.keyed.get(name).is_some_and(|known| known.revision == revision);
        if is_there {
            self.keyed.remove(name);
        }
        is_there
    }

    pub(super) fn due_starts(&self, query: &DueStarts) -> Vec<KeyedStart> {
        let behind = query.after.as_ref().map(|(due_at, name)| (*due_at, name));
        let is_due = |start: &&KeyedStart| {
            start.due_at <= query.now
                && query.workflows.contains(&start.workflow)
                && behind.is_none_or(|behind| (start.due_at, &start.name) > behind)
        };
        let mut due: Vec<_> = self.keyed.values().filter(is_due).cloned().collect();
        due.sort_by(|a, b| (a.due_at, &a.name).cmp(&(b.due_at, &b.name)));
        due.truncate(query.limit);
        due
    }
}
