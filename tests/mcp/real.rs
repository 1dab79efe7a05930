//! Servers of others, from npm and PyPI: their tools are called as any program would.
//!
//! `scripts/mcp-servers` installs them, and `scripts/test` calls that.

use std::path::{Path, PathBuf};
use std::process::Command;

use aether::mcp::{Contract, Mcp, Server, ToolList, ToolResult};
use aether::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What is called of a server, in order.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Calls(Vec<(String, Value)>);

/// Lists the tools of the server, and calls some of them as it says they are.
#[workflow]
async fn call_real(cx: &mut Cx, calls: Calls) -> Result<(ToolList, Vec<ToolResult>)> {
    let tools = cx.mcp("real").tools().await?;
    let mut results = Vec::new();
    for (tool, arguments) in &calls.0 {
        let hints = tools.get(tool).map(|tool| tool.hints).unwrap_or_default();
        let call = cx.mcp("real").tool(tool).args(arguments).contract(Contract::trusting(&hints));
        results.push(call.call().await?);
    }
    Ok((tools, results))
}

/// Where `scripts/mcp-servers` put `file`.
pub(crate) fn installed(file: &str) -> PathBuf {
    let target = std::env::current_exe().unwrap();
    let target = target.ancestors().find(|folder| folder.ends_with("debug") || folder.ends_with("release"));
    let file = target.unwrap().parent().unwrap().join("mcp-servers").join(file);
    assert!(file.exists(), "{} is missing: run scripts/mcp-servers, which installs it", file.display());
    file
}

fn node(package: &str) -> Server {
    Server::stdio("node")
        .arg(installed(&format!("node_modules/@modelcontextprotocol/{package}/dist/index.js")))
}

fn python(program: &str) -> Server {
    Server::stdio(installed(&format!("venv/bin/{program}")))
}

async fn called(server: Server, calls: &[(&str, Value)]) -> (ToolList, Vec<ToolResult>) {
    let mcp = Mcp::new().server("real", server);
    let engine = Engine::builder().memory().provide(mcp.clone()).start().await.unwrap();
    let calls =
        Calls(calls.iter().map(|(tool, arguments)| ((*tool).to_owned(), arguments.clone())).collect());
    let run = engine.start::<call_real>(calls).id("r").await.unwrap();
    let result = run.result().await.unwrap();
    let verified = engine.verify(run.id()).await.unwrap();
    assert_eq!(verified.recorded, verified.matched);
    mcp.close().await;
    result
}

#[tokio::test]
async fn the_server_that_has_everything() {
    let (tools, results) = called(
        node("server-everything"),
        &[
            ("echo", json!({ "message": "hello" })),
            ("get-sum", json!({ "a": 3, "b": 4 })),
            ("get-structured-content", json!({ "location": "Chicago" })),
            ("get-tiny-image", json!({})),
            ("trigger-long-running-operation", json!({ "duration": 1, "steps": 2 })),
            ("get-sum", json!({ "a": "three" })),
        ],
    )
    .await;
    assert!(tools.get("echo").is_some_and(|tool| tool.hints.read_only == Some(true)), "{tools:?}");
    assert!(results[0].text().contains("hello") && results[1].text().contains('7'), "{results:?}");
    assert!(
        results[2].structured.as_ref().is_some_and(|value| value["temperature"].is_number()),
        "{results:?}"
    );
    assert!(results[3].content.iter().any(|block| block["type"] == "image"), "{results:?}");
    assert!(results[4].text().contains("completed"), "{results:?}");
    assert!(results[5].is_error, "{results:?}");
}

#[tokio::test]
async fn a_server_of_an_older_protocol_that_asks_in_the_middle_is_told_no() {
    let (_, results) = called(node("server-everything"), &[("trigger-elicitation-request", json!({}))]).await;
    assert!(results[0].text().contains("declined"), "{results:?}");
}

#[tokio::test]
async fn the_server_for_files() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("note.txt");
    let path = file.to_str().unwrap();
    let (tools, results) = called(
        node("server-filesystem").arg(folder.path()),
        &[
            ("write_file", json!({ "path": path, "content": "hello" })),
            ("read_text_file", json!({ "path": path })),
            ("read_text_file", json!({ "path": "/etc/passwd" })),
        ],
    )
    .await;
    assert!(tools.get("read_text_file").is_some_and(|tool| tool.hints.read_only == Some(true)));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "hello");
    assert_eq!(results[1].text(), "hello");
    assert!(results[2].is_error && results[2].text().contains("denied"), "{results:?}");
}

fn git(folder: &Path, words: &[&str]) -> String {
    let out = Command::new("git").arg("-C").arg(folder).args(words).output().unwrap();
    assert!(out.status.success(), "{out:?}");
    String::from_utf8(out.stdout).unwrap()
}

#[tokio::test]
async fn the_server_for_git() {
    let folder = tempfile::tempdir().unwrap();
    git(folder.path(), &["init", "--quiet"]);
    git(folder.path(), &["config", "user.email", "ann@example.com"]);
    git(folder.path(), &["config", "user.name", "Ann"]);
    std::fs::write(folder.path().join("a.txt"), "hello").unwrap();
    let path = folder.path().to_str().unwrap();
    let (_, results) = called(
        python("mcp-server-git"),
        &[
            ("git_status", json!({ "repo_path": path })),
            ("git_add", json!({ "repo_path": path, "files": ["a.txt"] })),
            ("git_commit", json!({ "repo_path": path, "message": "one" })),
            ("git_log", json!({ "repo_path": path })),
        ],
    )
    .await;
    assert!(results[0].text().contains("a.txt") && results[3].text().contains("one"), "{results:?}");
    assert_eq!(git(folder.path(), &["rev-list", "--count", "HEAD"]).trim(), "1");
}

#[tokio::test]
async fn the_server_for_time() {
    let (_, results) = called(
        python("mcp-server-time"),
        &[
            ("get_current_time", json!({ "timezone": "Europe/Vienna" })),
            ("get_current_time", json!({ "timezone": "Nowhere" })),
        ],
    )
    .await;
    assert!(results[0].text().contains("Europe/Vienna"), "{results:?}");
    assert!(results[1].is_error, "{results:?}");
}
