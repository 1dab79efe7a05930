//! Workers: registered, renewed, retired, and what they lost.

use std::time::Duration;

use aether_core::id::{CodeId, WorkerId};
use aether_core::store::{LostRun, StoreError, WorkerRecord};

use crate::database::Database;

impl Database {
    pub(crate) async fn register(
        &self,
        _worker: &WorkerId,
        _lease: Duration,
        _codes: &[CodeId],
    ) -> Result<bool, StoreError> {
        Err(self.not_built())
    }

    pub(crate) async fn workers(&self) -> Result<Vec<WorkerRecord>, StoreError> {
        Err(self.not_built())
    }

    pub(crate) async fn retire(&self, _worker: &WorkerId) -> Result<(), StoreError> {
        Err(self.not_built())
    }

    pub(crate) async fn renew(
        &self,
        _worker: &WorkerId,
        _lease: Duration,
        _noticed: &[LostRun],
    ) -> Result<Vec<LostRun>, StoreError> {
        Err(self.not_built())
    }
}
