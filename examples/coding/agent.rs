//! The agent: its workflow, its own tools, and what it says about the tools of the servers.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use aether::mcp::{Contract, McpToolbox};
use aether::prelude::*;
use serde::{Deserialize, Serialize};
use tokio::process::Command;

/// The repository that the agent works on.
pub(crate) struct Repository(pub(crate) PathBuf);

/// Fix what a test and a TODO say is missing, and commit it when somebody agrees.
#[workflow]
pub(crate) async fn fix(cx: &mut Cx, repo: String) -> Result<String> {
    // Writing the same text twice does no harm, adding a file twice neither. A commit is made once: somebody agrees before
    // it, and if nobody knows whether it was made, somebody looks.
    let files = McpToolbox::of("files")
        .only(["read_text_file", "write_file"])
        .contract("read_text_file", Contract::read())
        .contract("write_file", Contract::tool().idempotent());
    let git = McpToolbox::of("git")
        .only(["git_status", "git_diff_unstaged", "git_add", "git_commit"])
        .contract("git_status", Contract::read())
        .contract("git_diff_unstaged", Contract::read())
        .contract("git_add", Contract::tool().idempotent())
        .contract("git_commit", Contract::tool().needs_approval().ask_when_unknown());
    let report = cx
        .agent("coder")
        .system("You mend one thing in a repository: find a TODO whose test fails, write the patch, run the tests, commit.")
        .tools((find_todos::tool(), run_tests::tool()))
        .toolbox(&files)
        .toolbox(&git)
        .max_turns(24)
        .run(format!("The repository is {repo}."))
        .await?;
    Ok(report.answer)
}

/// A line that says what is still to do.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub(crate) struct Todo {
    file: String,
    line: usize,
    text: String,
}

/// List the TODOs of the repository.
#[step(effect = "read")]
pub(crate) async fn find_todos(cx: &mut StepCx) -> Result<Vec<Todo>> {
    let repo = cx.dep::<Repository>()?;
    let (mut todos, mut folders) = (Vec::new(), vec![repo.0.clone()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
            if path.is_dir() && !hidden {
                folders.push(path);
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                todos.extend(todos_of(&repo.0, &path, &text));
            }
        }
    }
    todos.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    Ok(todos)
}

fn todos_of(repo: &Path, path: &Path, text: &str) -> Vec<Todo> {
    let file = path.strip_prefix(repo).unwrap_or(path).display().to_string();
    let lines = text.lines().zip(1..).filter(|(text, _)| text.contains("TODO"));
    lines.map(|(text, line)| Todo { file: file.clone(), line, text: text.trim().to_owned() }).collect()
}

/// What the tests said.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub(crate) struct Tested {
    passed: bool,
    output: String,
}

/// Run the tests of the repository.
#[step(effect = "read", timeout = "2m")]
pub(crate) async fn run_tests(cx: &mut StepCx) -> Result<Tested> {
    let repo = cx.dep::<Repository>()?;
    let mut tests = Command::new("sh");
    tests.arg("run-tests").current_dir(&repo.0).stdin(Stdio::null()).kill_on_drop(true);
    let done = tests.output().await?;
    let said = [done.stdout, done.stderr].concat();
    let output = String::from_utf8_lossy(&said).chars().take(4_000).collect();
    Ok(Tested { passed: done.status.success(), output })
}
