//! Runs as they are listed.

use aether_core::id::RunId;
use aether_core::store::{ForeignRuns, RunFilter, RunRecord, StoreError};

use crate::database::Database;

impl Database {
    pub(crate) async fn run_record(&self, _run: &RunId) -> Result<Option<RunRecord>, StoreError> {
        Err(self.not_built())
    }

    pub(crate) async fn runs(&self, _filter: &RunFilter) -> Result<Vec<RunRecord>, StoreError> {
        Err(self.not_built())
    }

    pub(crate) async fn count(&self, _filter: &RunFilter) -> Result<u64, StoreError> {
        Err(self.not_built())
    }

    pub(crate) async fn foreign(&self, _query: &ForeignRuns) -> Result<Vec<RunRecord>, StoreError> {
        Err(self.not_built())
    }
}
