//! Whether the check knows the toolchain: what the standard library calls its functions changes from release to release.
//!
//! Promise: a program whose toolchain calls a door otherwise is not called clean.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::allow::Kinds;
use crate::digest;
use crate::graph::nodes::Graph;
use crate::graph::parts::{Kind, ReadError};
use crate::mir::read;
use crate::program::Program;
use crate::rules::{Rules, TABLE};
use crate::steps::Steps;
use crate::ways::hides;
use crate::wrapper;

/// Functions that name doors, each in a module that says of which kind it is.
const PROBE: &str = include_str!("../probe.rs");

/// Why the toolchain is of no use.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolchainError {
    #[error("{program} cannot be started: {error}")]
    NoCompiler { program: String, error: io::Error },
    #[error("{folder} cannot be used: {error}")]
    NoFolder { folder: String, error: io::Error },
    #[error("{version} does not compile what it is tried with; Aether needs Rust 1.95 or newer:\n{said}")]
    Refuses { version: String, said: String },
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(
        "this version of the check does not know {version}: it misses what has another name there ({missed}); take a newer version of the check, or an older toolchain"
    )]
    Unknown { version: String, missed: String },
}

/// Tries the toolchain of the project in `root` once; what it was tried with is kept in `folder`.
pub(crate) fn try_once(root: &Path, folder: &Path, rules: &Rules) -> Result<(), ToolchainError> {
    let said = run(Command::new(compiler()).arg("-vV").current_dir(root))?;
    let version = String::from_utf8_lossy(&said.stdout).into_owned();
    let name = digest::short([version.as_str(), PROBE, TABLE, env!("CARGO_PKG_VERSION")]);
    let folder = folder.join(format!("toolchain-{name}"));
    let known = folder.join("known");
    if known.exists() {
        return Ok(());
    }
    let version = version.lines().next().unwrap_or("the compiler").to_owned();
    let missed = missed(root, &folder, rules, &version)?;
    if !missed.is_empty() {
        return Err(ToolchainError::Unknown { version, missed: missed.join(", ") });
    }
    std::fs::write(&known, "").map_err(|error| no_folder(&folder, error))
}

/// The doors of the probe that are not found.
fn missed(root: &Path, folder: &Path, rules: &Rules, version: &str) -> Result<Vec<String>, ToolchainError> {
    std::fs::create_dir_all(folder).map_err(|error| no_folder(folder, error))?;
    let source = folder.join("probe.rs");
    std::fs::write(&source, PROBE).map_err(|error| no_folder(folder, error))?;
    let mut compile = Command::new(compiler());
    compile.args(["--crate-name=probe", "--crate-type=lib", "--edition=2024", "--emit=obj,mir"]);
    compile.args(wrapper::EVERY).arg("-Ccodegen-units=1").arg("--out-dir").arg(folder).arg(&source);
    let said = run(compile.current_dir(root))?;
    if !said.status.success() {
        let said = String::from_utf8_lossy(&said.stderr).trim().to_owned();
        return Err(ToolchainError::Refuses { version: version.to_owned(), said });
    }
    let graph = Graph::read(&[folder.join("probe.o")], 1)?;
    let local = HashSet::from(["probe".to_owned()]);
    let told = read::read(&folder.join("probe.mir"), "probe");
    let program = Program::new(&graph, rules, &local, &told);
    let steps = Steps { program: &program };
    let doors = graph.iter().filter(|(_, node)| node.kind == Kind::Code).filter_map(|(id, _)| {
        let (kind, name) = program.path(id).strip_prefix("probe::in_")?.split_once("::")?;
        (!name.contains("::")).then(|| (id, kind.to_owned(), name.to_owned()))
    });
    let is_missed = |(id, kind, _): &(_, String, String)| !hides(&steps, *id, &Kinds::Only(kind.clone()));
    Ok(doors.filter(is_missed).map(|(_, kind, name)| format!("{kind}: {name}")).collect())
}

/// As cargo finds it, but for a configuration that names another one.
fn compiler() -> PathBuf {
    std::env::var_os("RUSTC").map_or_else(|| "rustc".into(), PathBuf::from)
}

fn run(command: &mut Command) -> Result<std::process::Output, ToolchainError> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.output().map_err(|error| ToolchainError::NoCompiler { program, error })
}

fn no_folder(folder: &Path, error: io::Error) -> ToolchainError {
    ToolchainError::NoFolder { folder: folder.display().to_string(), error }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn folder(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("aether-toolchain-{name}-{}", std::process::id()))
    }

    #[test]
    fn every_door_of_the_standard_library_is_found_on_this_toolchain() {
        let (folder, rules) = (folder("known"), Rules::new());
        try_once(Path::new("."), &folder, &rules).unwrap();
        let functions = PROBE
            .lines()
            .filter(|line| line.starts_with("    ") && line.contains("_") && line.contains(" = "));
        assert!(functions.count() > 140);
        // Once it is known, it is not tried again.
        try_once(Path::new("/"), &folder, &Rules::default()).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_toolchain_that_calls_a_door_otherwise_is_refused() {
        let folder = folder("unknown");
        let without =
            Rules::read(Box::leak(TABLE.replace("std::env::", "std::environment::").into_boxed_str()))
                .unwrap();
        let error = try_once(Path::new("."), &folder, &without).unwrap_err().to_string();
        assert!(error.contains("env: a_var") && error.contains("does not know rustc "), "{error}");
        assert!(!error.contains("clock: a_instant"), "{error}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
