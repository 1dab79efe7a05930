//! The store on Postgres, as the tests of other modules reach it.
//!
//! `AETHER_PG_BIN=<folder>` chooses another version of Postgres (see `scripts/postgres-18`), `AETHER_STORE=postgres-portable`
//! or `postgres-pgbouncer` the way in which tests of other modules reach it.

mod clocks;
pub(crate) mod way;
