//! The embedded store, its backups, and SQL in transaction steps: for programs that choose its options or run SQL of their
//! own.

pub use aether_sqlite::{
    BackupProgress, BackupReport, EngineSqlite, Inspected, Restored, Sql, SqlError, SqlStep, SqliteOptions,
    SqliteStore, back_up, inspect, restore, rusqlite,
};
