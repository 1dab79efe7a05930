//! Real Postgres clusters, and PgBouncer in front of them, for tests.
//!
//! Promise: every cluster is the test's own, on a free port and in a temporary folder. Server and folder are gone when the
//! test process has ended, however it ended. What is not installed is an error that names the Debian package.
//!
//! ```no_run
//! # async fn example() {
//! use aether_pg_tests::{Cluster, Stop};
//!
//! // One cluster for all tests of the process, a database for each.
//! let database = Cluster::shared().database().await;
//! let _store_opens_this = database.url();
//!
//! // A cluster that this test may stop, as a crash would.
//! let cluster = Cluster::begin(Cluster::options().durable());
//! cluster.restart(Stop::Immediate);
//! # }
//! ```
//!
//! `AETHER_PG_BIN=<folder>` chooses the binaries of another version of Postgres.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test kit fails with what it saw")]

mod cluster;
mod database;
mod guard;
mod options;
mod pooler;
mod programs;

pub use cluster::{Cluster, Stop};
pub use database::Database;
pub use options::ClusterOptions;
pub use pooler::PgBouncer;
