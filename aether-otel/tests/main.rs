//! Telemetry, from real runs on real stores to real collectors.

#![allow(clippy::unwrap_used, clippy::expect_used)]

aether::allow_missing_deps!("each test runs a few of the workflows that are linked here");

mod collector;
mod content;
mod conventions;
mod counted;
mod dependencies;
mod forks;
mod generations;
mod journal;
mod killed;
mod kit;
mod large;
mod measured;
mod nested;
mod outage;
mod propagation;
mod related;
mod tree;
