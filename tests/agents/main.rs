//! The examples that are agents, as processes that are killed: what they leave is what they leave without a kill.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod chat;
mod coding;
mod litellm;

use std::path::PathBuf;
use std::process::Command;

/// The program of an example, built if it is not there yet.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(std::path::Path::parent).unwrap();
    let mut build = Command::new(env!("CARGO"));
    build
        .args(["build", "--quiet", "--workspace", "--example", name])
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    if profile.ends_with("release") {
        build.arg("--release");
    }
    let built = build.env("CARGO_TARGET_DIR", profile.parent().unwrap()).output().unwrap();
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "example `{name}` does not build: {said}");
    profile.join("examples").join(name)
}
