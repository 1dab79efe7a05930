//! `doctor`: what is wrong, and how to fix it.
//!
//! Promise: it looks at everything that it can, also where something is wrong before that.

use std::path::Path;
use std::time::Duration;

use aether_core::contract::Status;
use aether_core::engine::{Engine, Hold};
use aether_core::store::{RunFilter, RunRecord};
use aether_sqlite::inspect;
use jiff::Timestamp;
use miette::Diagnostic as _;

use crate::commands::db::log_of;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::files::{Diagnosis, Finding, Level};
use crate::screen::Tone;
use crate::session::{Session, may_write};

/// Less room on the disk than this is a problem.
const ROOM: u64 = 256 << 20;
/// A write-ahead log of more than this is worth knowing.
const LOG: u64 = 256 << 20;
/// A clock this far behind the newest event is a problem.
const SKEW: Duration = Duration::from_secs(5);
/// How many open runs are asked why they do not move.
const RUNS: usize = 2_000;
/// How many runs of a kind are named.
const NAMED: usize = 3;

pub(crate) async fn doctor(session: &mut Session) -> Result<Exit, CliError> {
    let mut found = Vec::new();
    if let Some(path) = session.file() {
        found.extend(look_at_file(path));
    }
    match session.look().await {
        Ok(engine) => look_at_store(&engine, &mut found).await,
        Err(error) if session.file().is_some() => {
            // What was found of the file may say it already, and better.
            if found.iter().all(|finding| finding.level != Level::Problem) {
                found.push(problem("store", error.to_string(), error.help().map(|help| help.to_string())));
            }
        }
        Err(error) => return Err(error),
    }
    let problems = found.iter().filter(|finding| finding.level == Level::Problem).count();
    let diagnosis = Diagnosis { findings: found, problems };
    let printed =
        if session.screen.is_json { session.screen.json(&diagnosis) } else { print(session, &diagnosis) };
    crate::error::found(if problems == 0 { Exit::Done } else { Exit::Problems }, printed)
}

fn ok(about: &str, found: impl Into<String>) -> Finding {
    Finding { level: Level::Ok, about: about.into(), found: found.into(), fix: None }
}

fn note(about: &str, found: impl Into<String>, fix: &str) -> Finding {
    Finding { level: Level::Note, about: about.into(), found: found.into(), fix: Some(fix.into()) }
}

fn problem(about: &str, found: impl Into<String>, fix: Option<String>) -> Finding {
    Finding { level: Level::Problem, about: about.into(), found: found.into(), fix }
}

fn look_at_file(path: &Path) -> Vec<Finding> {
    let name = path.display();
    let Ok(data) = std::fs::metadata(path) else {
        let fix = "pass the path that the program gives to `.sqlite(..)`; `db migrate` makes an empty store";
        return vec![problem("file", format!("there is no file {name}"), Some(fix.into()))];
    };
    if data.is_dir() {
        return vec![problem("file", format!("{name} is a folder"), Some("pass the file in it".into()))];
    }
    let mut found = vec![ok("file", format!("{name}, {} bytes", data.len()))];
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !may_write(path) {
        let fix = "give this user the right to write to it, or mount its file system for writing".to_owned();
        found.push(problem("permissions", format!("{name} cannot be written"), Some(fix)));
    } else if !may_write(folder) {
        let fix = "SQLite keeps its log beside the file: give this user the right to write to the folder"
            .to_owned();
        found.push(problem(
            "permissions",
            format!("the folder {} cannot be written", folder.display()),
            Some(fix),
        ));
    } else {
        found.push(ok("permissions", "file and folder can be written"));
    }
    found.extend(version(path));
    found.extend(room(folder));
    let log = std::fs::metadata(log_of(path)).map_or(0, |data| data.len());
    if log > LOG {
        let fix = "a process reads for a long time, or one was killed: the next process that closes the file empties it";
        found.push(note("log", format!("the write-ahead log has {log} bytes"), fix));
    }
    found
}

fn version(path: &Path) -> Option<Finding> {
    Some(match inspect(path) {
        Err(error) => {
            let error = CliError::from(error);
            problem("version", error.to_string(), error.help().map(|help| help.to_string()))
        }
        Ok(found) if found.version == 0 => problem(
            "version",
            "the file has no tables of the engine",
            Some(
                "pass the path that the program gives to `.sqlite(..)`; `db migrate` makes the tables".into(),
            ),
        ),
        Ok(found) if found.is_older() => problem(
            "version",
            format!(
                "the tables have version {}, and this build works on version {}",
                found.version, found.supported
            ),
            Some(
                "use the command line of the build that wrote it; or stop its processes, and `db migrate`"
                    .into(),
            ),
        ),
        Ok(found) => ok("version", format!("the tables have version {}", found.version)),
    })
}

fn room(folder: &Path) -> Option<Finding> {
    let system = rustix::fs::statvfs(folder).ok()?;
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    let found = format!("{} MB are free", free >> 20);
    Some(if free < ROOM {
        problem("disk", found, Some("make room: appends wait while the disk is full".into()))
    } else {
        ok("disk", found)
    })
}

async fn look_at_store(engine: &Engine, found: &mut Vec<Finding>) {
    found.push(ok("store", engine.store().describe()));
    let health = engine.health().await;
    if let Some(error) = health.unreachable {
        found.push(problem("store", format!("it cannot be read: {error}"), None));
        return;
    }
    let holds = engine.holds(RunFilter::new().open().limit(RUNS)).await;
    let open = holds.as_ref().map_or(&[][..], Vec::as_slice);
    for (about, looked) in [
        ("damaged", damaged(engine).await),
        ("clock", clock(engine).await),
        ("workers", workers(engine, !open.is_empty()).await),
        ("runs", holds.as_ref().map_err(|error| error.clone().into()).map(|open| stuck(open))),
        ("failed", failed(engine).await),
    ] {
        // What is wrong with one of these hides no other.
        found.extend(looked.unwrap_or_else(|error: CliError| {
            let help = error.help().map(|help| help.to_string());
            vec![problem(about, format!("this cannot be looked at: {error}"), help)]
        }));
    }
}

fn stuck(open: &[(RunRecord, Hold)]) -> Vec<Finding> {
    let mut found: Vec<_> = KINDS.iter().filter_map(|kind| kind.look(open)).collect();
    if open.len() == RUNS {
        found.push(note(
            "runs",
            format!("only the {RUNS} newest open runs were looked at"),
            "`runs list --stuck` looks at all",
        ));
    }
    found
}

async fn failed(engine: &Engine) -> Result<Vec<Finding>, CliError> {
    let failed = engine.count(RunFilter::new().status(Status::Failed)).await?;
    let found = format!("{failed} runs have failed");
    Ok(match failed {
        0 => Vec::new(),
        _ => vec![note("failed", found, "`runs list --status failed`, then `runs retry`")],
    })
}

/// Runs that no list shows.
async fn damaged(engine: &Engine) -> Result<Vec<Finding>, CliError> {
    let damaged = engine.store().damaged_runs(RunFilter::new()).await?;
    if damaged.is_empty() {
        return Ok(Vec::new());
    }
    let named: Vec<_> =
        damaged.iter().take(NAMED).map(|run| format!("{} ({})", run.id, run.reason)).collect();
    let more = if damaged.len() > NAMED { ", .." } else { "" };
    let runs = if damaged.len() == 1 { "run has a row" } else { "runs have rows" };
    let text = format!("{} {runs} that cannot be read: {}{more}", damaged.len(), named.join(", "));
    let fix = "no list shows them, and nobody advances them: put the rows right by SQL, or restore a backup";
    Ok(vec![problem("damaged", text, Some(fix.into()))])
}

/// Runs that are held for one kind of reason.
struct Kind {
    about: &'static str,
    fix: &'static str,
    is_held: fn(&Hold) -> bool,
}

const KINDS: [Kind; 7] = [
    Kind {
        about: "in doubt",
        fix: "look at the world, then `inbox resolve`",
        is_held: |hold| matches!(hold, Hold::InDoubt { .. }),
    },
    Kind {
        about: "parked",
        fix: "start a program with code that they fit; `check` says which",
        is_held: |hold| matches!(hold, Hold::Parked { .. }),
    },
    Kind {
        about: "without code",
        fix: "start a program that has their workflows",
        is_held: |hold| matches!(hold, Hold::NoCode { .. }),
    },
    Kind {
        about: "not served",
        fix: "start a program that serves their queues",
        is_held: |hold| matches!(hold, Hold::NotServed { .. }),
    },
    Kind {
        about: "held by a silent worker",
        fix: "others take them over by themselves, when its lease is over",
        is_held: |hold| matches!(hold, Hold::SilentWorker { .. }),
    },
    Kind {
        about: "retrying",
        fix: "`runs list --why retrying` says why they failed",
        is_held: |hold| matches!(hold, Hold::Retrying { .. }),
    },
    Kind {
        about: "paused",
        fix: "`queues list` shows the limits; raise one with `queues limit set`",
        is_held: |hold| matches!(hold, Hold::Queued { .. }) && hold.needs_operator(),
    },
];

impl Kind {
    fn look(&self, open: &[(RunRecord, Hold)]) -> Option<Finding> {
        let Self { about, fix, is_held } = self;
        let held: Vec<_> = open.iter().filter(|(_, hold)| is_held(hold)).collect();
        let (_, first) = held.first()?;
        let names: Vec<_> = held.iter().take(NAMED).map(|(run, _)| run.id.as_str()).collect();
        let more = if held.len() > NAMED { ", .." } else { "" };
        let runs = if held.len() == 1 { "run is" } else { "runs are" };
        let text = format!("{} {runs} {about}: {}{more}", held.len(), names.join(", "));
        Some(if first.needs_operator() {
            problem(about, text, Some((*fix).into()))
        } else {
            note(about, text, fix)
        })
    }
}

async fn clock(engine: &Engine) -> Result<Vec<Finding>, CliError> {
    let newest = engine.runs(RunFilter::new().limit(100)).await?.into_iter().map(|run| run.updated_at).max();
    let ahead = newest.and_then(|newest| Duration::try_from(newest.duration_since(Timestamp::now())).ok());
    Ok(vec![match ahead.filter(|ahead| *ahead > SKEW) {
        Some(ahead) => problem(
            "clock",
            format!(
                "the newest event is {} s in the future: the clock here is behind, or that of a worker ahead",
                ahead.as_secs()
            ),
            Some("set the clocks of all machines by the same source".into()),
        ),
        None => ok("clock", "not behind the newest events"),
    }])
}

async fn workers(engine: &Engine, are_runs_open: bool) -> Result<Vec<Finding>, CliError> {
    let known = engine.workers().await?;
    let dead = known.iter().filter(|worker| worker.known.is_dead && worker.known.runs > 0);
    let live = known
        .iter()
        .filter(|worker| !worker.is_me && !worker.known.is_dead && !worker.known.codes.is_empty());
    let mut found = vec![match (live.count(), are_runs_open) {
        (0, true) => problem(
            "workers",
            "no worker is there, and runs are open",
            Some("start the program that advances the runs of this store".into()),
        ),
        (0, false) => ok("workers", "none is there, and no run is open"),
        (count, _) => ok("workers", format!("{count} are there")),
    }];
    found.extend(dead.map(|worker| {
        let text = format!("worker {} has died and holds {} runs", worker.known.id, worker.known.runs);
        note("workers", text, "a worker that is there, or that starts, takes them over at once")
    }));
    Ok(found)
}

fn print(session: &Session, diagnosis: &Diagnosis) -> Result<(), CliError> {
    for Finding { level, about, found, fix } in &diagnosis.findings {
        let (mark, tone) = match level {
            Level::Ok => ("ok     ", Tone::Good),
            Level::Note => ("note   ", Tone::Warn),
            Level::Problem => ("PROBLEM", Tone::Bad),
        };
        session.screen.toned(&format!("{mark}  {about}: {found}"), tone)?;
        if let Some(fix) = fix {
            session.screen.line(&format!("         {fix}"))?;
        }
    }
    Ok(())
}
