//! `dev`: a program with its engine, and the console beside it.
//!
//! Promise: the console outlives every build; a program is started again only when its sources have changed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use aether_core::engine::Engine;
use aether_web::{Actions, Options, Role, ServeError, Server};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use crate::args::store::Dev;
use crate::commands::web::{self, failed};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::files::ConsoleAddress;
use crate::session::Session;
use crate::supervised::{Launch, Supervised};
use crate::watched::Watched;

/// Between two looks at the sources.
const LOOK: Duration = Duration::from_millis(400);

/// Works until it is told to end.
pub(crate) async fn dev(session: &mut Session, args: Dev) -> Result<Exit, CliError> {
    match session.advancing().await? {
        Some(engine) => own(session, engine, &args).await,
        None => program(session, args).await,
    }
}

/// Inside of a program that links its workflows: the engine advances runs in this process.
async fn own(session: &Session, engine: Engine, args: &Dev) -> Result<Exit, CliError> {
    if args.folder.is_some() || !args.command.is_empty() {
        return Err(CliError::usage("this program is its own engine: it starts no other one")
            .with_help("call `dev` without a folder and a command, or use the program `aether`"));
    }
    let server = console(session, engine, args.port).await?;
    tokio::select! {
        served = server.run() => served.map_err(failed)?,
        ended = told_to_end() => ended?,
    }
    Ok(Exit::Done)
}

/// The program of a folder, in a process of its own, which is built and started again when its sources change.
async fn program(session: &mut Session, args: Dev) -> Result<Exit, CliError> {
    let folder = args.folder.unwrap_or_else(|| PathBuf::from("."));
    let file = session.file().ok_or_else(|| {
        CliError::usage("`dev` works on a file")
            .with_help("pass `--db PATH`, the file that the program opens")
    })?;
    let file = std::path::absolute(file)
        .map_err(|error| CliError::usage(format!("{} is no path: {error}", file.display())))?;
    let command = match args.command.is_empty() {
        false => args.command,
        true if folder.join("Cargo.toml").exists() => vec!["cargo".into(), "run".into()],
        true => {
            return Err(CliError::usage(format!("there is no Cargo.toml in {}", folder.display()))
                .with_help("pass the folder of the program, or how it is started: `dev FOLDER -- COMMAND`"));
        }
    };
    let db = file.to_string_lossy().into_owned();
    let mut program = Supervised::new(Launch { command, folder: folder.clone(), db });
    start(session, &mut program)?;
    let worked = supervise(session, &mut program, Watched::below(&folder), &file, args.port).await;
    program.stop().await;
    worked.map(|()| Exit::Done)
}

fn start(session: &Session, program: &mut Supervised) -> Result<(), CliError> {
    program.start().map_err(|error| {
        CliError::new(Exit::Failed, format!("the program cannot be started: {error}"))
            .with_help("`dev FOLDER -- COMMAND` says how it is started; without it that is `cargo run`")
    })?;
    session.screen.note("the program is started");
    Ok(())
}

/// Until it is told to end: starts the program again when its sources have changed, and the console once there is a store.
async fn supervise(
    session: &mut Session,
    program: &mut Supervised,
    mut watched: Watched,
    file: &Path,
    port: u16,
) -> Result<(), CliError> {
    let ended = told_to_end();
    tokio::pin!(ended);
    let mut consoles = JoinSet::<Result<(), ServeError>>::new();
    loop {
        tokio::select! {
            ended = &mut ended => return ended,
            Some(served) = consoles.join_next() => match served {
                Ok(served) => served.map_err(failed)?,
                Err(error) => return Err(CliError::new(Exit::Failed, format!("the console has ended: {error}"))),
            },
            () = tokio::time::sleep(LOOK) => {}
        }
        if let Some(status) = program.ended() {
            session
                .screen
                .note(&format!("the program has ended ({status}); it starts again when a source changes"));
        }
        if let Some(changed) = watched.look() {
            session.screen.note(&format!("{} has changed: the program starts again", changed.display()));
            program.stop().await;
            start(session, program)?;
        }
        if consoles.is_empty() && is_store(file) {
            let engine = session.engine().await?;
            consoles.spawn(console(session, engine, port).await?.run());
        }
    }
}

/// Whether the program has made its store.
fn is_store(file: &Path) -> bool {
    file.exists() && aether_sqlite::inspect(file).is_ok_and(|found| found.version == found.supported)
}

/// The console, with everything allowed: it is one's own program, on one's own machine.
async fn console(session: &Session, engine: Engine, port: u16) -> Result<Server, CliError> {
    let options = Options::new().allow(Actions::ALL).role(Role::Audit);
    let server = web::console(session, engine, port, options).await?;
    let address = ConsoleAddress { url: server.url().to_owned() };
    match session.screen.is_json {
        true => session.screen.json_line(&address)?,
        false => session.screen.line(&format!("open {} (it works once; Ctrl-C ends all)", address.url))?,
    }
    Ok(server)
}

/// Waits for Ctrl-C or SIGTERM.
async fn told_to_end() -> Result<(), CliError> {
    let no = |error: std::io::Error| CliError::new(Exit::Failed, format!("signals cannot be heard: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(no)?;
    tokio::select! {
        heard = tokio::signal::ctrl_c() => heard.map_err(no),
        _ = terminate.recv() => Ok(()),
    }
}
