//! Creating runs.
use aether_core::store::ledger::LedgerEntry;
use aether_core::store::{Append, Created, NewRun, StoreError};

use crate::database::Database;

impl Database {
    pub(crate) fn create(
        self: std::sync::Arc<Self>,
        _new: NewRun,
        _ledger: Vec<LedgerEntry>,
    ) -> impl Future<Output = Result<Created, StoreError>> + Send + 'static {
        async move { Err(self.not_built()) }
    }

    pub(crate) fn append(&self, append: Append) {
        append.ack.failed(self.not_built().into());
    }

    pub(crate) fn finish(&self) {}

    pub(crate) async fn close_writers(&self) -> Result<(), StoreError> {
        self.close();
        Ok(())
    }
    pub(crate) fn not_built(&self) -> StoreError {
        StoreError::Unavailable { store: self.name.to_string(), reason: "not built yet".into() }
    }
}
