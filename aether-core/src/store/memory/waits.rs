//! The list of open waits in memory.
//!
//! Promise: a wait keeps its place until it is closed; a journal that a test cut off counts as not listed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::sched::HashMap;
use crate::store::records::RunRecord;
use crate::store::waits::{ListedWait, OpenWait, WaitChange, WaitFilter, WaitPlace};
use crate::vocabulary::id::{CommandId, RunId};

/// The open waits of all runs.
#[derive(Debug, Default)]
pub(super) struct Waits {
    rows: BTreeMap<u64, (RunId, OpenWait)>,
    places: HashMap<RunId, BTreeMap<CommandId, u64>>,
    newest: u64,
    unlisted: BTreeSet<RunId>,
}

impl Waits {
    pub(super) fn change(&mut self, run: &RunId, changes: &[WaitChange]) {
        for change in changes {
            match change {
                WaitChange::Opened(wait) => self.open(run, wait),
                WaitChange::Closed(command) => self.close(run, command),
            }
        }
    }

    fn open(&mut self, run: &RunId, wait: &OpenWait) {
        let newest = &mut self.newest;
        let places = self.places.entry(run.clone()).or_default();
        let place = *places.entry(wait.command.clone()).or_insert_with(|| {
            *newest += 1;
            *newest
        });
        self.rows.insert(place, (run.clone(), wait.clone()));
    }

    fn close(&mut self, run: &RunId, command: &CommandId) {
        let Some(places) = self.places.get_mut(run) else { return };
        if let Some(place) = places.remove(command) {
            self.rows.remove(&place);
        }
        if places.is_empty() {
            self.places.remove(run);
        }
    }

    /// Forgets everything of a run.
    pub(super) fn remove(&mut self, run: &RunId) {
        for place in self.places.remove(run).unwrap_or_default().into_values() {
            self.rows.remove(&place);
        }
        self.unlisted.remove(run);
    }

    /// Forgets what is listed of a run until it is listed anew.
    pub(super) fn unlist(&mut self, run: &RunId) {
        self.remove(run);
        self.unlisted.insert(run.clone());
    }

    pub(super) fn unlisted(&self, limit: usize) -> Vec<RunId> {
        let limit = if limit == 0 { usize::MAX } else { limit };
        self.unlisted.iter().take(limit).cloned().collect()
    }

    /// What `filter` lets through; `run_of` tells of the runs.
    pub(super) fn listed<'c>(
        &self,
        filter: &WaitFilter,
        run_of: impl Fn(&RunId) -> Option<&'c RunRecord>,
    ) -> Vec<ListedWait> {
        let after = filter.after.map_or(Bound::Unbounded, |place| Bound::Excluded(place.number()));
        let limit = if filter.limit == 0 { usize::MAX } else { filter.limit };
        let rows = self.rows.range((after, Bound::Unbounded)).filter_map(|(place, (run, wait))| {
            let record = run_of(run)?;
            filter.lets_through(run, &record.workflow, wait).then(|| ListedWait {
                place: WaitPlace::new(*place),
                run: run.clone(),
                workflow: record.workflow.clone(),
                parked: record.parked,
                wait: wait.clone(),
            })
        });
        rows.take(limit).collect()
    }

    /// Replaces what is listed of a run.
    pub(super) fn list(&mut self, run: &RunId, waits: &[OpenWait]) {
        self.remove(run);
        waits.iter().for_each(|wait| self.open(run, wait));
    }
}
