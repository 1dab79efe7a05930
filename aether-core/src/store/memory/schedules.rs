//! Schedules in memory, by name.
//!
//! Promise: a write replaces only the revision that it names.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::store::schedules::ScheduleRecord;

#[derive(Debug, Default)]
pub(super) struct Schedules(BTreeMap<String, ScheduleRecord>);

impl Schedules {
    pub(super) fn put(&mut self, schedule: ScheduleRecord, replaces: u64) -> bool {
        let fits = self.0.get(&schedule.name).map_or(0, |old| old.revision) == replaces;
        if fits {
            self.0.insert(schedule.name.clone(), schedule);
        }
        fits
    }

    pub(super) fn all(&self) -> Vec<ScheduleRecord> {
        self.0.values().cloned().collect()
    }

    pub(super) fn due(&self, now: Timestamp, workflows: &[String], limit: usize) -> Vec<ScheduleRecord> {
        let is_due = |schedule: &&ScheduleRecord| {
            workflows.contains(&schedule.spec.workflow) && schedule.due_at().is_some_and(|due| due <= now)
        };
        let mut due: Vec<_> = self.0.values().filter(is_due).cloned().collect();
        due.sort_by_key(ScheduleRecord::due_at);
        due.truncate(limit);
        due
    }

    pub(super) fn remove(&mut self, name: &str) -> bool {
        self.0.remove(name).is_some()
    }
}
