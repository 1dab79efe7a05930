//! Compiles all sins as modules of one program: those that do not compile are taken out, until the rest does.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use super::Sin;
use crate::built::{built, root};

/// The generated program.
pub(crate) struct Package {
    dir: PathBuf,
}

/// The built program, which plays one sin at a time.
pub(crate) struct Player(PathBuf);

impl Package {
    pub(crate) fn new() -> Self {
        let dir = root().join("target/tests/sins");
        fs::create_dir_all(&dir).expect("a directory");
        let package = Self { dir };
        let kit =
            package.rustc(&root().join("tests/sins/kit.rs"), &["--crate-type=rlib", "--emit=metadata,link"]);
        assert!(kit.status.success(), "{}", String::from_utf8_lossy(&kit.stderr));
        package
    }

    /// What each sin that does not compile is told.
    pub(crate) fn rejected(&self, sins: &[Sin]) -> BTreeMap<String, BTreeSet<String>> {
        let mut rejected: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        loop {
            let left: Vec<&Sin> = sins.iter().filter(|sin| !rejected.contains_key(&sin.name)).collect();
            write(&self.dir.join("main.rs"), &self.main(&left));
            let told = self.errors(&left);
            if told.is_empty() {
                return rejected;
            }
            rejected.extend(told);
        }
    }

    /// The program's text: a module a sin, and the choice among them.
    fn main(&self, sins: &[&Sin]) -> String {
        let player = root().join("tests/sins/player.rs");
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

    /// Compiles `file` into the folder of the program.
    fn rustc(&self, file: &Path, args: &[&str]) -> Output {
        let mut rustc = built().rustc();
        rustc.arg(file).args(args).arg("--out-dir").arg(&self.dir).arg("-L").arg(&self.dir);
        // The trap knows code by its lines.
        rustc.args(["-Cdebuginfo=line-tables-only", "--error-format=json"]).output().expect("the compiler")
    }

    /// Checks the program; the errors by sin.
    fn errors(&self, sins: &[&Sin]) -> BTreeMap<String, BTreeSet<String>> {
        let checked =
            self.rustc(&self.dir.join("main.rs"), &["--crate-name=sins", "--extern=kit", "--emit=metadata"]);
        let mut errors: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for line in String::from_utf8_lossy(&checked.stderr).lines() {
            let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
            if message["level"] != "error" || message["spans"].as_array().is_none_or(Vec::is_empty) {
                continue;
            }
            let text = message["rendered"].as_str().unwrap_or_default();
            let sin = sins.iter().find(|sin| text.contains(&format!("{}:", sin.path.display())));
            let sin = sin.unwrap_or_else(|| panic!("an error outside of the corpus:\n{text}"));
            let code = code(&message)
                .unwrap_or_else(|| panic!("`{}` has a mistake of another kind:\n{text}", sin.name));
            errors.entry(sin.name.clone()).or_default().insert(code);
        }
        assert!(
            checked.status.success() || !errors.is_empty(),
            "{}",
            String::from_utf8_lossy(&checked.stderr)
        );
        errors
    }

    /// Builds what is left.
    pub(crate) fn player(&self) -> Player {
        let incremental = format!("-Cincremental={}", self.dir.join("incremental").display());
        let args = ["--crate-name=sins", "--extern=kit", "--emit=link", &incremental];
        let built = self.rustc(&self.dir.join("main.rs"), &args);
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        Player(self.dir.join("sins"))
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
