//! A tool that survives a crash: a durable intent, a ledger row, a stable key, and a probe for the unknown outcome.
//!
//! Run: `cargo run --example 04_tool_ledger`. It starts itself as a second process, which dies between sending the
//! letter and recording that it was sent. The first process then claims the run: the letter is not sent again.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use aether::prelude::*;

/// The letterbox: a folder, one file for each letter, named by its idempotency key.
struct Letterbox(PathBuf);

impl Letterbox {
    fn letter(&self, cx: &StepCx) -> PathBuf {
        self.0.join(cx.idempotency_key().as_str().replace([':', '/'], "_"))
    }
}

/// Send a letter, once.
#[step(effect = "tool", irreversible, on_unknown = "probe", probe = is_it_there)]
async fn send(cx: &mut StepCx, text: &str) -> Result<String> {
    println!("[{}] sending, key {}", std::process::id(), cx.idempotency_key());
    let letter = cx.dep::<Letterbox>()?.letter(cx);
    std::fs::write(&letter, text)?;
    if letter.with_file_name("crash").exists() {
        println!("[{}] dies before it can record anything", std::process::id());
        std::process::abort();
    }
    Ok("sent".into())
}

/// Called when it is not known whether a letter was sent.
async fn is_it_there(cx: &mut StepCx, _text: &str) -> Result<Probe<String>> {
    let there = cx.dep::<Letterbox>()?.letter(cx).exists();
    println!("[{}] the probe looks: the letter is there: {there}", std::process::id());
    Ok(if there { Probe::Happened("sent before the crash".into()) } else { Probe::DidNotHappen })
}

/// Send a letter.
#[workflow]
async fn write_to(cx: &mut Cx, text: String) -> Result<String> {
    Ok(send(cx, &text).await?)
}

#[tokio::main]
async fn main() -> Result<()> {
    if let Some(folder) = std::env::args_os().nth(1) {
        return deliver(folder.into()).await;
    }
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("crash"), "")?;
    let died = Command::new(std::env::current_exe()?).arg(folder.path()).status()?;
    println!("the other process ended: {died}");
    std::fs::remove_file(folder.path().join("crash"))?;
    deliver(folder.path().into()).await
}

async fn deliver(folder: PathBuf) -> Result<()> {
    let engine = Engine::builder().sqlite(folder.join("post.db")).provide(Letterbox(folder));
    let engine = engine.lease(Duration::from_millis(500)).start().await?;
    let run = engine.start::<write_to>("Dear Ada".to_owned()).id("letter-1").await?;
    println!("result: {}", run.result().await?);
    for row in engine.ledger(run.id()).await? {
        println!("ledger: {} {} {}", row.tool, row.key, row.status.as_str());
    }
    engine.shutdown().await?;
    Ok(())
}
