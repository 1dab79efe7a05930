//! Runs the numbered examples: each must end well by itself, without network, within seconds.

#![allow(clippy::unwrap_used)]

use std::process::{Command, Stdio};

use crate::built::built;

/// Runs `name` in a folder of its own; returns what it said.
fn run(name: &str) -> String {
    run_with(name, &[])
}

fn run_with(name: &str, variables: &[(&str, String)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(built().example(name));
    command.current_dir(folder.path()).env("TMPDIR", folder.path()).stdin(Stdio::null());
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{name}: {said}\n{}", String::from_utf8_lossy(&output.stderr));
    said
}

#[test]
fn every_numbered_example_says_what_its_header_promises() {
    let promises = [
        ("01_hello", "result: Hello, Ada! Hello, Grace!"),
        ("02_steps_and_effects", "node_started, tool_invocation_started"),
        ("03_errors_and_retry", "given up after the last attempt"),
        ("04_tool_ledger", "result: sent before the crash"),
        ("05_time_uuid_random", "Verified"),
        ("06_join_race_each", "no answer came in time"),
        ("07_sub_workflows_and_child_runs", "letters: 38"),
        ("08_durable_timers", " s by the recorded clock"),
        ("09_model_and_agent", "a table for two is booked"),
        ("10_verify_and_inspect", "tool_invocation_refused"),
        ("12_transaction", "at the end: 30 cents in 3 transfers"),
        ("13_traits", "letters: 2"),
        ("15_web_service", "ready: 503 Service Unavailable"),
        ("14_schedule", "start 2: `nightly` is paused: true"),
        ("11_meeting_mail", "result: The invitation to bob@example.com is sent."),
    ];
    std::thread::scope(|scope| {
        for (name, promise) in promises {
            scope.spawn(move || {
                let said = run(name);
                assert!(said.contains(promise), "{name} does not say {promise:?}:\n{said}");
            });
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_on_postgres_moves_money_in_transactions() {
    let database = aether_pg_tests::Cluster::shared().database().await;
    let url = database.url();
    let run = move || run_with("16_postgres", &[("DATABASE_URL", url)]);
    let said = tokio::task::spawn_blocking(run).await.unwrap();
    assert!(said.contains("99970 cents left"), "{said}");
}
