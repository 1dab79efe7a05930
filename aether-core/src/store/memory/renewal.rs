//! A new generation in memory: what belongs to the one before goes.
//!
//! Promise: what a [`Renewal`] does not name stays.

use crate::store::memory::content::Content;
use crate::store::renewal::Renewal;
use crate::vocabulary::id::{Position, RunId};

impl Content {
    /// Begins a generation of `run` with the frame at `base`, which is in its journal already.
    pub(super) fn renew(&mut self, run: &RunId, base: Position, renewal: &Renewal) {
        for row in self.ledger.iter_mut() {
            if let Some(entry) = row.take_if(|entry| entry.run == *run && Renewal::drops(entry)) {
                self.keys.remove(&entry.key);
            }
        }
        let Some(run) = self.runs.get_mut(run) else { return };
        run.frames.retain(|frame| frame.position >= base);
        run.effects.retain(|effect| self.keys.contains_key(&effect.key));
        run.inbox.forget_before(renewal.began);
        run.snapshot = None;
        run.progress.clear();
        run.record.workflow.clone_from(&renewal.workflow);
        run.record.version = renewal.version;
    }
}
