//! Rows of the ledger.

use aether_core::id::{IdempotencyKey, RunId};
use aether_core::store::StoreError;
use aether_core::store::ledger::LedgerEntry;

use crate::database::Database;

impl Database {
    pub(crate) async fn entry(
        &self,
        _run: Option<&RunId>,
        _key: &IdempotencyKey,
    ) -> Result<Option<LedgerEntry>, StoreError> {
        Err(self.not_built())
    }

    pub(crate) async fn entries(&self, _run: &RunId) -> Result<Vec<LedgerEntry>, StoreError> {
        Err(self.not_built())
    }
}
