//! Builds that tests ask cargo for.
//!
//! Promise: they are of the profile and in the folder of the test, and take what is there already.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "for_builds.rs"]
mod for_builds;

use std::path::{Path, PathBuf};
use std::process::Command;

use for_builds::for_builds;

/// The folder of the profile that this test was built in.
pub(crate) fn profile_folder() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().and_then(Path::parent).unwrap().to_path_buf()
}

/// `cargo build` for the workspace.
pub(crate) fn cargo_build() -> Command {
    let profile = profile_folder();
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--workspace"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    build.env("CARGO_TARGET_DIR", profile.parent().unwrap());
    if profile.ends_with("release") {
        build.arg("--release");
    }
    for_builds(&mut build);
    build
}
