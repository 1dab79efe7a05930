//! Schedules and keyed starts through the codec.
//!
//! Promise: one that cannot be read is in the way of no other, and makes no page shorter. One whose key was destroyed can be
//! paused and removed, and what stands of it in the store is not encoded once more.

use std::sync::PoisonError;

use jiff::Timestamp;

use crate::codec::coded::CodedStore;
use crate::codec::seal::reads_as_encoded;
use crate::codec::values::is_erased;
use crate::store::error::StoreError;
use crate::store::queues::{DueStarts, KeyedStart};
use crate::store::schedules::{DueSchedules, ScheduleRecord, TickOutcome};
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

    /// One whose key was destroyed is given as it stands in the store, so that it can be paused and removed.
    pub(super) fn open_named(&self, schedule: ScheduleRecord) -> Result<ScheduleRecord, StoreError> {
        let mut opened = schedule.clone();
        match self.seal.open_schedule(&mut opened) {
            Err(error) if is_erased(&error) => Ok(schedule),
            read => read.map(|()| opened),
        }
    }

    /// Writes a schedule. One that is erased, and was read as it stands, is written as it stands.
    pub(super) async fn put_sealed_schedule(
        &self,
        mut schedule: ScheduleRecord,
        replaces: u64,
    ) -> Result<bool, StoreError> {
        if reads_as_encoded(schedule.spec.input.as_str()) && self.stands(&schedule).await? {
            for tick in &mut schedule.recent {
                if let TickOutcome::Failed(why) = &mut tick.outcome
                    && !reads_as_encoded(why)
                {
                    // It may say something of the input.
                    *why = "the schedule is erased".into();
                }
            }
        } else {
            self.seal.seal_schedule(&mut schedule)?;
        }
        self.inner.put_schedule(schedule, replaces).await
    }

    /// Whether the input of a schedule is what stands in the store, encoded with a key that was destroyed.
    async fn stands(&self, schedule: &ScheduleRecord) -> Result<bool, StoreError> {
        let Some(mut found) = self.inner.schedule(&schedule.name).await? else { return Ok(false) };
        let is_same = found.spec.input == schedule.spec.input;
        Ok(is_same && self.seal.open_schedule(&mut found).is_err_and(|error| is_erased(&error)))
    }

    /// Whether it was not said yet that this schedule is erased.
    fn is_news(&self, schedule: &str) -> bool {
        self.erased.lock().unwrap_or_else(PoisonError::into_inner).insert(schedule.to_owned())
    }

    /// A page without those whose input cannot be read: they start nothing. A warning tells of each, and once of one that is
    /// erased: that stays so.
    pub(super) async fn readable_due_schedules(
        &self,
        query: DueSchedules,
    ) -> Result<Vec<ScheduleRecord>, StoreError> {
        let read = |after, limit| self.inner.due_schedules(DueSchedules { after, limit, ..query.clone() });
        let place = |schedule: &ScheduleRecord| schedule.due_at().map(|due| (due, schedule.name.clone()));
        let opens = |schedule: &mut ScheduleRecord| {
            let opened = self.seal.open_schedule(schedule);
            if let Err(error) = &opened
                && (!is_erased(error) || self.is_news(&schedule.name))
            {
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

    /// A page without those that cannot be read; those that are erased are there to be removed. A warning tells of each.
    pub(super) async fn readable_due_starts(&self, query: DueStarts) -> Result<Vec<KeyedStart>, StoreError> {
        let read = |after, limit| self.inner.due_starts(DueStarts { after, limit, ..query.clone() });
        let place = |start: &KeyedStart| Some((start.due_at, start.name.clone()));
        let opens = |start: &mut KeyedStart| match self.open_keyed_start(start.clone()) {
            Ok(opened) => {
                *start = opened;
                true
            }
            Err(error) => {
                tracing::warn!(target: "aether::engine", name = start.name, %error, "a keyed start cannot begin");
                false
            }
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
