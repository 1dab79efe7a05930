//! The store for several machines: for programs whose workers share a Postgres database.

pub use aether_postgres::{PostgresOptions, PostgresStore};
