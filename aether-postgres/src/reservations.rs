//! Business keys that are unique in the whole store.

use aether_core::store::StoreError;
use aether_core::store::ledger::LedgerEntry;

use crate::database::Database;

impl Database {
    pub(crate) async fn holder(&self, _business_key: &str) -> Result<Option<LedgerEntry>, StoreError> {
        Err(self.not_built())
    }
}
