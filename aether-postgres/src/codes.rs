//! Definitions, and what other workers can advance.

use aether_core::id::{CodeId, WorkerId};
use aether_core::store::{DefinitionRecord, StoreError};

use crate::database::Database;

impl Database {
    pub(crate) async fn codes_elsewhere(&self, _me: &WorkerId) -> Result<Vec<CodeId>, StoreError> {
        Err(self.not_built())
    }

    pub(crate) async fn put_definition(&self, _definition: &DefinitionRecord) -> Result<(), StoreError> {
        Err(self.not_built())
    }

    pub(crate) async fn definitions(&self) -> Result<Vec<DefinitionRecord>, StoreError> {
        Err(self.not_built())
    }
}
