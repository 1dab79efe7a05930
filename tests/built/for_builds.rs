//! What a test keeps to itself of what cargo says to it.

use std::process::Command;

/// Takes the variables about the test's package away, which are not for what cargo builds for the test: build scripts that look
/// at them would run again, and all that depends on them would be built again.
pub(crate) fn for_builds(command: &mut Command) {
    let of_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for name in std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()) {
        if of_package(&name) {
            command.env_remove(name);
        }
    }
}
