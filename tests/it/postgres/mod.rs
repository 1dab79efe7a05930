//! The store on Postgres, as the tests of other modules reach it.
//!
//! `AETHER_PG_BIN=<folder>` chooses another version of Postgres (see `scripts/postgres-18`), `AETHER_POSTGRES=portable` or
//! `pooler` the way in which tests of other modules reach it.

pub(crate) mod way;
