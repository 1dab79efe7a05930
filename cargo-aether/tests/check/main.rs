//! `cargo aether check` on programs that cargo builds: the corpora, the ways to let something pass, and what it refuses.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod corpora;
#[path = "../../../tests/built/for_builds.rs"]
mod for_builds;
mod planted;
mod project;
mod refusals;
