//! Schedules.

use aether_core::store::{DueSchedules, ScheduleRecord, StoreError};

use crate::database::Database;

impl Database {
    pub(crate) async fn put_schedule(
        &self,
        _schedule: &ScheduleRecord,
        _replaces: u64,
    ) -> Result<bool, StoreError> {
        Err(self.not_built())
    }

    pub(crate) async fn schedules(&self) -> Result<Vec<ScheduleRecord>, StoreError> {
        Err(self.not_built())
    }

    pub(crate) async fn schedule(&self, _name: &str) -> Result<Option<ScheduleRecord>, StoreError> {
        Err(self.not_built())
    }

    pub(crate) async fn due_schedules(
        &self,
        _query: &DueSchedules,
    ) -> Result<Vec<ScheduleRecord>, StoreError> {
        Err(self.not_built())
    }

    pub(crate) async fn remove_schedule(&self, _name: &str) -> Result<bool, StoreError> {
        Err(self.not_built())
    }
}
