//! What the memory store knows of code: runs of other code, and definitions.
//!
//! Promise: runs come in the order of their places; the first definition of a code stays.

use std::ops::Bound;

use crate::store::codes::{DefinitionRecord, ForeignRuns, Recode};
use crate::store::memory::content::{Content, Run};
use crate::store::records::RunRecord;

impl Content {
    pub(super) fn recode(&mut self, runs: Vec<Recode>) -> usize {
        let mut count = 0;
        for Recode { run, epoch, was, code } in runs {
            let is_free = |run: &&mut Run| run.is_free(&[]) && !run.record.parked;
            let is_it = |run: &&mut Run| (run.record.epoch, &run.record.code) == (epoch, &was);
            let found = self.runs.get_mut(&run).filter(is_it).filter(is_free);
            let Some(run) = found else { continue };
            run.record.code = code;
            count += 1;
            if run.is_ready() {
                let no = run.record.place.number();
                self.make_ready(no);
            }
        }
        count
    }

    pub(super) fn foreign(&self, query: &ForeignRuns) -> Vec<RunRecord> {
        let due = query.due.as_ref().map(|(now, silent)| (*now, self.workers.still_silent(silent)));
        let after = query.after.map_or(Bound::Unbounded, |place| Bound::Excluded(place.number()));
        let limit = if query.limit == 0 { usize::MAX } else { query.limit };
        let later = self.created.range((after, Bound::Unbounded)).filter_map(|(_, id)| self.runs.get(id));
        let open = later.filter(|run| !run.record.status.is_terminal());
        let foreign = open.filter(|run| run.record.parked || !query.codes.contains(&run.record.code));
        let wanted = foreign.filter(|run| {
            let claimable = |now, silent| !run.record.parked && run.is_due(now) && run.is_free(silent);
            due.as_ref().is_none_or(|(now, silent)| claimable(*now, silent))
        });
        wanted.take(limit).map(|run| run.record.clone()).collect()
    }

    pub(super) fn all_definitions(&self) -> Vec<DefinitionRecord> {
        let mut all: Vec<_> = self.definitions.values().cloned().collect();
        all.sort_by(|a, b| (a.first_seen, &a.code).cmp(&(b.first_seen, &b.code)));
        all
    }
}
