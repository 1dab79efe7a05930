//! Builds that tests ask cargo for.
//!
//! Promise: they are of the profile and in the folder of the test, and take what is there already.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

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
    // What cargo says to a test of its package is not for this build: build scripts that look at it would run again, and all
    // that depends on them would be built again.
    let of_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for name in std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()) {
        if of_package(&name) {
            build.env_remove(name);
        }
    }
    build
}
