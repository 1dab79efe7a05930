//! `db backup`, `db restore` and `db check`.

use std::path::{Path, PathBuf};

use aether_core::store::{IntegrityReport, RunFilter, StoreError, check_integrity};
use aether_sqlite::{BackupProgress, BackupReport, back_up};

use crate::error::{CliError, found};
use crate::exit::Exit;
use crate::output::files::{Broken, Copied, Integrity};
use crate::screen::{Progress, Tone};
use crate::session::Session;

pub(crate) fn backup(session: &mut Session, to: &Path) -> Result<Exit, CliError> {
    let from = file(session)?;
    let progress = session.screen.progress();
    let made = back_up(&from, to, |at| say(&progress, at));
    drop(progress);
    let report = made.map_err(|error| match CliError::from(error) {
        error if to.symlink_metadata().is_ok() => {
            error.with_help("name a file that is not there yet, such as one with today's date in its name")
        }
        error => error,
    })?;
    print(session, &copied(to, &report, None))
}

pub(crate) fn restore(session: &mut Session, from: &Path) -> Result<Exit, CliError> {
    let to = file(session)?;
    if !from.exists() {
        let what = format!("there is no file {}", from.display());
        return Err(CliError::new(Exit::NotFound, what).with_help("`db backup FILE` makes one"));
    }
    let progress = session.screen.progress();
    let done = aether_sqlite::restore(from, &to, |at| say(&progress, at));
    drop(progress);
    let restored = done.map_err(|error| {
        let help = match error {
            StoreError::Locked { .. } => "`db status` lists the workers and clients that are there",
            StoreError::Open { .. } => "nothing was changed: put right what it says, and try again",
            error => return error.into(),
        };
        CliError::from(error).with_help(help)
    })?;
    let name = |path: PathBuf| path.display().to_string();
    let logs = restored.logs.into_iter().map(name).collect();
    print(session, &Copied { logs, ..copied(&to, &restored.now, restored.replaced.map(name)) })
}

fn file(session: &Session) -> Result<PathBuf, CliError> {
    session.file().map(Path::to_owned).ok_or_else(|| {
        CliError::usage("this needs the path of an SQLite file").with_help(
            "use the program `aether` with `--db PATH`; Postgres has `pg_dump` and archives of its log",
        )
    })
}

fn say(progress: &Progress, at: BackupProgress) {
    progress.say(&format!("{} of {} pages", at.copied, at.pages));
}

fn copied(file: &Path, report: &BackupReport, replaced: Option<String>) -> Copied {
    let BackupReport { bytes, runs, newest } = *report;
    let (file, newest) = (file.display().to_string(), newest.map(|time| time.to_string()));
    Copied { file, bytes, runs, newest, replaced, logs: Vec::new() }
}

fn print(session: &Session, copied: &Copied) -> Result<Exit, CliError> {
    if session.screen.is_json {
        session.screen.json(copied)?;
        return Ok(Exit::Done);
    }
    let Copied { file, bytes, runs, newest, replaced, logs } = copied;
    let until = newest.as_ref().map_or_else(String::new, |time| format!(", changed last at {time}"));
    session.screen.line(&format!("{file}: {runs} runs{until}, {bytes} bytes"))?;
    if !logs.is_empty() {
        session.screen.line(&format!("logs that do not belong to it are in {}", logs.join(", ")))?;
    }
    if let Some(kept) = replaced {
        session.screen.line(&format!("what was there is in {kept}"))?;
        session.screen.line("runs go on from where they were at that time: read \"What an older copy does not know\" in docs/backup.md before a program starts on it")?;
    }
    Ok(Exit::Done)
}

pub(crate) async fn check(session: &mut Session) -> Result<Exit, CliError> {
    let engine = session.look().await?;
    let store = engine.store();
    let progress = session.screen.progress();
    progress.say("the file");
    let damage = store.damage().await?;
    let read = check_integrity(&**store, RunFilter::new(), |so_far| {
        progress.say(&format!("{} runs, {} events", so_far.runs, so_far.events));
    })
    .await;
    drop(progress);
    let mut problems: Vec<_> =
        damage.into_iter().map(|reason| Broken { run: None, position: None, reason }).collect();
    let report = match read {
        Ok(report) => report,
        // What is known of the file says why.
        Err(error @ StoreError::Corrupt { .. }) if !problems.is_empty() => {
            let reason = format!("the runs cannot be read: {error}");
            problems.push(Broken { run: None, position: None, reason });
            IntegrityReport::default()
        }
        Err(error) => return Err(error.into()),
    };
    problems.extend(report.problems.into_iter().map(|of| Broken {
        run: Some(of.run),
        position: of.position,
        reason: of.reason,
    }));
    let exit = if problems.is_empty() { Exit::Done } else { Exit::Problems };
    let (runs, frames, events) = (report.runs, report.frames, report.events);
    let (values, encoded) = (report.values, report.encoded);
    found(exit, print_integrity(session, &Integrity { runs, frames, events, values, encoded, problems }))
}

/// A line for each problem.
fn print_integrity(session: &Session, found: &Integrity) -> Result<(), CliError> {
    let Integrity { runs, frames, events, values, encoded, problems } = found;
    if session.screen.is_json {
        return session.screen.json(found);
    }
    let tone = if problems.is_empty() { Tone::Good } else { Tone::Bad };
    session
        .screen
        .toned(&format!("{runs} runs, {frames} frames, {events} events, {values} large values"), tone)?;
    if *encoded > 0 {
        session.screen.line(&format!("{encoded} runs could not be read, for want of a key"))?;
    }
    for Broken { run, position, reason } in problems {
        let run = run.as_ref().map_or_else(String::new, |run| format!("run `{run}`"));
        let position = position.map_or_else(String::new, |position| format!(", event {position}"));
        let about = if run.is_empty() { "file".to_owned() } else { run + &position };
        session.screen.toned(&format!("{about}: {reason}"), tone)?;
    }
    Ok(())
}
