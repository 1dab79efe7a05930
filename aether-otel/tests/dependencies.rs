//! What telemetry costs those who do not use it.

use std::process::Command;

/// The crates that a program with these features of the facade is built of.
fn crates(features: &str) -> Vec<String> {
    let mut tree = Command::new(env!("CARGO"));
    tree.args([
        "tree",
        "--offline",
        "--locked",
        "--package",
        "aether",
        "--edges",
        "normal",
        "--prefix",
        "none",
    ]);
    tree.args(["--features", features]).current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let output = tree.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

fn has(crates: &[String], prefix: &str) -> bool {
    crates.iter().any(|name| name.starts_with(prefix))
}

#[test]
fn a_program_without_telemetry_has_none_of_its_crates() {
    let default = crates("default");
    assert!(has(&default, "aether-core"));
    for prefix in ["aether-otel", "opentelemetry", "tonic", "prost", "tracing-opentelemetry"] {
        assert!(!has(&default, prefix), "{prefix} is built");
    }
    let with = crates("otel");
    assert!(has(&with, "opentelemetry_sdk"));
    for prefix in ["opentelemetry-otlp", "tonic", "prost", "tracing-opentelemetry"] {
        assert!(!has(&with, prefix), "{prefix} is built with `otel` alone");
    }
    assert!(!has(&crates("otel-http"), "tonic-types"));
    assert!(has(&crates("otel-grpc"), "tonic"));
}
