//! Messages to runs.

use aether_core::id::{RunId, WorkerId};
use aether_core::store::{Message, RunRecord, Sent, StoreError, Unread};

use crate::database::Database;

impl Database {
    pub(crate) async fn send(&self, _run: &RunId, _message: &Message) -> Result<Sent, StoreError> {
        Err(self.not_built())
    }

    pub(crate) async fn inbox(&self, _run: &RunId, _after: u64) -> Result<Vec<Message>, StoreError> {
        Err(self.not_built())
    }

    pub(crate) async fn unread(&self, _run: &RunId) -> Result<Unread, StoreError> {
        Err(self.not_built())
    }

    pub(crate) async fn unread_waiting(&self) -> Result<Vec<(RunRecord, u64)>, StoreError> {
        Err(self.not_built())
    }

    pub(crate) async fn unread_held(&self, _worker: &WorkerId) -> Result<Vec<(RunId, u64)>, StoreError> {
        Err(self.not_built())
    }
}
