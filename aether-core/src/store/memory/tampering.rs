//! What tests do to a memory store that no engine does: a ledger row without an append, a journal that is cut off.
//!
//! Promise: only what a method names changes; the indexes of the store stay valid.

use crate::store::ledger::LedgerEntry;
use crate::store::memory::MemoryStore;
use crate::store::memory::reservations::is_of_run;
use crate::vocabulary::contract::Status;
use crate::vocabulary::id::{Position, RunId};

impl MemoryStore {
    /// For tests: writes a ledger row without an append, in place of a row with the same key. No engine does this.
    pub fn put_entry(&self, entry: LedgerEntry) {
        let mut content = self.content();
        match content.keys.get(&entry.key).copied() {
            Some(row) => {
                if let Some(old) = content.row(row).and_then(|old| old.business_key.clone()) {
                    content.business.remove(&old);
                }
                if let Some(key) = entry.business_key.as_ref().filter(|key| is_of_run(key)) {
                    content.business.insert(key.clone(), row);
                }
                if let Some(old) = content.ledger.get_mut(row) {
                    *old = Some(entry);
                }
            }
            None => content.insert(entry),
        }
    }

    /// For tests: drops every frame of `run` from `position` on, as if the process had died before they became
    /// durable, and makes the run due, without an owner. Ledger and inbox stay unchanged. A `position` inside a frame
    /// cuts before that frame. Returns the run's next position afterwards; `None` for an unknown run.
    pub fn truncate(&self, run: &RunId, position: Position) -> Option<Position> {
        let mut content = self.content();
        content.waits.unlist(run);
        let run = content.runs.get_mut(run)?;
        let mut ends = run.frames.iter().skip(1).map(|frame| frame.position).collect::<Vec<_>>();
        ends.push(run.record.next);
        let kept = ends.iter().take_while(|end| **end <= position).count();
        run.frames.truncate(kept);
        run.record.next = kept.checked_sub(1).and_then(|last| ends.get(last)).copied().unwrap_or(0);
        run.record.status = Status::Running;
        run.record.wake_at = Some(run.record.created_at);
        run.release();
        Some(run.record.next)
    }
}
