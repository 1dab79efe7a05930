//! The embedded store: one SQLite file, safe for several processes at once.
//!
//! Promise: an acknowledged append survives loss of power (WAL, `synchronous=FULL`). One writer thread batches the
//! appends of all runs into one transaction and one fsync; reads go through connections of their own. Nothing here
//! blocks an async worker, and no file or row makes it panic.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("agent.db");
//! use aether_core::store::Store;
//! let store = aether_sqlite::SqliteStore::open(&path)?;
//! assert!(store.describe().starts_with("sqlite "));
//! # Ok(())
//! # }
//! ```

#[cfg(test)]
extern crate self as aether_sqlite;

mod aside;
mod backup;
mod base;
mod batch;
mod calls;
mod checkpoints;
mod codes;
mod damage;
mod engine;
mod error;
mod identity;
mod inspect;
mod keyed_starts;
mod leases;
mod list;
mod open;
mod options;
mod place;
mod prepare;
mod purge;
mod queues;
mod reader;
mod renewal;
mod request;
mod reservations;
mod restore;
mod row;
#[cfg(not(aether_dst))]
mod sched;
#[cfg(aether_dst)]
#[path = "sched/simulated.rs"]
mod sched;
mod schedules;
mod schema;
mod spent;
mod sql;
mod statements;
mod step_connection;
mod store;
mod streams;
mod stuck;
mod waits;
mod worker_locks;
mod writer;

pub use crate::backup::{BackupProgress, BackupReport, back_up};
pub use crate::engine::EngineSqlite;
pub use crate::inspect::{Inspected, inspect};
pub use crate::options::SqliteOptions;
pub use crate::restore::{Restored, restore};
pub use crate::sql::{Sql, SqlError, SqlStep};
pub use crate::store::SqliteStore;
pub use rusqlite;
