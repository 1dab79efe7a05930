//! The writer: one task with a connection of its own, which writes the appends of all runs, many in one statement.
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use aether_core::id::RunId;
use aether_core::journal::ChainHash;
use aether_core::store::StoreError;

use crate::database::Database;

/// Where a run's journal ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Number of the last frame.
    pub(crate) frame: i64,
    /// Chain hash after it.
    pub(crate) chain: ChainHash,
}

/// Where the journals of runs end that this process appends to: a hint, which every statement checks.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    known: Mutex<HashMap<RunId, Head>>,
}

impl Heads {
    /// A claim or an append has made this the last frame of the run.
    pub(crate) fn set(&self, run: &RunId, head: Head) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(run.clone(), head);
    }
}

/// The writers of a database.
#[derive(Debug)]
pub(crate) struct Writers;

impl Writers {
    pub(crate) async fn start(_database: &Arc<Database>) -> Result<(), StoreError> {
        Ok(())
    }
}
