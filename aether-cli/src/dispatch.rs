//! From arguments to an exit code.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use aether_core::engine::EngineBuilder;
use clap::{CommandFactory as _, FromArgMatches as _};

use crate::args::command::{Command, Common, Embedded, Standalone};
use crate::args::inbox::Inbox;
use crate::args::runs::{Runs, Streams};
use crate::args::store::{Db, Evidence};
use crate::commands::{
    backup, check, check_code, db, decide, doctor, end, evidence, exchange, fork, graph, history, inbox,
    ledger, list, queues, schedules, shell, show, signal, start, streams, verify, wait,
};
use crate::error::CliError;
use crate::exit::Exit;
use crate::screen::Screen;
use crate::session::{Session, Target};

/// Runs the command line inside of a program that links its workflows. `builder` is the one that the program's service is
/// started with; it is opened as a [client](EngineBuilder::client), only by a command that needs it, and advances nothing.
/// `args` begin with the name of the program.
///
/// ```no_run
/// use aether_core::engine::EngineBuilder;
/// # fn configured() -> EngineBuilder { EngineBuilder::default() }
/// # async fn serve(_: EngineBuilder) -> std::process::ExitCode { std::process::ExitCode::SUCCESS }
/// # async fn program() -> std::process::ExitCode {
/// // `my-agent serve` advances runs; `my-agent runs list` and all the others look and steer.
/// match std::env::args().nth(1).as_deref() {
///     Some("serve") => serve(configured()).await,
///     _ => aether_cli::run(configured(), std::env::args_os()).await,
/// }
/// # }
/// ```
pub async fn run(builder: EngineBuilder, args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<_> = args.into_iter().collect();
    let mut command = Embedded::command();
    if let Some(name) = name_of(&args) {
        command = command.name(name.clone()).bin_name(name);
    }
    let parsed = command.clone().try_get_matches_from(args);
    match parsed.and_then(|matches| Embedded::from_arg_matches(&matches)) {
        Ok(Embedded { common, command: asked }) => {
            go(Target::Program(Box::new(builder)), common, asked, command).await
        }
        Err(error) => refused(&error),
    }
}

/// The program `aether`: as [`run`], on the store that `--db` or `AETHER_DB` names.
pub async fn standalone(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let command = Standalone::command();
    let parsed = command.clone().try_get_matches_from(args);
    match parsed.and_then(|matches| Standalone::from_arg_matches(&matches)) {
        Ok(Standalone { place, common, command: asked }) => {
            go(Target::of(place.db), common, asked, command).await
        }
        Err(error) => refused(&error),
    }
}

/// The program's name, as it was called.
fn name_of(args: &[OsString]) -> Option<String> {
    Some(Path::new(args.first()?).file_stem()?.to_string_lossy().into_owned())
}

/// Help, a version, or arguments that are not understood.
fn refused(error: &clap::Error) -> ExitCode {
    let _nobody_may_read_it = error.print();
    if error.use_stderr() { Exit::Usage.into() } else { Exit::Done.into() }
}

async fn go(target: Target, common: Common, asked: Command, command: clap::Command) -> ExitCode {
    let screen = Screen::new(common.json, common.full, common.color);
    let mut session = Session::new(target, screen, common.actor);
    let done = obey(&mut session, asked, command).await;
    let closed = session.close().await;
    match done.and_then(|exit| closed.map(|()| exit)) {
        Ok(exit) => exit.into(),
        Err(error) => {
            session.screen.error(&error);
            error.exit.into()
        }
    }
}

async fn obey(session: &mut Session, asked: Command, command: clap::Command) -> Result<Exit, CliError> {
    match asked {
        Command::Runs(Runs::List(args)) => list::list(session, args).await,
        Command::Runs(Runs::Show(args)) => show::show(session, &args).await,
        Command::Runs(Runs::History(args)) => history::history(session, &args).await,
        Command::Runs(Runs::Wait(args)) => wait::wait(session, &args).await,
        Command::Runs(Runs::Cancel(args)) => end::end(session, args, false).await,
        Command::Runs(Runs::Terminate(args)) => end::end(session, args, true).await,
        Command::Runs(Runs::Retry(args)) => fork::retry(session, args).await,
        Command::Runs(Runs::Fork(args)) => fork::fork(session, args).await,
        Command::Start(args) => start::start(session, args).await,
        Command::Inbox(Inbox::List(args)) => inbox::list(session, args).await,
        Command::Inbox(Inbox::Show(args)) => inbox::show(session, &args).await,
        Command::Inbox(Inbox::Approve(args)) => decide::approve(session, &args).await,
        Command::Inbox(Inbox::Reject(args)) => decide::reject(session, &args).await,
        Command::Inbox(Inbox::Answer(args)) => decide::answer(session, args).await,
        Command::Inbox(Inbox::Resolve(args)) => decide::resolve(session, &args).await,
        Command::Inbox(Inbox::Confirm(args)) => decide::confirm(session, &args).await,
        Command::Signal(args) => signal::signal(session, args).await,
        Command::Queues(args) => queues::queues(session, args).await,
        Command::Schedules(args) => schedules::schedules(session, args).await,
        Command::Ledger(args) => ledger::ledger(session, &args).await,
        Command::Streams(Streams::Tail(args)) => streams::tail(session, &args).await,
        Command::Graph(args) => graph::graph(session, &args).await,
        Command::Verify(args) => verify::verify(session, &args).await,
        Command::Check(args) => check::check(session, args).await,
        Command::CheckCode { args } => check_code::check_code(session, &args),
        Command::Export(args) => exchange::export(session, &args).await,
        Command::Import(args) => exchange::import(session, &args).await,
        Command::Db(Db::Status) => db::status(session).await,
        Command::Db(Db::Migrate) => db::migrate(session).await,
        Command::Evidence(Evidence::Export(args)) => evidence::export(session, &args).await,
        Command::Evidence(Evidence::Verify { file, tip }) => evidence::verify(session, &file, tip.as_deref()),
        Command::Db(Db::Prune(args)) => db::prune(session, &args).await,
        Command::Db(Db::Backup { to }) => backup::backup(session, &to),
        Command::Db(Db::Restore { from }) => backup::restore(session, &from),
        Command::Db(Db::Check) => backup::check(session).await,
        #[cfg(feature = "web")]
        Command::Web(args) => crate::commands::web::web(session, &args).await,
        #[cfg(feature = "web")]
        Command::Dev(args) => crate::commands::dev::dev(session, args).await,
        Command::Doctor => doctor::doctor(session).await,
        Command::Schema(args) => shell::schema(session, &args),
        Command::Completions { shell } => shell::completions(session, shell, command),
        Command::Man => shell::man(session, &command),
    }
}
