//! The corpus of sins: ways to be nondeterministic inside a workflow, and which layer stops each.
//!
//! `cargo test --test it sins` compiles and plays every file of `corpus` and compares the table in `docs/determinism.md`
//! with what it found; with `AETHER_BLESS=1` it writes the table.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod compile;
mod table;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::built::{root, side_by_side};

/// One way to be nondeterministic.
#[derive(Clone, Debug)]
struct Sin {
    name: String,
    title: String,
    direct: bool,
    path: PathBuf,
}

/// What the layers say about one sin.
#[derive(Clone, Debug, Default, PartialEq)]
struct Verdict {
    /// Codes of the macros, or the await gate; empty where it compiles.
    compile: Vec<String>,
    /// The kinds of sources that `cargo aether check` finds; empty where it finds none.
    check: String,
    /// The door at which the trap stopped it.
    trap: Option<String>,
    /// Whether two worlds came apart.
    twice: bool,
}

impl Verdict {
    fn layer(&self) -> &'static str {
        match self {
            Self { compile, .. } if !compile.is_empty() => "compile",
            Self { check, .. } if !check.is_empty() => "check",
            Self { trap: Some(_), .. } => "trap",
            Self { twice: true, .. } => "double run",
            _ => "nothing",
        }
    }
}

fn corpus() -> Vec<Sin> {
    let files = fs::read_dir(root().join("tests/sins/corpus")).expect("the corpus");
    let mut sins: Vec<Sin> = files.map(|file| read(&file.expect("a file").path())).collect();
    sins.sort_by(|a, b| (!a.direct, &a.name).cmp(&(!b.direct, &b.name)));
    sins
}

fn read(path: &Path) -> Sin {
    let text = fs::read_to_string(path).expect("a sin");
    let mut lines = text.lines();
    let mut header = |prefix: &str| {
        let line = lines.next().unwrap_or_default();
        line.strip_prefix(prefix)
            .unwrap_or_else(|| panic!("{path:?} begins with a title and `how`"))
            .to_owned()
    };
    let (title, how) = (header("//! "), header("//! how: "));
    assert!(how == "direct" || how == "indirect", "{path:?}: how: {how}");
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Sin { name, title, direct: how == "direct", path: path.into() }
}

/// What the tests of `cargo-aether` say that it finds.
fn checked(sin: &str) -> String {
    let found = fs::read_to_string(root().join("cargo-aether/tests/corpus/found.txt")).expect("the findings");
    let line = found.lines().find_map(|line| line.strip_prefix(&format!("sins/{sin}: ")));
    let kinds = line.unwrap_or_else(|| panic!("`{sin}` is not in found.txt: run the tests of cargo-aether"));
    if kinds == "nothing" { String::new() } else { kinds.to_owned() }
}

#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn every_sin_meets_the_layer_that_the_docs_name() {
    let sins = corpus();
    assert!(sins.len() >= 70, "{} sins", sins.len());
    let package = compile::Package::new();
    let rejected = package.rejected(&sins);
    let player = package.player();
    let judged = side_by_side(&sins, |sin| match rejected.get(&sin.name) {
        Some(codes) => Verdict { compile: codes.iter().cloned().collect(), ..Verdict::default() },
        None => {
            // What the trap catches may differ in two worlds by chance only, so it is not played there.
            let trap = player.play(&sin.name, "trap");
            let twice = trap.is_none() && player.play(&sin.name, "twice").is_some();
            Verdict { check: checked(&sin.name), trap, twice, ..Verdict::default() }
        }
    });
    let verdicts: BTreeMap<&str, Verdict> = sins.iter().map(|sin| sin.name.as_str()).zip(judged).collect();
    let table = table::of(&sins, &verdicts);
    eprintln!("{}", table.totals);
    table::check(&root().join("docs/determinism.md"), &table.text);
}
