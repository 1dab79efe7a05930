//! Programs on Postgres: transaction steps, tables of their own, and what is said where something is wrong.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod contention;
mod frozen;
mod kit;
mod messages;
mod prepare;
mod proxy;
mod queries;
mod refusals;
mod runtimes;
mod steps;
mod tls;
mod transfers;
mod version_2;
