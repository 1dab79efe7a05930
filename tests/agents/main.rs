//! The examples that are agents, as processes that are killed: what they leave is what they leave without a kill.

#![allow(clippy::unwrap_used, clippy::expect_used)]

aether::allow_missing_deps!("the engines that look at what a process left run nothing");

#[path = "../built/cargo_build.rs"]
mod cargo_build;
mod chat;
mod coding;
mod litellm;

use std::path::PathBuf;

use cargo_build::{cargo_build, profile_folder};

/// The program of an example, built if it is not there yet.
fn example(name: &str) -> PathBuf {
    let built = cargo_build().args(["--example", name]).output().unwrap();
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "example `{name}` does not build: {said}");
    profile_folder().join("examples").join(name)
}
