//! A coding agent: it finds a TODO whose test fails in a repository, writes a patch, and commits when a person agrees. Once.
//!
//! ```text
//! cargo run --example coding                            # asks you before it commits
//! cargo run --example coding -- --yes --crash-after 20  # dies in the middle of its work
//! cargo run --example coding -- --yes                   # resumes where it stopped
//! ```
//!
//! It works on a scratch repository below `target/`, or on the one that `--repo` names, with two tools of its own and those
//! of two MCP servers, for files and for git: those that `scripts/mcp-servers` installs, else by `npx` and `uvx`, or the
//! commands in `AETHER_MCP_FILESYSTEM` and `AETHER_MCP_GIT`. A script plays the model, so that it works offline;
//! `OPENAI_API_KEY`, or `OPENAI_BASE_URL` for a server of one's own, and `OPENAI_MODEL` name a real one.

mod agent;
mod options;
mod scratch;
mod script;
mod supervise;

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aether::llm::{Models, OpenAiClient};
use aether::mcp::{Mcp, Server};
use aether::prelude::*;
use aether::sqlite::SqliteStore;
use aether::store::Store;
use aether_testing::crash::CrashStore;

use crate::agent::{Repository, fix};
use crate::options::Options;

/// How long a run stays reserved for a process that died. Short, because this is a demonstration of dying.
const LEASE: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn Error>> {
    let options = Options::parse(std::env::args().skip(1))?;
    let repo = scratch::prepare(&options)?;
    println!("repository: {}", repo.display());
    let mut store: Arc<dyn Store> = Arc::new(SqliteStore::open(&options.db)?);
    if let Some(point) = options.crash {
        let crashing = Arc::new(CrashStore::new(store, Some(point)));
        tokio::spawn(dies_at(Arc::clone(&crashing)));
        store = crashing;
    }
    let mcp = Mcp::new()
        .server("files", server(&options.files, &repo)?)
        .server("git", server(&options.git, &repo)?);
    let engine = Engine::builder()
        .store(store)
        .lease(LEASE)
        .provide(models()?)
        .provide(mcp.clone())
        .provide(Repository(repo.clone()))
        .start()
        .await?;
    let run = engine.start::<fix>(repo.display().to_string()).id(options.id.as_str()).await?;
    // People decide elsewhere, also while the agent waits for nothing.
    let people = tokio::spawn(supervise::decide(engine.clone(), run.id().clone(), repo, options.yes));
    let outcome = run.result().await;
    people.abort();
    println!("{}", outcome?);
    engine.shutdown().await?;
    mcp.close().await;
    Ok(())
}

/// Ends the process when the store is at its crash point. No destructor runs, as with `kill -9`.
async fn dies_at(store: Arc<CrashStore>) {
    store.crashed().await;
    eprintln!("  -- crash on request: the process ends here --");
    std::process::abort()
}

/// A server that works on the repository.
fn server(command: &[String], repo: &Path) -> std::result::Result<Server, Box<dyn Error>> {
    let (program, words) = command.split_first().ok_or("the command of a server is empty")?;
    let server = words.iter().fold(Server::stdio(program), |server, word| server.arg(word));
    Ok(server.arg(repo))
}

fn models() -> std::result::Result<Models, Box<dyn Error>> {
    if std::env::var_os("OPENAI_API_KEY").is_some() || std::env::var_os("OPENAI_BASE_URL").is_some() {
        return Ok(Models::new(OpenAiClient::from_env()?));
    }
    Ok(Models::new(script::Script))
}
