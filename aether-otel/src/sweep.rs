//! Which runs have something new: a look at the store's list of runs.
//!
//! Promise: every run that was ever in the list is found, also after a crash of the exporter and whatever the clocks of other
//! hosts say, as long as it is not purged before. A run of which only spans wait is not read again.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use aether_core::id::RunId;
use aether_core::store::{RunFilter, RunRecord, Store, StoreError};
use jiff::Timestamp;
use tokio::time::Instant;

use crate::metrics::OpenRuns;
use crate::progress::{Kept, Reached};
use crate::reader::Reader;

/// Runs of one page of the list.
const PAGE: usize = 500;
/// Age from which no creation can be under way any more that gets an earlier place in the list.
const SETTLED: Duration = Duration::from_secs(60);
/// By how much clocks of hosts may differ. What is older by them is settled, too, for a process that lives for less than the
/// time above.
const CLOCKS: Duration = Duration::from_secs(3_600);

/// Looks at the list of runs, again and again.
#[derive(Debug)]
pub(crate) struct Sweep {
    /// When the process began to count.
    began: Timestamp,
    settled: Duration,
    /// Places at the end of the list, with when this process saw them there: clocks of other hosts do not matter.
    seen: VecDeque<(Instant, u64)>,
}

impl Sweep {
    pub(crate) fn new(now: Timestamp) -> Self {
        // Some stores keep times in milliseconds.
        let began = Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now);
        Self { began, settled: SETTLED, seen: VecDeque::new() }
    }

    /// Adds new runs to `kept`, and returns those that have something new, and how many are open. `first` says that nothing
    /// was ever kept: then runs that ended a minute ago or longer are left to a backfill, and of runs that were there before
    /// this process began, only what they record from now on is counted.
    pub(crate) async fn look(
        &mut self,
        store: &dyn Store,
        kept: &mut Kept,
        first: bool,
        reader: &Reader,
    ) -> Result<(BTreeSet<RunId>, OpenRuns), StoreError> {
        let looked = Instant::now();
        let before = |age: Duration| Timestamp::now().checked_sub(age).unwrap_or(Timestamp::MIN);
        let (old, ancient) = (before(self.settled), before(CLOCKS));
        let counts_from = first.then_some(self.began);
        let mut found = Found { moved: BTreeSet::new(), seen: BTreeSet::new(), reader, counts_from };
        let (mut floor, mut end) = (kept.floor, kept.floor);
        let mut newest = RunFilter::new().limit(PAGE);
        'list: loop {
            let page = store.runs(newest.clone()).await?;
            let Some(last) = page.last() else { break };
            newest.after = Some(last.place);
            for record in &page {
                let place = record.place.number();
                end = end.max(place);
                if first && record.created_at < old {
                    floor = floor.max(place);
                    break 'list;
                }
                if place <= kept.floor {
                    break 'list;
                }
                if record.created_at < ancient {
                    floor = floor.max(place);
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
                // A run that is open is not exported to its end, whatever its place.
                found.begin(record, kept);
                found.look_at(record, kept);
            }
        }
        let Found { mut moved, seen, .. } = found;
        // Ended since, or purged: reading tells.
        let unseen = kept.open.keys().filter(|run| !seen.contains(*run) && !reader.knows_end(run));
        moved.extend(unseen.cloned());
        kept.raise(floor.max(self.settled_floor(looked, end)));
        Ok((moved, counted))
    }

    /// The place up to which the list was complete at `looked`, when it ended at `end`.
    fn settled_floor(&mut self, looked: Instant, end: u64) -> u64 {
        if self.seen.back().is_none_or(|(_, place)| *place < end) {
            self.seen.push_back((looked, end));
        }
        let mut floor = 0;
        while let Some((_, place)) =
            self.seen.pop_front_if(|(at, _)| looked.duration_since(*at) >= self.settled)
        {
            floor = place;
        }
        floor
    }
}

struct Found<'a> {
    moved: BTreeSet<RunId>,
    seen: BTreeSet<RunId>,
    reader: &'a Reader,
    /// Where nothing was kept, when the process began to count.
    counts_from: Option<Timestamp>,
}

impl Found<'_> {
    fn look_at(&mut self, record: &RunRecord, kept: &mut Kept) {
        if kept.is_new(&record.id, record.place.number()) {
            self.begin(record, kept);
        }
        let Some(reached) = kept.open.get(&record.id) else { return };
        self.seen.insert(record.id.clone());
        let is_unexported = record.next > reached.exported || record.status.is_terminal();
        if record.next > reached.counted || (is_unexported && !self.reader.knows(&record.id)) {
            self.moved.insert(record.id.clone());
        }
    }

    fn begin(&self, record: &RunRecord, kept: &mut Kept) {
        let is_older = self.counts_from.is_some_and(|began| record.created_at < began);
        let counted = if is_older { record.next } else { 0 };
        let reached = Reached { place: record.place.number(), exported: 0, counted };
        kept.open.entry(record.id.clone()).or_insert(reached);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use aether_core::id::CodeId;
    use aether_core::journal::Frame;
    use aether_core::journal::event::RunWaiting;
    use aether_core::payload::{Digest, Payload};
    use aether_core::store::NewRun;
    use aether_core::store::memory::MemoryStore;

    use super::*;
    use crate::reader::Room;
    use crate::registry::Registry;
    use crate::settings::Settings;

    /// Creates a run by a clock that is late.
    async fn create(store: &MemoryStore, name: &str, late: Duration) {
        let at = Timestamp::now().checked_sub(late).unwrap();
        let new = NewRun {
            id: RunId::new(name).unwrap(),
            workflow: "flow".into(),
            version: 1,
            code: CodeId::of("shop", "flow", 1, "0011223344556677"),
            digest: Digest::of(&Payload::null()).unwrap(),
            parent: None,
            labels: Default::default(),
            traceparent: None,
            frame: Frame::encode(&[RunWaiting { until: None, on: Vec::new(), more: 0 }.into()]).unwrap(),
            at,
            owner: None,
            parent_epoch: None,
            terms: Default::default(),
        };
        store.create(new).await.unwrap();
    }

    #[tokio::test]
    async fn the_floor_follows_what_this_process_saw_and_not_the_clocks_of_others() {
        let (store, mut kept) = (Arc::new(MemoryStore::new()), Kept::default());
        let shared = Arc::clone(&store) as Arc<dyn Store>;
        let reader =
            Reader::new(shared, Settings::default(), Arc::new(Registry::default()), true, Room::default());
        let mut sweep = Sweep::new(Timestamp::now());
        let late = CLOCKS / 2;
        create(&store, "first", late).await;
        sweep.look(&*store, &mut kept, false, &reader).await.unwrap();
        // A creation with an earlier place may be under way.
        assert_eq!(kept.floor, 0);
        assert_eq!(kept.open.len(), 1);
        create(&store, "second", late).await;
        sweep.look(&*store, &mut kept, false, &reader).await.unwrap();
        assert_eq!((kept.floor, kept.open.len()), (0, 2));
        sweep.settled = Duration::ZERO;
        sweep.look(&*store, &mut kept, false, &reader).await.unwrap();
        assert!(kept.floor > 0);
        // A process that lives for less than a minute has a floor, too.
        let mut short = Sweep::new(Timestamp::now());
        let floor = kept.floor;
        create(&store, "third", CLOCKS * 2).await;
        short.look(&*store, &mut kept, false, &reader).await.unwrap();
        assert!(kept.floor > floor);
        // Whatever the floor, what is open is looked at.
        kept.open.clear();
        let (moved, _) = sweep.look(&*store, &mut kept, false, &reader).await.unwrap();
        assert_eq!((moved.len(), kept.open.len()), (3, 3));
    }
}
