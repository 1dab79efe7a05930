//! Databases that are being opened for a store.
//!
//! Promise: where the store does not come about, nothing of them stays behind: their writers end.

use std::sync::Arc;

use crate::database::Database;

/// A database of a store that may not come about.
pub(crate) struct Opening(Option<Arc<Database>>);

impl Opening {
    pub(crate) fn of(database: &Arc<Database>) -> Self {
        Self(Some(database.clone()))
    }

    /// The store is there, and ends the writers when it is dropped.
    pub(crate) fn done(mut self) {
        self.0 = None;
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        if let Some(database) = &self.0 {
            database.finish();
        }
    }
}
