//! The integration tests of the facade, one module for each subject.

#[allow(clippy::unwrap_used, clippy::expect_used)]
mod bad_input;
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod seeds;
mod sim;
mod ui;
