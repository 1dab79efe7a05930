//! Schedules and keyed starts through the codec.
//!
//! Promise: one that cannot be read is in the way of no other, and makes no page shorter.

use jiff::Timestamp;

use crate::codec::coded::CodedStore;
use crate::codec::values::is_erased;
use crate::store::error::StoreError;
use crate::store::queues::{DueStarts, KeyedStart};
use crate::store::schedules::{DueSchedules, ScheduleRecord};
use crate::vocabulary::payload::Payload;

impl CodedStore {
    /// One whose input cannot be read is listed with what stands in the store.
    pub(super) fn open_listed(&self, mut schedules: Vec<ScheduleRecord>) -> Vec<ScheduleRecord> {
        for schedule in &mut schedules {
            let mut opened = schedule.clone();
            if self.seal.open_schedule(&mut opened).is_ok() {
                *schedule = opened;
            }
        }
        schedules
    }

    /// A page without those whose input cannot be read: they start nothing. A warning tells of each.
    pub(super) async fn readable_due_schedules(
        &self,
        query: DueSchedules,
    ) -> Result<Vec<ScheduleRecord>, StoreError> {
        let read = |after, limit| self.inner.due_schedules(DueSchedules { after, limit, ..query.clone() });
        let place = |schedule: &ScheduleRecord| schedule.due_at().map(|due| (due, schedule.name.clone()));
        let opens = |schedule: &mut ScheduleRecord| {
            let opened = self.seal.open_schedule(schedule);
            if let Err(error) = &opened {
                tracing::warn!(target: "aether::engine", schedule = schedule.name, %error, "a schedule cannot start a run");
            }
            opened.is_ok()
        };
        page(query.after.clone(), query.limit, read, place, opens).await
    }

    /// One whose key was destroyed has the record `null`, so that it can be removed.
    pub(super) fn open_keyed_start(&self, mut start: KeyedStart) -> Result<KeyedStart, StoreError> {
        match self.seal.open_start(&mut start) {
            Err(error) if is_erased(&error) => start.record = Payload::null(),
            opened => opened?,
        }
        Ok(start)
    }

    /// A page without those that cannot be read. A warning tells of each.
    pub(super) async fn readable_due_starts(&self, query: DueStarts) -> Result<Vec<KeyedStart>, StoreError> {
        let read = |after, limit| self.inner.due_starts(DueStarts { after, limit, ..query.clone() });
        let place = |start: &KeyedStart| Some((start.due_at, start.name.clone()));
        let opens = |start: &mut KeyedStart| {
            let opened = self.seal.open_start(start);
            if let Err(error) = &opened {
                tracing::warn!(target: "aether::engine", name = start.name, %error, "a keyed start cannot begin");
            }
            opened.is_ok()
        };
        page(query.after.clone(), query.limit, read, place, opens).await
    }
}

/// A page of those that `opens`: for each that does not, it reads on.
async fn page<T, R>(
    mut after: Option<(Timestamp, String)>,
    limit: usize,
    read: impl Fn(Option<(Timestamp, String)>, usize) -> R,
    place: impl Fn(&T) -> Option<(Timestamp, String)>,
    opens: impl Fn(&mut T) -> bool,
) -> Result<Vec<T>, StoreError>
where
    R: Future<Output = Result<Vec<T>, StoreError>>,
{
    let mut found = Vec::new();
    loop {
        let wanted = limit.saturating_sub(found.len());
        let mut read = read(after, wanted).await?;
        let is_last = read.len() < wanted;
        after = read.last().and_then(&place);
        read.retain_mut(&opens);
        found.extend(read);
        if is_last || found.len() >= limit {
            return Ok(found);
        }
    }
}
