//! What compiles and what does not, with the messages as people see them.
//!
//! `TRYBUILD=overwrite cargo test --test it ui` writes the messages anew.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn mistakes_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/ui/*/fail/*.rs");
}

/// All passing cases are programs of one package, so that one `cargo check` covers them.
#[test]
fn remedies_compile() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let package = root.join("target/tests/ui-pass");
    fs::create_dir_all(package.join("src")).unwrap();
    fs::write(package.join("Cargo.toml"), manifest(root)).unwrap();
    fs::copy(root.join("Cargo.lock"), package.join("Cargo.lock")).unwrap();
    let checked = Command::new(env!("CARGO"))
        .args(["check", "--offline", "--quiet", "--bins", "--keep-going", "--color=never"])
        .current_dir(&package)
        .env("CARGO_TARGET_DIR", root.join("target/tests/ui-pass-target"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success() && said.trim().is_empty(), "{said}");
}

fn manifest(root: &Path) -> String {
    let testing = root.join("aether-testing");
    let mut text = format!(
        r#"[package]
name = "ui-pass"
version = "0.0.0"
edition = "2024"
publish = false

[workspace]

[dependencies]
aether = {{ path = {root:?}, default-features = false }}
aether-testing = {{ path = {testing:?} }}
jiff = {{ version = "0.2", features = ["serde"] }}
reqwest = {{ version = "0.13", default-features = false, features = ["rustls-no-provider", "json"] }}
schemars = "1"
serde = {{ version = "1", features = ["derive"] }}
serde_json = "1"
tokio = {{ version = "1", features = ["time"] }}
tracing = "0.1"
uuid = {{ version = "1", features = ["v4", "v7", "serde"] }}
"#
    );
    for case in cases(root, "pass") {
        let name: Vec<String> = case
            .with_extension("")
            .iter()
            .rev()
            .take(3)
            .filter(|part| *part != "pass")
            .map(|part| part.to_string_lossy().into_owned())
            .collect();
        let name = format!("{}_{}", name[1], name[0]);
        writeln!(text, "\n[[bin]]\nname = {name:?}\npath = {case:?}").unwrap();
    }
    text
}

/// Every case of one side, in order.
fn cases(root: &Path, side: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for rule in fs::read_dir(root.join("tests/ui")).unwrap() {
        let Ok(cases) = fs::read_dir(rule.unwrap().path().join(side)) else { continue };
        found.extend(
            cases.map(|case| case.unwrap().path()).filter(|case| case.extension().is_some_and(|e| e == "rs")),
        );
    }
    found.sort();
    found
}

#[test]
fn there_are_many_cases_and_passing_ones_deny_warnings() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (fail, pass) = (cases(root, "fail"), cases(root, "pass"));
    assert!(fail.len() + pass.len() >= 130, "{} and {}", fail.len(), pass.len());
    for case in pass {
        let text = fs::read_to_string(&case).unwrap();
        assert!(text.lines().take(2).any(|line| line == "#![deny(warnings)]"), "{case:?}");
    }
}

#[test]
fn three_mistakes_are_three_errors() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for name in ["three_mistakes", "three_in_a_step"] {
        let text = fs::read_to_string(root.join(format!("tests/ui/noise/fail/{name}.stderr"))).unwrap();
        let errors = text.lines().filter(|line| line.starts_with("error")).count();
        let other = text.lines().filter(|line| line.starts_with("warning")).count();
        assert_eq!((errors, other), (3, 0), "{text}");
    }
}

#[test]
fn workflows_in_realistic_style_are_forty() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let realistic =
        cases(root, "pass").into_iter().filter(|case| case.iter().any(|part| part == "realistic"));
    let texts = realistic.map(|case| fs::read_to_string(case).unwrap());
    let mut numbers: Vec<u32> = texts
        .flat_map(|text| {
            text.lines().filter_map(|line| line.trim().strip_prefix("// ")?.parse().ok()).collect::<Vec<_>>()
        })
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=40).collect::<Vec<u32>>());
}
