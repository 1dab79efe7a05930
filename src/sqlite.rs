//! The embedded store, and SQL in transaction steps: for programs that choose its options or run SQL of their own.

pub use aether_sqlite::{
    EngineSqlite, Inspected, Sql, SqlError, SqlStep, SqliteOptions, SqliteStore, inspect, rusqlite,
};
