//! Which runs have something new: a look at the store's list of runs.
//!
//! Promise: every run that was ever in the list is found, also after a crash of the exporter, as long as it is not purged
//! before.

use std::collections::BTreeSet;
use std::time::Duration;

use aether_core::id::RunId;
use aether_core::store::{RunFilter, RunRecord, Store, StoreError};
use jiff::Timestamp;

use crate::metrics::OpenRuns;
use crate::progress::{Kept, Reached};

/// Runs of one page of the list.
const PAGE: usize = 500;
/// Age from which no creation can be under way any more that gets an earlier place in the list.
const SETTLED: Duration = Duration::from_secs(60);

/// Adds new runs to `kept`, and returns those that have something new, and how many are open. `first` says that nothing was ever kept: then runs
/// that ended a minute ago or longer are left to a backfill.
pub(crate) async fn sweep(
    store: &dyn Store,
    kept: &mut Kept,
    now: Timestamp,
    first: bool,
) -> Result<(BTreeSet<RunId>, OpenRuns), StoreError> {
    let settled = now.checked_sub(SETTLED).unwrap_or(Timestamp::MIN);
    let mut found = Found { moved: BTreeSet::new(), seen: BTreeSet::new() };
    let mut floor = kept.floor;
    let mut newest = RunFilter::new().limit(PAGE);
    'list: loop {
        let page = store.runs(newest.clone()).await?;
        let Some(last) = page.last() else { break };
        newest.after = Some(last.place);
        for record in &page {
            let place = record.place.number();
            if record.created_at < settled {
                floor = floor.max(place);
            }
            if place <= kept.floor || (first && record.created_at < settled) {
                break 'list;
            }
            found.look_at(record, kept);
        }
    }
    let (mut open, mut counted) = (RunFilter::new().open().limit(PAGE), OpenRuns::default());
    loop {
        let page = store.runs(open.clone()).await?;
        let Some(last) = page.last() else { break };
        open.after = Some(last.place);
        for record in &page {
            counted.add(record);
            if first {
                begin(record, kept);
            }
            found.look_at(record, kept);
        }
    }
    kept.raise(floor);
    // Ended since, or purged: reading tells.
    let Found { mut moved, seen } = found;
    moved.extend(kept.open.keys().filter(|run| !seen.contains(*run)).cloned());
    Ok((moved, counted))
}

struct Found {
    moved: BTreeSet<RunId>,
    seen: BTreeSet<RunId>,
}

impl Found {
    fn look_at(&mut self, record: &RunRecord, kept: &mut Kept) {
        if kept.is_new(&record.id, record.place.number()) {
            begin(record, kept);
        }
        let Some(reached) = kept.open.get(&record.id) else { return };
        self.seen.insert(record.id.clone());
        if record.next > reached.counted || record.next > reached.exported || record.status.is_terminal() {
            self.moved.insert(record.id.clone());
        }
    }
}

fn begin(record: &RunRecord, kept: &mut Kept) {
    let place = record.place.number();
    kept.open.entry(record.id.clone()).or_insert(Reached { place, ..Reached::default() });
}
