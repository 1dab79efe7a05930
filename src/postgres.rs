//! The store for more than one machine, and SQL in transaction steps on Postgres: for programs that choose its options or
//! run SQL of their own.

pub use aether_postgres::{
    EnginePostgres, Postgres, PostgresError, PostgresOptions, PostgresStep, PostgresStore, tokio_postgres,
};
