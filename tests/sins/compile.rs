//! Compiles all sins as modules of one program: those that do not compile are taken out, until the rest does.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::Sin;

/// The manifest of the program; `ROOT` stands for this workspace.
const MANIFEST: &str = r#"[package]
name = "sins"
version = "0.0.0"
edition = "2024"
publish = false

[workspace]

[dependencies]
kit = { path = "kit" }
aether = { path = "ROOT" }
aether-testing = { path = "ROOT/aether-testing" }
chrono = "0.4"
fastrand = "2"
futures = "0.3"
getrandom = "0.4"
jiff = { version = "0.2", features = ["serde"] }
num_cpus = "1"
rand = "0.10"
reqwest = { version = "0.13", default-features = false, features = ["rustls-no-provider", "json"] }
serde = { version = "1", features = ["derive"] }
serde_json = "1"
time = "0.3"
tokio = { version = "1", features = ["full"] }
uuid = { version = "1", features = ["v4", "v7"] }

[profile.dev]
debug = "line-tables-only"

[profile.dev.package."*"]
debug = false
"#;

const KIT: &str = r#"[package]
name = "kit"
version = "0.0.0"
edition = "2024"
publish = false

[lib]
path = "ROOT/tests/sins/kit.rs"

[dependencies]
aether = { path = "ROOT" }
rand = "0.10"
"#;

/// The generated program.
pub(crate) struct Package {
    root: PathBuf,
    dir: PathBuf,
}

/// The built program, which plays one sin at a time.
pub(crate) struct Player(PathBuf);

impl Package {
    pub(crate) fn new(root: &Path) -> Self {
        let dir = root.join("target/tests/sins");
        fs::create_dir_all(dir.join("src")).expect("a directory");
        fs::create_dir_all(dir.join("kit")).expect("a directory");
        let place = root.to_str().expect("a path of text");
        write(&dir.join("Cargo.toml"), &MANIFEST.replace("ROOT", place));
        write(&dir.join("kit/Cargo.toml"), &KIT.replace("ROOT", place));
        if !dir.join("Cargo.lock").exists() {
            fs::copy(root.join("Cargo.lock"), dir.join("Cargo.lock")).expect("the lock file");
        }
        Self { root: root.into(), dir }
    }

    /// What each sin that does not compile is told.
    pub(crate) fn rejected(&self, sins: &[Sin]) -> BTreeMap<String, BTreeSet<String>> {
        let mut rejected: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        loop {
            let left: Vec<&Sin> = sins.iter().filter(|sin| !rejected.contains_key(&sin.name)).collect();
            write(&self.dir.join("src/main.rs"), &self.main(&left));
            let told = self.errors(&left);
            if told.is_empty() {
                return rejected;
            }
            rejected.extend(told);
        }
    }

    /// The program's text: a module a sin, and the choice among them.
    fn main(&self, sins: &[&Sin]) -> String {
        let player = self.root.join("tests/sins/player.rs");
        let mut text = format!("#![allow(warnings)]\n#[path = {player:?}]\nmod player;\n");
        let mut arms = String::new();
        for Sin { name, path, .. } in sins {
            let _writing_to_a_string = write!(text, "#[path = {path:?}]\nmod {name};\n");
            let _writing_to_a_string =
                writeln!(arms, "        {name:?} => player::play::<{name}::{name}>(&how),");
        }
        text + "fn main() {\n    let mut args = std::env::args().skip(1);\n"
            + "    let (name, how) = (args.next().unwrap(), args.next().unwrap());\n    match name.as_str() {\n"
            + &arms
            + "        other => panic!(\"no sin {other}\"),\n    }\n}\n"
    }

    fn cargo(&self, command: &str) -> Command {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args([command, "--quiet", "--message-format=json", "--color=never"]);
        cargo.current_dir(&self.dir).env("CARGO_TARGET_DIR", self.root.join("target/tests/sins-target"));
        cargo
    }

    /// Checks the program; the errors by sin.
    fn errors(&self, sins: &[&Sin]) -> BTreeMap<String, BTreeSet<String>> {
        let checked = self.cargo("check").output().expect("cargo");
        let mut errors: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for line in String::from_utf8_lossy(&checked.stdout).lines() {
            let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
            let message = &line["message"];
            if message["level"] != "error" || message["spans"].as_array().is_none_or(Vec::is_empty) {
                continue;
            }
            let text = message["rendered"].as_str().unwrap_or_default();
            let sin = sins.iter().find(|sin| text.contains(&format!("{}:", sin.path.display())));
            let sin = sin.unwrap_or_else(|| panic!("an error outside of the corpus:\n{text}"));
            let code = code(message)
                .unwrap_or_else(|| panic!("`{}` has a mistake of another kind:\n{text}", sin.name));
            errors.entry(sin.name.clone()).or_default().insert(code);
        }
        assert!(
            checked.status.success() || !errors.is_empty(),
            "cargo check: {}",
            String::from_utf8_lossy(&checked.stderr)
        );
        errors
    }

    /// Builds what is left.
    pub(crate) fn player(&self) -> Player {
        let built = self.cargo("build").output().expect("cargo");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        Player(self.root.join("target/tests/sins-target/debug/sins"))
    }
}

/// The code of a lint, or the name of the rule of types that is broken.
fn code(message: &Value) -> Option<String> {
    let text = message["message"].as_str()?;
    if let Some(code) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return Some(code.0.into());
    }
    if text.contains("is not a recorded effect") {
        return Some("await gate".into());
    }
    None
}

fn write(path: &Path, text: &str) {
    if fs::read_to_string(path).is_ok_and(|known| known == text) {
        return;
    }
    fs::write(path, text).expect("a file is written");
}

impl Player {
    /// What noticed the sin: the trap's door, or the runs that came apart.
    pub(crate) fn play(&self, name: &str, how: &str) -> Option<String> {
        let played = Command::new("timeout")
            .args(["60"])
            .arg(&self.0)
            .args([name, how])
            .env("RUST_BACKTRACE", "0")
            .stdin(std::process::Stdio::null())
            .output()
            .expect("the player");
        let said = String::from_utf8_lossy(&played.stdout).trim().to_owned();
        assert!(
            played.status.success(),
            "`{name}` under `{how}`: {}",
            String::from_utf8_lossy(&played.stderr)
        );
        said.lines().last().filter(|line| !line.is_empty()).map(str::to_owned)
    }
}
