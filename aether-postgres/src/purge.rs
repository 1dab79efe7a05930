//! Deleting runs that have ended.

use aether_core::id::RunId;
use aether_core::store::{EndedRuns, Purged, RunRecord, StoreError};

use crate::database::Database;

impl Database {
    pub(crate) async fn ended(&self, _query: &EndedRuns) -> Result<Vec<(u64, RunRecord)>, StoreError> {
        Err(self.not_built())
    }

    pub(crate) async fn purge(&self, _run: &RunId) -> Result<Purged, StoreError> {
        Err(self.not_built())
    }
}
