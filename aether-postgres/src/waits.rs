//! The list of open waits.

use aether_core::id::{Position, RunId};
use aether_core::store::{ListedWait, OpenWait, StoreError, WaitFilter};

use crate::database::Database;

impl Database {
    pub(crate) async fn waits(&self, _filter: &WaitFilter) -> Result<Vec<ListedWait>, StoreError> {
        Err(self.not_built())
    }

    pub(crate) async fn list_waits(
        &self,
        _run: &RunId,
        _next: Position,
        _waits: &[OpenWait],
    ) -> Result<bool, StoreError> {
        Err(self.not_built())
    }
}
