//! Servers that are child processes: what they inherit, how they die, and that they are gone afterwards.

use std::path::Path;
use std::time::Duration;

use aether::error::RunError;
use aether::mcp::{Mcp, Server};
use aether::store::MemoryStore;

use crate::kit::{Became, Declared, ask_process, bank, engine, paid};

/// The Python that the tests install packages for.
const PYTHON: &str = "/usr/bin/python3";

/// A server that counts in `folder`, and ends at message `cut_at` after `cut_bytes` of its answer.
fn server(folder: &Path, cut_at: i32, cut_bytes: i32) -> Server {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/stdio_server.py");
    Server::stdio(PYTHON)
        .arg(script)
        .arg(folder.join("executions"))
        .arg(cut_at.to_string())
        .arg(cut_bytes.to_string())
}

fn executions(folder: &Path) -> usize {
    std::fs::read_to_string(folder.join("executions")).map_or(0, |text| text.len())
}

async fn asked(mcp: &Mcp, tool: &str) -> String {
    let engine = engine(&MemoryStore::new(), mcp.clone()).await;
    let run = engine.start::<ask_process>(tool.to_owned()).await.unwrap();
    run.result().await.unwrap()
}

fn is_alive(process: u32) -> bool {
    // A zombie that nobody reaped still has its entry.
    Path::new(&format!("/proc/{process}")).exists()
}

async fn until_gone(process: u32) {
    while is_alive(process) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_process_that_ends_at_any_message_executes_nothing_twice() {
    // Discover, initialize, initialized, the call; -1 for a message that is not executed.
    for message in 0..=4 {
        for bytes in (-1..90).step_by(7).chain([10_000]) {
            let folder = tempfile::tempdir().unwrap();
            let store = MemoryStore::new();
            let first = engine(&store, bank(server(folder.path(), message, bytes))).await;
            let became = paid(&first, Declared::Not).await;
            let (at, executed) = (format!("{message} {bytes}: {became:?}"), executions(folder.path()));
            match &became {
                Became::Answered(text) => assert_eq!((text.as_str(), executed), ("paid", 1), "{at}"),
                Became::Failed(_) => assert_eq!(executed, 0, "{at}"),
                Became::InDoubt(_) => assert!(executed <= 1, "{at}"),
            }
            if message == 3 {
                assert!(!matches!(became, Became::Failed(_)), "{at}");
                assert_eq!(executed, usize::from(bytes >= 0), "{at}");
            }
            first.shutdown().await.unwrap();
            let second = engine(&store, bank(server(folder.path(), -1, 0))).await;
            assert_eq!(paid(&second, Declared::Not).await, became, "{at}");
            assert_eq!(executions(folder.path()), executed, "{at}");
        }
    }
}

#[tokio::test]
async fn a_process_inherits_no_more_than_is_promised() {
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "cargo gives this to tests");
    let folder = tempfile::tempdir().unwrap();
    let mcp = Mcp::new().server("process", server(folder.path(), -1, 0).env("TOKEN", "very-secret"));
    let names: Vec<String> = serde_json::from_str(&asked(&mcp, "environment").await).unwrap();
    let promised =
        ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "TOKEN"];
    // Python itself sets LC_CTYPE where there is no locale.
    assert!(names.iter().all(|name| promised.contains(&name.as_str())), "{names:?}");
    assert!(names.iter().any(|name| name == "TOKEN") && names.iter().any(|name| name == "PATH"));
    assert!(!format!("{mcp:?}").contains("very-secret"));
    mcp.close().await;
}

#[tokio::test]
async fn a_closed_server_is_gone_and_so_is_what_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let mcp = Mcp::new().server("process", server(folder.path(), -1, 0));
    let processes: Vec<u32> = serde_json::from_str(&asked(&mcp, "processes").await).unwrap();
    assert!(processes.iter().all(|process| is_alive(*process)));
    mcp.close().await;
    assert!(!is_alive(processes[0]));
    // It belongs to the system's first process now, which reaps it.
    until_gone(processes[1]).await;

    let again: Vec<u32> = serde_json::from_str(&asked(&mcp, "processes").await).unwrap();
    assert_ne!(processes[0], again[0], "the next call starts the server again");
    drop(mcp);
    until_gone(again[0]).await;
}

#[tokio::test]
async fn a_server_that_ignores_every_word_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mcp = Mcp::new().server("process", server(folder.path(), -1, 0));
    let processes: Vec<u32> = serde_json::from_str(&asked(&mcp, "stubborn").await).unwrap();
    mcp.close().await;
    until_gone(processes[0]).await;
}

#[tokio::test]
async fn a_server_that_writes_megabytes_to_its_standard_error_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let mcp = Mcp::new().server("process", server(folder.path(), -1, 0));
    assert_eq!(asked(&mcp, "noise").await, "quiet");
    assert_eq!(asked(&mcp, "huge").await.len(), 3_000_000);
    mcp.close().await;
}

#[tokio::test]
async fn a_message_that_is_too_long_is_found_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let mcp = Mcp::new().server("process", server(folder.path(), -1, 0).max_message(1_000_000));
    let engine = engine(&MemoryStore::new(), mcp.clone()).await;
    let run = engine.start::<ask_process>("huge".to_owned()).id("r").await.unwrap();
    let ended = run.result().await;
    // A timeout would say that there was no answer within its time.
    assert!(
        matches!(&ended, Err(RunError::Failed(why)) if why.to_string().contains("connection broke")),
        "{ended:?}"
    );
    assert_eq!(asked(&mcp, "noise").await, "quiet", "the next call starts the server again");
    mcp.close().await;
}

#[tokio::test]
async fn a_server_that_is_known_to_be_older_is_not_asked_what_it_speaks() {
    let folder = tempfile::tempdir().unwrap();
    // The process ends at its second message: with a question before the handshake, that would not be the call.
    let store = MemoryStore::new();
    let mcp = bank(server(folder.path(), 2, 10_000).older_protocol());
    let first = engine(&store, mcp).await;
    assert_eq!(paid(&first, Declared::Not).await, Became::Answered("paid".into()));
    assert_eq!(executions(folder.path()), 1);
}
