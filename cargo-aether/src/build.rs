//! The build: `cargo build` with the wrapper, and what it has left.
//!
//! Promise: what was built and cannot be found is an error, and never silently left out.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::args::Check;
use crate::wrapper;

/// What cargo built.
#[derive(Debug, Default)]
pub(crate) struct Built {
    /// Libraries and object files.
    pub(crate) files: Vec<PathBuf>,
    /// Names of the workspace's crates, as symbols have them.
    pub(crate) local: HashSet<String>,
    /// The MIR of the workspace's crates, each with the name of the crate.
    pub(crate) mir: Vec<(PathBuf, String)>,
}

/// Why there is nothing to check.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildError {
    #[error("cargo cannot be started: {0}")]
    NoCargo(io::Error),
    #[error("the project cannot be read: {0}")]
    NoProject(String),
    #[error("the project does not build; what the compiler says is above")]
    Fails,
    #[error("of `{target}` no {what} is in {folder}: remove that folder, and check again")]
    Lost { target: String, what: &'static str, folder: String },
    #[error(
        "`{target}` is built as {kinds} alone, which the check does not read: give it the crate type `lib`, too"
    )]
    NoLibrary { target: String, kinds: String },
}

/// Where the project is.
#[derive(Debug)]
pub(crate) struct Project {
    /// The root of the workspace.
    pub(crate) root: PathBuf,
    target: PathBuf,
}

impl Project {
    /// Asks cargo.
    pub(crate) fn find(args: &Check) -> Result<Self, BuildError> {
        let mut command = cargo();
        command.args(["metadata", "--format-version=1", "--no-deps"]);
        if let Some(manifest) = &args.manifest_path {
            command.arg("--manifest-path").arg(manifest);
        }
        let output = command.output().map_err(BuildError::NoCargo)?;
        let said = || String::from_utf8_lossy(&output.stderr).trim().to_owned();
        if !output.status.success() {
            return Err(BuildError::NoProject(said()));
        }
        let metadata: Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| BuildError::NoProject(error.to_string()))?;
        let path = |name: &str| {
            metadata[name]
                .as_str()
                .map(PathBuf::from)
                .ok_or_else(|| BuildError::NoProject(format!("cargo says no `{name}`")))
        };
        Ok(Self { root: path("workspace_root")?, target: path("target_directory")? })
    }

    /// Where it is built. A build of another version of this program is not taken for one of this version.
    pub(crate) fn folder(&self, args: &Check) -> PathBuf {
        let target = args.target_dir.clone().unwrap_or_else(|| self.target.join("aether-check"));
        target.join(env!("CARGO_PKG_VERSION"))
    }

    /// Builds it.
    pub(crate) fn build(&self, args: &Check) -> Result<Built, BuildError> {
        let this = std::env::current_exe().map_err(BuildError::NoCargo)?;
        let mut command = cargo();
        command.args(["build", "--message-format=json-render-diagnostics", "--quiet"]);
        if let Some(manifest) = &args.manifest_path {
            command.arg("--manifest-path").arg(manifest);
        }
        command.arg("--target-dir").arg(self.folder(args)).args(&args.cargo);
        wrapper::install(&mut command, this.as_os_str());
        let output = command.stderr(Stdio::inherit()).output().map_err(BuildError::NoCargo)?;
        if !output.status.success() {
            return Err(BuildError::Fails);
        }
        let mut built = Built::default();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let message = serde_json::from_str::<Value>(line).unwrap_or_default();
            if message["reason"] == "compiler-artifact" {
                built.add(&message)?;
            }
        }
        built.files.sort();
        built.files.dedup();
        Ok(built)
    }
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

impl Built {
    fn add(&mut self, message: &Value) -> Result<(), BuildError> {
        let target = &message["target"];
        let has_kind =
            |kind: &str| target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|of| of == kind));
        if has_kind("proc-macro") || has_kind("custom-build") {
            return Ok(());
        }
        let name = target["name"].as_str().unwrap_or_default();
        let krate = name.replace('-', "_");
        // Dependencies by path that are not members have no wrapper of their own, and no MIR.
        let is_local = message["package_id"].as_str().is_some_and(|id| id.starts_with("path+"));
        if is_local {
            self.local.insert(krate.clone());
        }
        let files: Vec<&Path> = message["filenames"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(Path::new)
            .collect();
        let library = files.iter().find(|file| has_extension(file, "rlib"));
        if let Some(library) = library {
            self.files.push(library.to_path_buf());
        }
        if !is_local {
            return Ok(());
        }
        let lost = |what, folder: &Path| BuildError::Lost {
            target: name.to_owned(),
            what,
            folder: folder.display().to_string(),
        };
        match (library, message["executable"].as_str().map(Path::new)) {
            (Some(_), _) => {
                // Of a member, cargo names the library under a name without its hash; the metadata keeps that.
                let metadata = files.iter().find(|file| has_extension(file, "rmeta"));
                let mir = metadata.and_then(|file| {
                    let stem = file.file_stem()?.to_str()?.strip_prefix("lib")?;
                    Some(file.with_file_name(stem).with_extension("mir"))
                });
                self.mir.extend(mir.filter(|mir| mir.exists()).map(|mir| (mir, krate)));
            }
            (None, Some(program)) => {
                let unit = unit(program, &krate).ok_or_else(|| lost("program", folder_of(program)))?;
                let object = unit.with_extension("o");
                if !object.exists() {
                    return Err(lost("object file", folder_of(&object)));
                }
                self.files.push(object);
                self.mir.push((unit.with_extension("mir"), krate));
            }
            (None, None) => {
                let kinds = target["kind"].as_array().into_iter().flatten().filter_map(Value::as_str);
                let kinds = kinds.collect::<Vec<_>>().join(" and ");
                return Err(BuildError::NoLibrary { target: name.to_owned(), kinds });
            }
        }
        Ok(())
    }
}

fn has_extension(file: &Path, extension: &str) -> bool {
    file.extension().is_some_and(|of| of == extension)
}

fn folder_of(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new("."))
}

/// The file under its name with a hash that a program is a link to: `deps/app-0123456789abcdef`.
fn unit(program: &Path, krate: &str) -> Option<PathBuf> {
    let folder = program.parent()?;
    let folders = [folder.to_owned(), folder.join("deps")];
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten());
    let candidates = entries.map(|entry| entry.path()).filter(|path| {
        let rest = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix(krate));
        rest.is_some_and(|rest| rest.starts_with('-') && !rest.contains('.'))
    });
    let candidates: Vec<PathBuf> = candidates.collect();
    // Former builds leave others there, and to read them all would take long.
    let link = candidates.iter().find(|path| is_link(path, program));
    link.or_else(|| candidates.iter().find(|path| is_copy(path, program))).cloned()
}

/// Whether two names are of one file.
#[cfg(unix)]
fn is_link(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let of = |path: &Path| path.metadata().map(|data| (data.dev(), data.ino())).ok();
    of(a).is_some_and(|a| Some(a) == of(b))
}

#[cfg(not(unix))]
fn is_link(_a: &Path, _b: &Path) -> bool {
    false
}

/// Whether one is a copy of the other, as where the file system has no links.
fn is_copy(a: &Path, b: &Path) -> bool {
    let length = |path: &Path| path.metadata().map(|data| data.len()).ok();
    length(a).is_some() && length(a) == length(b) && std::fs::read(a).ok() == std::fs::read(b).ok()
}
