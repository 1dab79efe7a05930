//! A little project beside this repository: its folder, its manifest, and cargo in it.
//!
//! Promise: it builds what is in the repository's lock file, and asks no registry.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::kit::Result;

/// The folder of this repository.
pub(crate) const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Runs a command to its end: how long that took, and what it printed. One that fails is an error with what it has said.
pub(crate) fn run(command: &mut Command) -> Result<(Duration, String)> {
    let begun = Instant::now();
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let took = begun.elapsed();
    if !output.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok((took, String::from_utf8_lossy(&output.stdout).into_owned()))
}

pub(crate) struct Project {
    folder: PathBuf,
    target: PathBuf,
}

impl Project {
    /// Makes the project `name` with these `[dependencies]` in a folder of its own below `place`. It is built into the
    /// folder `target`.
    pub(crate) fn new(place: &Path, name: &str, dependencies: &str, target: PathBuf) -> Result<Self> {
        let folder = place.join(name);
        std::fs::create_dir_all(folder.join("src"))?;
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n{dependencies}\n[workspace]\n"
        );
        std::fs::write(folder.join("Cargo.toml"), manifest)?;
        std::fs::copy(Path::new(ROOT).join("Cargo.lock"), folder.join("Cargo.lock"))?;
        Ok(Self { folder, target })
    }

    /// Writes a file of its sources.
    pub(crate) fn write(&self, file: &str, text: &str) -> Result<()> {
        Ok(std::fs::write(self.folder.join("src").join(file), text)?)
    }

    /// Runs cargo in it, with incremental compilation or without.
    pub(crate) fn cargo(&self, args: &[&str], incremental: bool) -> Result<(Duration, String)> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(args).arg("--offline").current_dir(&self.folder);
        command.env("CARGO_TARGET_DIR", &self.target).env("CARGO_TERM_COLOR", "never");
        command.env("CARGO_INCREMENTAL", if incremental { "1" } else { "0" });
        run(&mut command)
    }
}
