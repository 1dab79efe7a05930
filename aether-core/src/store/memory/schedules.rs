//! Schedules in memory, by name.
//!
//! Promise: a write replaces only the revision that it names.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::store::schedules::{DueSchedules, ScheduleRecord};

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

    pub(super) fn page(&self, after: Option<&str>, limit: usize) -> Vec<ScheduleRecord> {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        let limit = if limit == 0 { usize::MAX } else { limit };
        let page = self.0.range::<str, _>((after, Bound::Unbounded)).take(limit);
        page.map(|(_, schedule)| schedule.clone()).collect()
    }

    pub(super) fn get(&self, name: &str) -> Option<ScheduleRecord> {
        self.0.get(name).cloned()
    }

    pub(super) fn due(&self, query: &DueSchedules) -> Vec<ScheduleRecord> {
        let place = |schedule: &ScheduleRecord| schedule.due_at().map(|due| (due, schedule.name.clone()));
        let is_due = |schedule: &&ScheduleRecord| {
            query.workflows.contains(&schedule.spec.workflow)
                && place(schedule).is_some_and(|place| {
                    place.0 <= query.now && query.after.as_ref().is_none_or(|after| place > *after)
                })
        };
        let mut due: Vec<_> = self.0.values().filter(is_due).cloned().collect();
        due.sort_by_key(place);
        due.truncate(query.limit);
        due
    }

    pub(super) fn remove(&mut self, name: &str) -> bool {
        self.0.remove(name).is_some()
    }
}
