//! The conformance suite of the protocol, which others wrote, against this client and this server: what passes, and what
//! does not and why (`expected.rs`). A scenario that is in no list fails the test, and so does one that passes although it
//! is said not to.
//!
//! `scripts/mcp-servers` installs the suite.

mod client;
mod expected;
mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use aether::prelude::*;
use serde_json::Value;
use tokio::process::Command;

use crate::real::installed;
use expected::{Expected, RUNS_OF_THE_CLIENT, RUNS_OF_THE_SERVER};

/// A check that measures the time in which the client comes back, in tens of milliseconds.
const BY_THE_CLOCK: &str = "client-sse-retry-timing";
/// A check of every scenario: that the messages have the shape of the protocol.
const SHAPE: &str = "wire-schema";

/// The suite waits for some answers without end.
const PATIENCE: Duration = Duration::from_secs(600);

/// What the suite found in a scenario.
#[derive(Debug, Default)]
struct Found {
    good: BTreeSet<String>,
    bad: BTreeSet<String>,
}

impl Found {
    fn read(file: &Path) -> Self {
        let checks: Vec<Value> = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        let mut found = Self::default();
        for check in &checks {
            let id = check["id"].as_str().unwrap().to_owned();
            match check["status"].as_str().unwrap() {
                "FAILURE" | "WARNING" if id != BY_THE_CLOCK => drop(found.bad.insert(id)),
                "SUCCESS" if !id.contains(SHAPE) => drop(found.good.insert(id)),
                _ => {}
            }
        }
        found
    }

    /// Something was checked, and nothing is wrong.
    fn passes(&self) -> bool {
        self.bad.is_empty() && !self.good.is_empty()
    }
}

/// Runs the suite, and reads what it found in each scenario.
async fn suite(arguments: &[&str]) -> BTreeMap<String, Found> {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Command::new(installed("node"));
    node.arg(installed("node_modules/@modelcontextprotocol/conformance/dist/index.js"));
    node.args(arguments).arg("--output-dir").arg(folder.path());
    let said = node.stdin(Stdio::null()).kill_on_drop(true).output();
    let Ok(said) = tokio::time::timeout(PATIENCE, said).await else {
        panic!("the suite has not ended within {PATIENCE:?}: {arguments:?}");
    };
    let said = said.unwrap();
    let mut found = BTreeMap::new();
    read(folder.path(), folder.path(), &mut found);
    assert!(!found.is_empty(), "{}{}", text(&said.stdout), text(&said.stderr));
    found
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Reads every folder with the checks of a scenario; its name ends in a time, and holds a slash where that of the scenario
/// does.
fn read(top: &Path, folder: &Path, found: &mut BTreeMap<String, Found>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let checks = path.join("checks.json");
        if checks.exists() {
            let name = path.strip_prefix(top).unwrap().to_str().unwrap();
            let name = name.strip_prefix("server-").unwrap_or(name);
            // As in `-2026-11-24T06-03-48-806Z`.
            let name = &name[..name.len() - "-YYYY-MM-DDThh-mm-ss-mmmZ".len()];
            found.insert(name.to_owned(), Found::read(&checks));
        } else if path.is_dir() {
            read(top, &path, found);
        }
    }
}

/// What differs from what is expected.
fn differences(run: &str, expected: &Expected, found: &BTreeMap<String, Found>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut listed = BTreeSet::new();
    for name in expected.passes {
        listed.insert(*name);
        match found.get(*name) {
            Some(found) if found.passes() => {}
            other => wrong.push(format!("{run}: `{name}` does not pass: {other:?}")),
        }
    }
    for (reason, scenarios) in expected.apart {
        for scenario in *scenarios {
            let (name, checks) = scenario.split_once(": ").unwrap_or((scenario, ""));
            listed.insert(name);
            let checks: BTreeSet<String> = checks.split_whitespace().map(str::to_owned).collect();
            match found.get(name) {
                Some(found) if found.passes() => {
                    wrong.push(format!("{run}: `{name}` passes, although it is said not to: {reason}"));
                }
                Some(found) if checks.is_empty() || found.bad == checks => {}
                other => wrong.push(format!("{run}: `{name}` is to fail in {checks:?} alone: {other:?}")),
            }
        }
    }
    let unlisted = found.keys().filter(|name| !listed.contains(name.as_str()));
    wrong.extend(unlisted.map(|name| format!("{run}: `{name}` is in no list")));
    wrong
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_conforms_but_for_what_it_does_not_have() {
    let engine = Engine::builder().memory().start().await.unwrap();
    let server = server::serving(&engine).await;
    let url = server::with_token(&server).await;
    let run = async |(run, arguments, expected): &expected::Run| {
        let arguments = [&["server", "--url", &url], *arguments].concat();
        differences(run, expected, &suite(&arguments).await)
    };
    // Most of the time it waits.
    let wrong = futures::future::join_all(RUNS_OF_THE_SERVER.iter().map(run)).await.concat();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_conforms_but_for_what_it_does_not_have() {
    let program = std::env::current_exe().unwrap();
    let test = "conformance::client::the_client_that_is_tested";
    let command = format!("{} {test} --exact --nocapture", program.display());
    let mut wrong = Vec::new();
    for (run, arguments, expected) in RUNS_OF_THE_CLIENT {
        let arguments = [&["client", "--command", &command], *arguments].concat();
        wrong.extend(differences(run, expected, &suite(&arguments).await));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Scenarios are in suites, and a new one may be in a suite that is not run here.
#[tokio::test]
async fn no_scenario_is_left_out() {
    let mut node = Command::new(installed("node"));
    node.arg(installed("node_modules/@modelcontextprotocol/conformance/dist/index.js")).arg("list");
    let said = text(&node.output().await.unwrap().stdout);
    let (server, rest) = said.split_once("Client scenarios").unwrap();
    let (client, _) = rest.split_once("Authorization server scenarios").unwrap();
    for (said, runs, elsewhere) in
        [(server, RUNS_OF_THE_SERVER, &[][..]), (client, RUNS_OF_THE_CLIENT, expected::NOT_RUN)]
    {
        let name = |line: &str| Some(line.trim().strip_prefix("- ")?.split(' ').next()?.to_owned());
        let there_are: BTreeSet<_> = said.lines().filter_map(name).collect();
        let listed = runs.iter().flat_map(|(_, _, expected)| expected.names());
        let listed: BTreeSet<_> = listed.chain(elsewhere.iter().copied()).map(str::to_owned).collect();
        assert_eq!(there_are, listed);
    }
}

#[test]
fn the_page_names_all_that_passes() {
    let page = include_str!("../../../docs/mcp.md");
    for (_, _, expected) in RUNS_OF_THE_SERVER.iter().chain(RUNS_OF_THE_CLIENT) {
        for name in expected.passes {
            assert!(page.contains(&format!("`{name}`")), "docs/mcp.md does not name `{name}`");
        }
    }
}
