//! The main example: an agent that researches a question in a real source tree and writes a report, exactly once.
//!
//! ```text
//! cargo run --example research
//! cargo run --example research -- --crash-at 9     # dies in the middle of its work
//! cargo run --example research                     # resumes where it stopped
//! cargo run --example research -- --tree ~/src/other --question "Where are passwords checked?"
//! ```
//!
//! Works offline: without `OPENAI_API_KEY` or `OPENAI_BASE_URL` a bundled scripted model on loopback answers, over
//! the same protocol. Read `agent.rs` first (the workflow), then `tools.rs` (the steps), then
//! `tests.rs` (eight tests to copy: `cargo test --example research`).

mod agent;
mod cli;
mod crash;
mod offline_model;
mod progress;
mod report;
#[cfg(test)]
mod tests;
mod tools;
mod tree;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use aether::error::{RunError, StartError};
use aether::id::RunId;
use aether::llm::OpenAiClient;
use aether::prelude::*;
use aether::sqlite::SqliteStore;
use aether::store::Store;
use aether::store::event::Event;
use aether::view::Status;

use crate::agent::{Brief, Findings, research};
use crate::cli::{Command, Options};
use crate::crash::CrashingStore;
use crate::progress::Progress;
use crate::tools::Desk;

/// How long a run stays reserved for a process that died. Short, because this is a demonstration of dying.
const LEASE: Duration = Duration::from_secs(1);

/// Why the program ends without a report.
enum Stop {
    /// The user asked for something that cannot be done.
    Usage(String),
    /// It was tried and did not succeed.
    Failed(String),
}

impl From<String> for Stop {
    fn from(message: String) -> Self {
        Self::Usage(message)
    }
}

/// Any other error is a failure.
fn failed(error: impl std::fmt::Display) -> Stop {
    Stop::Failed(error.to_string())
}

#[tokio::main]
async fn main() -> ExitCode {
    let done = match cli::parse(std::env::args().skip(1)) {
        Ok(Command::Help) => {
            print!("{}", cli::HELP);
            Ok(())
        }
        Ok(Command::Research(options)) => work(&options).await,
        Err(message) => Err(Stop::Usage(message)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Stop::Usage(message)) => {
            eprintln!("research: {message}");
            ExitCode::from(2)
        }
        Err(Stop::Failed(message)) => {
            eprintln!("research: {message}");
            ExitCode::FAILURE
        }
    }
}

async fn work(options: &Options) -> Result<(), Stop> {
    options.prepare()?;
    let store: Arc<dyn Store> =
        Arc::new(SqliteStore::open(&options.db).map_err(|error| Stop::Usage(error.to_string()))?);
    let (id, found) = run_id(options, &*store).await?;
    let brief = options.brief(&id)?;
    if found.is_none() {
        options.make_room(&brief.report)?;
    }
    println!("Question: {}\nTree:     {}\nRun:      {id}", brief.question, brief.tree.display());
    let engine = engine(options, store, found.is_some()).await?;
    if found.is_some_and(Status::is_terminal) {
        println!("This run is finished; nothing is done again. --fresh begins a new one.");
    }
    let outcome = follow(&engine, brief, &id).await;
    let history = match &outcome {
        Ok(_) => history(&engine, &id).await,
        Err(_) => Ok(String::new()),
    };
    engine.shutdown().await.map_err(failed)?;
    let findings = outcome?;
    println!("\n{}\n\n{}\nReport: {}", findings.answer, history?, findings.report.path.display());
    Ok(())
}

/// The name of the run, and where it stands if it exists: the newest of its name, or with `--fresh` the next one.
async fn run_id(options: &Options, store: &dyn Store) -> Result<(String, Option<Status>), Stop> {
    let mut newest = None;
    let mut generation = 1;
    loop {
        let name = if generation == 1 { options.id.clone() } else { format!("{}-{generation}", options.id) };
        let id = RunId::new(&name).map_err(|error| Stop::Usage(format!("--id: {error}")))?;
        match (store.run(&id).await.map_err(failed)?, newest) {
            (Some(record), _) => newest = Some((name, Some(record.status))),
            (None, Some(newest)) if !options.fresh => return Ok(newest),
            (None, _) => return Ok((name, None)),
        }
        generation += 1;
    }
}

async fn engine(options: &Options, store: Arc<dyn Store>, exists: bool) -> Result<Engine, Stop> {
    let model = model().await?;
    let desk = Desk { store: Arc::clone(&store), side_log: options.side_log.clone() };
    let store = match options.crash {
        Some(point) => Arc::new(CrashingStore::new(store, point, exists)),
        None => store,
    };
    let engine = Engine::builder().store(store).lease(LEASE).provide(desk).model(model);
    engine.start().await.map_err(failed)
}

/// The endpoint that the environment names, or the offline model.
async fn model() -> Result<OpenAiClient, Stop> {
    let named = |variable| std::env::var_os(variable).is_some_and(|value| !value.is_empty());
    if named("OPENAI_API_KEY") || named("OPENAI_BASE_URL") {
        let client = OpenAiClient::from_env().map_err(|error| Stop::Usage(error.to_string()))?;
        println!("Model:    as the environment says\n");
        return Ok(client);
    }
    let url = offline_model::start().await.map_err(failed)?;
    println!("Model:    the bundled offline model: it searches and quotes for real, and it does not think.");
    println!("          Set OPENAI_API_KEY or OPENAI_BASE_URL to ask a real one.\n");
    Ok(OpenAiClient::new(url, "offline", offline_model::NAME))
}

/// Starts the run or finds it again, and shows what it does until it ends.
async fn follow(engine: &Engine, brief: Brief, id: &str) -> Result<Findings, Stop> {
    let mut watch = engine.watch();
    let mut progress = Progress::new();
    let run = engine.start::<research>(brief).id(id).await.map_err(|error| match error {
        StartError::Store(error) => failed(error),
        refused => Stop::Usage(refused.to_string()),
    })?;
    let ended = run.result();
    tokio::pin!(ended);
    let result = loop {
        tokio::select! {
            biased;
            Ok(observed) = watch.recv() => progress.show(&observed, run.id()),
            result = &mut ended => break result,
        }
    };
    while let Ok(observed) = watch.try_recv() {
        progress.show(&observed, run.id());
    }
    result.map_err(|error| match error {
        RunError::Failed(failure) => failed(format_args!("run `{id}` failed: {failure}")),
        other => failed(other),
    })
}

/// What the run did to the world, what was decided after crashes, and whether a replay agrees.
async fn history(engine: &Engine, id: &str) -> Result<String, Stop> {
    let id = RunId::new(id).map_err(failed)?;
    let mut lines = Vec::new();
    for entry in engine.ledger(&id).await.map_err(failed)? {
        lines.push(format!("Changed the world: {} ({}), {}", entry.tool, entry.key, entry.status.as_str()));
    }
    for frame in engine.store().load(&id, 0).await.map_err(failed)? {
        for event in frame.events().map_err(failed)? {
            if let Event::InvocationResolved(e) = event {
                lines.push(format!(
                    "After a crash: {}, {} says {:?}",
                    e.invocation.as_str(),
                    e.actor,
                    e.decision
                ));
            }
        }
    }
    let verified = engine.verify(&id).await.map_err(failed)?;
    lines.push(format!("Replayed without calling anything: {} recorded answers match", verified.matched));
    Ok(lines.join("\n"))
}
