//! The person beside the agent: agrees to the commit, and looks at the repository where nobody knows whether it was made.

use std::io::BufRead as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aether::effect::Payload;
use aether::id::RunId;
use aether::people::{Pending, Resolution, Waiting};
use aether::prelude::*;
use serde_json::json;

use crate::scratch::git;
use crate::script::MESSAGE;

const LOOK: Duration = Duration::from_millis(50);

/// Decides whatever the run waits for, until it is stopped. With `yes`, nobody is asked.
pub(crate) async fn decide(engine: Engine, run: RunId, repo: PathBuf, yes: bool) {
    loop {
        for wait in engine.pending(&run).await.unwrap_or_default() {
            // One that is not open any more was decided before a crash, and is no news.
            if let Err(error) = reply(&engine, &run, &wait, &repo, yes).await {
                eprintln!("  {error}");
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn reply(
    engine: &Engine,
    run: &RunId,
    wait: &Pending,
    repo: &Path,
    yes: bool,
) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>> {
    match (wait.waiting, &wait.invocation) {
        (Waiting::Resolution, Some(invocation)) => {
            let resolution = seen(repo)?;
            println!("  nobody knew whether `{}` happened; the repository says: {resolution:?}", wait.name);
            engine.resolve(run, invocation, resolution, "the log of the repository").await?;
        }
        (Waiting::Approval, _) if yes || agrees(repo).await? => {
            engine.approve(run, wait, "the person at the keyboard").await?;
        }
        (Waiting::Approval, _) => {
            engine.reject(run, wait, "not like this", "the person at the keyboard").await?
        }
        _ => {}
    }
    Ok(())
}

/// Whether the commit was made, with the answer that the server gives then.
fn seen(repo: &Path) -> std::result::Result<Resolution, Box<dyn std::error::Error + Send + Sync>> {
    if git(repo, &["log", "-1", "--format=%s"])? != MESSAGE {
        return Ok(Resolution::DidNotHappen);
    }
    let hash = git(repo, &["rev-parse", "HEAD"])?;
    let text = format!("Changes committed successfully with hash {hash}");
    let result = json!({ "content": [{ "type": "text", "text": text }], "is_error": false });
    Ok(Resolution::Happened(Payload::encode(&result)?))
}

/// Shows the change, and asks.
async fn agrees(repo: &Path) -> std::result::Result<bool, Box<dyn std::error::Error + Send + Sync>> {
    println!("{}\n\nCommit this? [y/N]", git(repo, &["diff", "HEAD"])?);
    let line = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).map(|_| line)
    });
    Ok(line.await??.trim().eq_ignore_ascii_case("y"))
}
