//! Snapshots, and the progress of bodies.

use aether_core::id::{CommandId, Epoch, RunId};
use aether_core::payload::Payload;
use aether_core::store::{Snapshot, StoreError};

use crate::database::Database;

impl Database {
    pub(crate) async fn save_snapshot(&self, _run: &RunId, _snapshot: &Snapshot) -> Result<(), StoreError> {
        Err(self.not_built())
    }

    pub(crate) async fn snapshot(&self, _run: &RunId) -> Result<Option<Snapshot>, StoreError> {
        Err(self.not_built())
    }

    pub(crate) async fn delete_snapshots(&self) -> Result<(), StoreError> {
        Err(self.not_built())
    }

    pub(crate) async fn save_progress(
        &self,
        _run: &RunId,
        _epoch: Epoch,
        _command: &CommandId,
        _progress: &Payload,
    ) -> Result<(), StoreError> {
        Err(self.not_built())
    }

    pub(crate) async fn progress(
        &self,
        _run: &RunId,
        _command: &CommandId,
    ) -> Result<Option<Payload>, StoreError> {
        Err(self.not_built())
    }
}
