//! Ended runs in memory: which there are, and deleting them.
//!
//! Promise: a run that is open, or whose parent is, is not deleted; store-wide business keys stay taken.

use std::ops::Bound;

use jiff::Timestamp;

use crate::store::memory::content::Content;
use crate::store::memory::reservations::is_of_run;
use crate::store::purge::{EndedRuns, Purged};
use crate::store::records::RunRecord;
use crate::vocabulary::id::RunId;

impl Content {
    /// Deletes a run, unless it or the run that started it is open.
    pub(super) fn purge(&mut self, run: &RunId, created_at: Option<Timestamp>) -> Purged {
        let Some(record) = self.runs.get(run).map(|run| &run.record) else { return Purged::Unknown };
        if created_at.is_some_and(|created_at| created_at != record.created_at) {
            return Purged::Unknown;
        }
        if !record.status.is_terminal() {
            return Purged::Open(record.status);
        }
        let parent = record.parent.as_ref().and_then(|parent| self.runs.get(parent));
        if let Some(parent) = parent.filter(|parent| !parent.record.status.is_terminal()) {
            return Purged::ParentOpen(parent.record.id.clone());
        }
        for row in self.ledger.iter_mut() {
            let Some(entry) = row.take_if(|entry| entry.run == *run) else { continue };
            self.keys.remove(&entry.key);
            if let Some(key) = entry.business_key.as_ref().filter(|key| is_of_run(key)) {
                self.business.remove(key);
            }
            self.reservations.seal(entry);
        }
        self.created.retain(|_, id| id != run);
        self.runs.remove(run);
        self.waits.remove(run);
        self.blobs.purge(run);
        Purged::Deleted
    }

    pub(super) fn ended(&self, query: &EndedRuns) -> Vec<(u64, RunRecord)> {
        let is_old = |record: &RunRecord| {
            query
                .before
                .iter()
                .any(|(status, before)| record.status == *status && record.updated_at < *before)
        };
        let later = self.created.range((Bound::Excluded(query.after), Bound::Unbounded));
        let ended = later.filter_map(|(no, id)| Some((*no, self.runs.get(id)?.record.clone())));
        ended.filter(|(_, record)| record.status.is_terminal() && is_old(record)).take(query.limit).collect()
    }
}
