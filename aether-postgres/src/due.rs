//! What is due next.

use aether_core::store::StoreError;
use jiff::Timestamp;

use crate::database::Database;

impl Database {
    pub(crate) async fn next_wake(&self) -> Result<Option<Timestamp>, StoreError> {
        Err(self.not_built())
    }
}
