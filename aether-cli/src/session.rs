//! One call of the command line: where the runs are, how it prints, who is recorded.
//!
//! Promise: a store is opened only by a command that needs it, as a client that advances nothing; a store of another
//! version is refused before it is touched, and one that is only looked at is not written.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use aether_core::engine::{Engine, EngineBuilder};
use aether_core::id::RunId;
use aether_core::store::{Store, StoreError};
use aether_effects::environment::SystemEnvironment;
use aether_sqlite::{EngineSqlite as _, SqliteStore, inspect};

use crate::error::CliError;
use crate::exit::Exit;
use crate::screen::Screen;

/// Where the runs are.
pub(crate) enum Target {
    /// In this file.
    File(PathBuf),
    /// In this Postgres database.
    #[cfg(feature = "postgres")]
    Postgres(String),
    /// Where the program says.
    Program(Box<EngineBuilder>),
    /// Nobody has said, or what was said is of no use.
    Unknown(CliError),
}

impl Target {
    /// The place that `--db` or `AETHER_DB` names.
    pub(crate) fn of(db: Option<String>) -> Self {
        match db.filter(|db| !db.is_empty()) {
            None => Self::Unknown(
                CliError::usage("it is not said where the runs are")
                    .with_help("pass `--db PATH`, or set AETHER_DB, to the SQLite file that the program gives to `.sqlite(..)`"),
            ),
            Some(url) if url.starts_with("postgres://") || url.starts_with("postgresql://") => Self::database(url),
            Some(path) => Self::File(path.into()),
        }
    }

    #[cfg(feature = "postgres")]
    fn database(url: String) -> Self {
        Self::Postgres(url)
    }

    #[cfg(not(feature = "postgres"))]
    fn database(_url: String) -> Self {
        Self::Unknown(CliError::usage("this build knows no Postgres").with_help(
            "install it with the feature `postgres`: `cargo install --path aether-cli --features postgres`",
        ))
    }
}

/// One call of the command line.
pub(crate) struct Session {
    pub(crate) screen: Screen,
    actor: Option<String>,
    target: Option<Target>,
    engine: Option<Engine>,
    /// On a file that is only looked at.
    looking: Option<Engine>,
}

impl Session {
    pub(crate) fn new(target: Target, screen: Screen, actor: Option<String>) -> Self {
        Self { screen, actor, target: Some(target), engine: None, looking: None }
    }

    /// Who is recorded.
    pub(crate) fn actor(&self) -> Result<String, CliError> {
        let named = self.actor.clone().filter(|name| !name.trim().is_empty());
        named.or_else(|| whoami::username().ok().filter(|name| !name.trim().is_empty())).ok_or_else(|| {
            CliError::usage("nobody knows who decides: the system does not say your login name")
                .with_help("pass `--actor`")
        })
    }

    /// The SQLite file, where the runs are in one that was named.
    pub(crate) fn file(&self) -> Option<&Path> {
        match &self.target {
            Some(Target::File(path)) => Some(path),
            _ => None,
        }
    }

    /// The engine, which advances nothing.
    pub(crate) async fn engine(&mut self) -> Result<Engine, CliError> {
        if let Some(Target::File(path)) = &self.target {
            check_file(path, true)?;
        }
        self.open(false).await
    }

    /// The engine for a command that changes nothing: a file that was named is not written, nor is anything beside it.
    pub(crate) async fn look(&mut self) -> Result<Engine, CliError> {
        if let Some(engine) = &self.looking {
            return Ok(engine.clone());
        }
        let Some(Target::File(path)) = &self.target else { return self.engine().await };
        check_file(path, false)?;
        let path = path.clone();
        let builder = Engine::builder().environment(Arc::new(SystemEnvironment));
        let open = move || Ok(Arc::new(SqliteStore::open_read_only(path)?) as Arc<dyn Store>);
        let engine = builder.store_with(open).client().start().await?;
        self.looking = Some(engine.clone());
        Ok(engine)
    }

    /// As [`Session::engine`], whatever version the file has, and also where it has no tables yet.
    pub(crate) async fn migrated(&mut self) -> Result<Engine, CliError> {
        self.open(true).await
    }

    /// An engine of the program around the command line, which advances its runs; `None` where there is no such program.
    #[cfg(feature = "web")]
    pub(crate) async fn advancing(&mut self) -> Result<Option<Engine>, CliError> {
        let Some(Target::Program(_)) = &self.target else { return Ok(None) };
        let Some(Target::Program(builder)) = self.target.take() else { return Ok(None) };
        let engine = builder.start().await?;
        self.engine = Some(engine.clone());
        Ok(Some(engine))
    }

    async fn open(&mut self, migrate: bool) -> Result<Engine, CliError> {
        if let Some(engine) = &self.engine {
            return Ok(engine.clone());
        }
        let builder = || Engine::builder().environment(Arc::new(SystemEnvironment));
        let builder = match self.target.take() {
            Some(Target::File(path)) => {
                let builder = builder().sqlite(&path);
                // Asked for again by those who look at the file.
                self.target = Some(Target::File(path));
                builder
            }
            #[cfg(feature = "postgres")]
            Some(Target::Postgres(url)) => aether_postgres::EnginePostgres::postgres(builder(), url),
            Some(Target::Program(builder)) => *builder,
            Some(Target::Unknown(error)) => return Err(error),
            None => return Err(CliError::new(Exit::Store, "the store could not be opened before")),
        };
        let engine = builder.client().migrate(migrate).start().await?;
        self.engine = Some(engine.clone());
        Ok(engine)
    }

    /// Closes what was opened.
    pub(crate) async fn close(&mut self) -> Result<(), CliError> {
        for engine in [self.looking.take(), self.engine.take()].into_iter().flatten() {
            engine.shutdown().await?;
        }
        Ok(())
    }
}

/// Whether the system lets this user write there.
pub(crate) fn may_write(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}

/// Refuses a file that opening would create or migrate, or that is to be written and cannot be.
fn check_file(path: &Path, is_written: bool) -> Result<(), CliError> {
    if !path.exists() {
        let what = format!("there is no file {}", path.display());
        return Err(CliError::new(Exit::Store, what).with_help(
            "pass the path that the program gives to `.sqlite(..)`; `db migrate` makes an empty store",
        ));
    }
    let name = path.display();
    if is_written && !may_write(path) {
        let what = format!("{name} cannot be written by this user, and this command writes to it");
        return Err(CliError::new(Exit::Store, what).with_help(
            "give this user the right to write to the file and its folder; commands that only look need none",
        ));
    }
    let found = inspect(path)?;
    if found.version == 0 {
        let what =
            format!("{name} is a database, and there are no runs in it: it has no tables of the engine");
        return Err(CliError::new(Exit::Store, what).with_help(
            "pass the path that the program gives to `.sqlite(..)`; `db migrate` makes the tables",
        ));
    }
    if found.is_older() {
        let (old, new) = (found.version, found.supported);
        let what = format!("{name} has tables of version {old}, and this build works on version {new}");
        return Err(CliError::new(Exit::Store, what).with_help(
            "use the command line of the build that wrote it; or stop its processes, make a copy, and `db migrate`",
        ));
    }
    Ok(())
}

/// A run's id as it was given.
pub(crate) fn run_id(text: &str) -> Result<RunId, CliError> {
    RunId::new(text).map_err(|error| CliError::usage(error.to_string()))
}

/// Fails where the store has no such run.
pub(crate) async fn existing(
    engine: &Engine,
    run: &RunId,
) -> Result<aether_core::store::RunRecord, CliError> {
    let found = engine.store().run(run).await?;
    found.ok_or_else(|| StoreError::UnknownRun { run: run.clone() }.into())
}
