//! `db status`, `db migrate` and `db prune`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use aether_core::contract::Status;
use aether_core::engine::{Engine, PurgeDecision, Retention};
use aether_core::store::RunFilter;
use aether_sqlite::{Inspected, inspect};

use crate::args::store::Prune;
use crate::commands::print;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::files::{Migrated, Pruned, StoreReport, WorkerReport};
use crate::screen::{Cell, Screen};
use crate::session::Session;

pub(crate) async fn status(session: &mut Session) -> Result<Exit, CliError> {
    let found = session.file().filter(|path| path.exists()).map(inspect).transpose()?;
    let report = match (session.file().map(Path::to_owned), found) {
        // Of another version: what is in it can be said only after a migration.
        (Some(path), Some(found)) if found.version != found.supported => of_file(&path, Some(found)),
        (path, found) => {
            let engine = session.look().await?;
            let report = path.map_or_else(|| of_store(&engine), |path| of_file(&path, found));
            with_runs(report, &engine).await?
        }
    };
    if session.screen.is_json {
        session.screen.json(&report)?;
    } else {
        print_status(&session.screen, &report)?;
    }
    Ok(Exit::Done)
}

fn of_store(engine: &Engine) -> StoreReport {
    let store = engine.store().describe();
    StoreReport {
        store,
        version: None,
        supported: None,
        bytes: None,
        log_bytes: None,
        runs: BTreeMap::new(),
        parked: None,
        workers: Vec::new(),
    }
}

fn of_file(path: &Path, found: Option<Inspected>) -> StoreReport {
    StoreReport {
        store: format!("sqlite {}", path.display()),
        version: found.map(|found| found.version),
        supported: found.map(|found| found.supported),
        bytes: size(path),
        log_bytes: size(&log_of(path)),
        runs: BTreeMap::new(),
        parked: None,
        workers: Vec::new(),
    }
}

fn size(path: &Path) -> Option<u64> {
    std::fs::metadata(path).ok().map(|data| data.len())
}

/// The write-ahead log of a file.
pub(crate) fn log_of(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

async fn with_runs(mut report: StoreReport, engine: &Engine) -> Result<StoreReport, CliError> {
    for status in Status::ALL {
        let count = engine.count(RunFilter::new().status(status)).await?;
        report.runs.insert(status.as_str().into(), count);
    }
    report.parked = Some(engine.count(RunFilter::new().parked(true)).await?);
    let workers = engine.workers().await?.into_iter().filter(|worker| !worker.is_me);
    report.workers = workers
        .map(|worker| WorkerReport {
            id: worker.known.id.to_string(),
            runs: worker.known.runs,
            dead: worker.known.is_dead,
        })
        .collect();
    Ok(report)
}

fn print_status(screen: &Screen, report: &StoreReport) -> Result<(), CliError> {
    screen.field("store", &report.store)?;
    if let (Some(version), Some(supported)) = (report.version, report.supported) {
        let note = match version {
            0 => " (no tables yet: `db migrate` makes them)",
            older if older < supported => " (older: `db migrate` brings it to the version of this build)",
            _ => "",
        };
        screen.field("version", &format!("{version} of {supported}{note}"))?;
    }
    if let Some(bytes) = report.bytes {
        let log = report.log_bytes.unwrap_or(0);
        screen.field("size", &format!("{bytes} bytes, and {log} bytes of write-ahead log"))?;
    }
    if !report.runs.is_empty() {
        screen.heading("Runs")?;
        let rows = report.runs.iter().filter(|(_, count)| **count > 0);
        let rows = rows.map(|(status, count)| vec![print::status(status), Cell::from(count.to_string())]);
        screen.table(&["STATUS", "RUNS"], rows.collect())?;
    }
    if !report.workers.is_empty() {
        screen.heading("Workers and clients")?;
        let rows = report.workers.iter().map(|worker| {
            let dead = if worker.dead { "its process has died" } else { "" };
            vec![Cell::from(&worker.id), Cell::from(worker.runs.to_string()), Cell::from(dead)]
        });
        screen.table(&["ID", "RUNS", ""], rows.collect())?;
    }
    Ok(())
}

pub(crate) async fn migrate(session: &mut Session) -> Result<Exit, CliError> {
    let path = session.file().map(Path::to_owned);
    let before = path.as_ref().filter(|path| path.exists()).map(inspect).transpose()?;
    let engine = session.migrated().await?;
    let after = path.as_ref().map(inspect).transpose()?;
    let migrated = Migrated {
        store: engine.store().describe(),
        from: after.map(|_| before.map_or(0, |found| found.version)),
        to: after.map(|found| found.version),
    };
    if session.screen.is_json {
        session.screen.json(&migrated)?;
        return Ok(Exit::Done);
    }
    let line = match (migrated.from, migrated.to) {
        (Some(from), Some(to)) if from == to => {
            format!("{} is at version {to}: there is nothing to do", migrated.store)
        }
        (Some(from), Some(to)) => {
            format!("{} was brought from version {from} to version {to}", migrated.store)
        }
        _ => format!("{} has the tables of this build", migrated.store),
    };
    session.screen.line(&line)?;
    Ok(Exit::Done)
}

pub(crate) async fn prune(session: &mut Session, args: &Prune) -> Result<Exit, CliError> {
    let engine = if args.dry_run { session.look().await? } else { session.engine().await? };
    let mut retention = Retention::new();
    for (age, set) in [
        (args.ages.completed, Retention::completed as fn(Retention, _) -> Retention),
        (args.ages.failed, Retention::failed),
        (args.ages.rejected, Retention::rejected),
        (args.ages.cancelled, Retention::cancelled),
    ] {
        if let Some(age) = age {
            retention = set(retention, age);
        }
    }
    // The program's own hook may keep a run, or export it first.
    if let Some(own) = engine.retention() {
        retention = retention.with_hook_of(own);
    }
    let pruned = if args.dry_run {
        counted(&engine, retention).await?
    } else {
        let report = engine.purge(&retention).await?;
        Pruned { dry_run: false, deleted: report.deleted, held: report.held, kept: report.kept }
    };
    if session.screen.is_json {
        session.screen.json(&pruned)?;
        return Ok(Exit::Done);
    }
    let verb = if args.dry_run { "would be deleted" } else { "were deleted" };
    let mut line =
        format!("{} runs {verb}, {} are kept because their parents are open", pruned.deleted, pruned.held);
    if pruned.kept > 0 {
        let _infallible = write!(line, ", {} because the program keeps them", pruned.kept);
    }
    session.screen.line(&line)?;
    Ok(Exit::Done)
}

/// What a purge would do.
async fn counted(engine: &Engine, retention: Retention) -> Result<Pruned, CliError> {
    let parents = Arc::new(Mutex::new(Vec::new()));
    let candidates = Arc::clone(&parents);
    let retention = retention.before_purge(move |run| {
        candidates.lock().unwrap_or_else(PoisonError::into_inner).push(run.record().parent.clone());
        async { PurgeDecision::Keep }
    });
    engine.purge(&retention).await?;
    let parents = std::mem::take(&mut *parents.lock().unwrap_or_else(PoisonError::into_inner));
    let mut pruned = Pruned { dry_run: true, deleted: 0, held: 0, kept: 0 };
    for parent in parents {
        let parent = match parent {
            Some(parent) => engine.store().run(&parent).await?,
            None => None,
        };
        // The rule of the store: a run is kept while the run that started it is open.
        let is_held = parent.is_some_and(|parent| !parent.status.is_terminal());
        *(if is_held { &mut pruned.held } else { &mut pruned.deleted }) += 1;
    }
    Ok(pruned)
}
