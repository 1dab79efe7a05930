//! Schedules and keyed starts through the codec.
//!
//! Promise: one that cannot be read is in the way of no other, and makes no page shorter.

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

    /// A page of those that can be read.
    pub(super) async fn readable_due_schedules(
        &self,
        mut query: DueSchedules,
    ) -> Result<Vec<ScheduleRecord>, StoreError> {
        let mut found = Vec::new();
        loop {
            let page = self.inner.due_schedules(query.clone()).await?;
            let is_last = page.len() < query.limit;
            query.after = page.last().and_then(|last| last.due_at().map(|due| (due, last.name.clone())));
            let opened = self.open_due_schedules(page);
            query.limit = query.limit.saturating_sub(opened.len());
            found.extend(opened);
            if is_last || query.limit == 0 {
                return Ok(found);
            }
        }
    }

    /// Leaves out, with a warning, those whose input cannot be read: they start nothing.
    fn open_due_schedules(&self, mut due: Vec<ScheduleRecord>) -> Vec<ScheduleRecord> {
        due.retain_mut(|schedule| match self.seal.open_schedule(schedule) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(target: "aether::engine", schedule = schedule.name, %error, "a schedule cannot start a run");
                false
            }
        });
        due
    }

    /// One whose key was destroyed has the record `null`, so that it can be removed.
    pub(super) fn open_keyed_start(&self, mut start: KeyedStart) -> Result<KeyedStart, StoreError> {
        match self.seal.open_start(&mut start) {
            Err(error) if is_erased(&error) => start.record = Payload::null(),
            opened => opened?,
        }
        Ok(start)
    }

    /// A page of those that can be read.
    pub(super) async fn readable_due_starts(
        &self,
        mut query: DueStarts,
    ) -> Result<Vec<KeyedStart>, StoreError> {
        let mut found = Vec::new();
        loop {
            let page = self.inner.due_starts(query.clone()).await?;
            let is_last = page.len() < query.limit;
            query.after = page.last().map(|last| (last.due_at, last.name.clone()));
            let opened = self.open_due_starts(page);
            query.limit = query.limit.saturating_sub(opened.len());
            found.extend(opened);
            if is_last || query.limit == 0 {
                return Ok(found);
            }
        }
    }

    /// Leaves out, with a warning, those that cannot be read.
    fn open_due_starts(&self, mut due: Vec<KeyedStart>) -> Vec<KeyedStart> {
        due.retain_mut(|start| match self.seal.open_start(start) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(target: "aether::engine", name = start.name, %error, "a keyed start cannot begin");
                false
            }
        });
        due
    }
}
