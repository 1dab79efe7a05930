//! Projects that the tests write, and what the check says of them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::for_builds::for_builds;

/// What the corpora use; everything depends on it, so that all projects are built with the same features, once.
const DEPENDENCIES: &str = r#"
ahash = "0.8"
anyhow = "1"
base64 = "0.23"
bytes = "1"
chrono = { version = "0.4", default-features = false, features = ["clock", "serde"] }
either = "1"
fastrand = "2"
futures = "0.3"
getrandom = "0.4"
hashbrown = "0.17"
hex = "0.4"
indexmap = { version = "2", features = ["serde"] }
itertools = "0.15"
jiff = { version = "0.2", features = ["serde"] }
lazy_static = "1"
num_cpus = "1"
once_cell = "1"
parking_lot = "0.12"
rand = "0.10"
regex = "1"
reqwest = { version = "0.13", default-features = false, features = ["rustls-no-provider", "json"] }
rust_decimal = { version = "1", default-features = false, features = ["serde", "std"] }
semver = "1"
serde = { version = "1", features = ["derive"] }
serde_json = "1"
sha2 = "0.11"
smallvec = "1"
tempfile = "3"
thiserror = "2"
time = "0.3"
tokio = { version = "1", features = ["rt-multi-thread", "time", "net", "io-util", "process", "signal", "fs"] }
toml = { version = "1", default-features = false, features = ["parse", "serde"] }
tracing = "0.1"
unicode-segmentation = "1"
url = "2"
uuid = { version = "1", features = ["v4", "v7"] }
"#;

/// The folder of this repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// A workspace of its own under `target`.
pub(crate) struct Project {
    pub(crate) folder: PathBuf,
    members: Vec<String>,
}

/// A finding, as `--json` tells it.
#[derive(Clone, Debug, serde::Deserialize)]
pub(crate) struct Finding {
    pub(crate) id: String,
    pub(crate) code: String,
    pub(crate) kind: String,
    pub(crate) level: String,
    pub(crate) workflow: String,
    pub(crate) source: String,
    pub(crate) chain: Vec<Frame>,
}

#[derive(Clone, Debug, serde::Deserialize)]
pub(crate) struct Frame {
    pub(crate) function: String,
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
    pub(crate) local: bool,
}

/// What one call said.
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Project {
    /// An empty one. Versions of dependencies are those of this repository.
    pub(crate) fn new(name: &str) -> Self {
        let folder = root().join("target/tests/check").join(name);
        let project = Self { folder, members: Vec::new() };
        // What an earlier run has left is built already, but for what a test decides by its being there.
        let _there_may_be_none = std::fs::remove_file(project.folder.join("aether.toml"));
        project.write("Cargo.lock", &std::fs::read_to_string(root().join("Cargo.lock")).unwrap());
        project
    }

    /// A package: its name, the packages of this project that it depends on, and the text of its `src/lib.rs` or
    /// `src/main.rs`.
    pub(crate) fn package(&mut self, name: &str, depends: &[&str], file: &str, text: &str) {
        let mut manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\npublish = false\n\n[dependencies]\n"
        );
        for (name, _) in dependencies() {
            let _writing_to_a_string = writeln!(manifest, "{name}.workspace = true");
        }
        for other in depends {
            let _writing_to_a_string = writeln!(manifest, "{other} = {{ path = \"../{other}\" }}");
        }
        self.write(&format!("{name}/Cargo.toml"), &manifest);
        self.write(&format!("{name}/src/{file}"), text);
        self.members.push(name.to_owned());
    }

    /// A package that is copied from `folder`.
    pub(crate) fn copy(&mut self, folder: &Path, name: &str) {
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        self.write(&format!("{name}/Cargo.toml"), &manifest);
        for file in std::fs::read_dir(folder.join("src")).unwrap().map(|file| file.unwrap().path()) {
            let text = std::fs::read_to_string(&file).unwrap();
            self.write(&format!("{name}/src/{}", file.file_name().unwrap().display()), &text);
        }
        self.members.push(name.to_owned());
    }

    /// Writes a file of the project, where it is not so already.
    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.folder.join(path);
        if std::fs::read_to_string(&path).is_ok_and(|known| known == text) {
            return;
        }
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Writes the manifest of the workspace; `more` goes behind it, such as profiles of its packages. Dependencies have the
    /// profiles that they have in this repository, whose examples are checked where these projects are built.
    pub(crate) fn finish(&self, more: &str) {
        let members: Vec<String> = self.members.iter().map(|name| format!("{name:?}")).collect();
        let mut manifest = format!(
            "[workspace]\nresolver = \"3\"\nmembers = [{}]\n\n[workspace.dependencies]\n",
            members.join(", ")
        );
        for (name, value) in dependencies() {
            let _writing_to_a_string = writeln!(manifest, "{name} = {value}");
        }
        self.write("Cargo.toml", &(manifest + "\n" + &profiles() + more));
    }

    /// The call of the check, which is still to be run: it builds where all projects of the tests are built.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut check = self.program();
        check.args(["check", "--target-dir"]).arg(target()).args(args);
        check
    }

    /// The program as cargo calls it, in the folder of the project.
    pub(crate) fn program(&self) -> Command {
        let mut program = Command::new(env!("CARGO_BIN_EXE_cargo-aether"));
        program.arg("aether").current_dir(&self.folder);
        for_builds(&mut program);
        program
    }

    pub(crate) fn check(&self, args: &[&str]) -> Said {
        Said::of(&self.command(args).output().unwrap())
    }
}

impl Said {
    pub(crate) fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            code: output.status.code().unwrap_or(-1),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }

    /// The findings of `--json`.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let line = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.out.lines().map(line).collect()
    }
}

/// The kinds of all findings that are errors.
pub(crate) fn kinds<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> BTreeSet<&'a str> {
    findings.into_iter().filter(|found| found.level == "error").map(|found| found.kind.as_str()).collect()
}

/// Where all projects are built; the check of this repository's own examples builds there, too.
pub(crate) fn target() -> PathBuf {
    root().join("target/aether-check")
}

/// The profile `dev` of this repository.
fn profiles() -> String {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let profiles = manifest.find("[profile.dev]").zip(manifest.find("[profile.bench]"));
    let (begin, end) = profiles.expect("`Cargo.toml` has the profile `bench` behind `dev`");
    manifest[begin..end].to_owned()
}

/// Names and requirements.
fn dependencies() -> impl Iterator<Item = (&'static str, String)> {
    let others = DEPENDENCIES.lines().filter_map(|line| line.split_once(" = "));
    let aether = format!(
        "{{ path = {:?}, features = [\"axum\", \"cli\", \"encryption\", \"mcp-server\", \"otel-http\", \"postgres\", \"web\"] }}",
        root()
    );
    others.map(|(name, value)| (name, value.to_owned())).chain([("aether", aether)])
}
