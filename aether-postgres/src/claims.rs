//! Claiming due runs, and giving them back.

use aether_core::id::{Epoch, RunId};
use aether_core::store::{ClaimRequest, Lease, StoreError};
use jiff::Timestamp;

use crate::database::Database;

impl Database {
    pub(crate) async fn claim(&self, _request: &ClaimRequest) -> Result<Vec<Lease>, StoreError> {
        Err(self.not_built())
    }

    pub(crate) async fn release(
        &self,
        _run: &RunId,
        _epoch: Epoch,
        _wake_at: Timestamp,
    ) -> Result<(), StoreError> {
        Err(self.not_built())
    }
}
