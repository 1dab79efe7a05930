//! The store for more than one machine: a Postgres database that any number of workers share.
//!
//! Promise: an acknowledged append survives loss of power (`synchronous_commit` is on). One connection writes the appends
//! of all runs of this process, many in one statement, which inserts and changes no row of another run: a claim by another
//! worker fences the one before, a refused append fails alone, and an append whose answer was lost with the connection is
//! looked for before it is written again. Nothing here panics, whatever server, row or network does.
//!
//! ```no_run
//! # async fn open() -> Result<(), Box<dyn std::error::Error>> {
//! use aether_core::store::Store;
//! let store = aether_postgres::PostgresStore::connect("postgres://ann@db-1/shop?sslmode=verify-full").await?;
//! assert!(store.describe().starts_with("postgres db-1:5432/shop"));
//! # Ok(()) }
//! ```

mod claimed;
mod claims;
mod clock;
mod codes;
mod connection;
mod create;
mod database;
mod due;
mod effects;
mod engine;
mod error;
mod inbox;
mod journal;
mod keyed_starts;
mod ledger;
mod list;
mod moves;
mod network;
mod notices;
mod opening;
mod options;
mod pieces;
mod placement;
mod prepare;
mod purge;
mod queues;
mod readable;
mod recent;
mod reservations;
mod row;
mod runs;
mod schedules;
mod schema;
mod shard;
mod silence;
mod snapshots;
mod store;
mod streams;
mod tls;
mod waits;
mod work;
mod workers;
mod writer;

pub use crate::engine::EnginePostgres;
pub use crate::moves::Placed;
pub use crate::options::PostgresOptions;
pub use crate::store::PostgresStore;
pub use crate::work::step::{Postgres, PostgresError, PostgresStep};
pub use tokio_postgres;

#[cfg(test)]
mod tests;
