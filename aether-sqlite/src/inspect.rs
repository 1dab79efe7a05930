//! Looking at a file before it is opened.
//!
//! Promise: the file is not created, not changed and not brought to another version.

use std::path::Path;
use std::time::Duration;

use aether_core::store::StoreError;

use crate::open::to_look;
use crate::schema::SUPPORTED;

/// What [`inspect`] finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspected {
    /// The version of the engine's tables in the file; 0 where it has none.
    pub version: u32,
    /// The version that this build reads and writes. Opening a file of an older version brings it to this one.
    pub supported: u32,
}

impl Inspected {
    /// Whether opening the file changes its tables: processes of an older build cannot work on it from then on.
    pub fn is_older(&self) -> bool {
        (1..self.supported).contains(&self.version)
    }
}

/// Looks at the SQLite file at `path`, without opening it as a store.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("agent.db");
/// drop(aether_sqlite::SqliteStore::open(&path)?);
/// let found = aether_sqlite::inspect(&path)?;
/// assert_eq!(found.version, found.supported);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`StoreError::Open`] where there is no such file, or it has tables of others under the engine's names;
/// [`StoreError::NewerSchema`] where a newer build wrote it; [`StoreError::Corrupt`] where it is damaged or no database.
pub fn inspect(path: impl AsRef<Path>) -> Result<Inspected, StoreError> {
    let path = path.as_ref();
    let store = format!("sqlite {}", path.display());
    let (_, version) = to_look(path, &store, Duration::from_secs(5))?;
    Ok(Inspected { version, supported: SUPPORTED })
}
