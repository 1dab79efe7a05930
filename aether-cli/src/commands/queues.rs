//! `queues list` and `queues limit`.

use std::collections::BTreeMap;
use std::time::Duration;

use aether_core::engine::Engine;
use aether_core::store::{Limit, LimitKind, RunFilter};

use crate::args::queues::{LimitName, Limits, Queues, SetLimit};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::queues::{LimitDeed, LimitList, LimitReport, QueueList, QueueReport};
use crate::screen::Cell;
use crate::session::Session;

/// Runs that are read at a time.
const PAGE: usize = 500;

pub(crate) async fn queues(session: &mut Session, args: Queues) -> Result<Exit, CliError> {
    match args {
        Queues::List => list(session).await,
        Queues::Limit(Limits::List) => limits(session).await,
        Queues::Limit(Limits::Set(args)) => set(session, args).await,
        Queues::Limit(Limits::Remove { pattern, kind }) => remove(session, &pattern, kind).await,
    }
}

async fn list(session: &mut Session) -> Result<Exit, CliError> {
    let engine = session.look().await?;
    let mut queues = open_runs(&engine).await?;
    for limit in engine.limits().list().await? {
        let queue = queues.entry(limit.pattern.queue().to_owned()).or_default();
        queue.limits.push(LimitReport::of(&limit));
    }
    let queues: Vec<_> = queues.into_iter().map(|(name, queue)| QueueReport { name, ..queue }).collect();
    if session.screen.is_json {
        session.screen.json(&QueueList { queues })?;
        return Ok(Exit::Done);
    }
    if queues.is_empty() {
        session.screen.note("no open run is in a queue, and there are no limits");
        return Ok(Exit::Done);
    }
    let row = |queue: &QueueReport| {
        let limits: Vec<_> = queue.limits.iter().map(|limit| &*limit.text).collect();
        vec![
            Cell::from(&queue.name),
            Cell::from(queue.open.to_string()),
            Cell::from(queue.turns.to_string()),
            Cell::from(queue.waiting.to_string()),
            Cell::from(limits.join(", ")),
        ]
    };
    session
        .screen
        .table(&["QUEUE", "OPEN", "IN A TURN", "WAIT FOR ONE", "LIMITS"], queues.iter().map(row).collect())?;
    Ok(Exit::Done)
}

/// The open runs of each queue, counted.
async fn open_runs(engine: &Engine) -> Result<BTreeMap<String, QueueReport>, CliError> {
    let (mut queues, mut filter) =
        (BTreeMap::<String, QueueReport>::new(), RunFilter::new().open().limit(PAGE));
    loop {
        let page = engine.runs(filter.clone()).await?;
        let Some(last) = page.last() else { return Ok(queues) };
        filter.after = Some(last.place);
        for run in &page {
            let Some(place) = &run.terms.queue else { continue };
            let queue = queues.entry(place.queue.clone()).or_default();
            queue.open += 1;
            queue.turns += u64::from(run.owner.is_some());
            queue.waiting += u64::from(run.queue.waits_since.is_some());
        }
    }
}

async fn limits(session: &mut Session) -> Result<Exit, CliError> {
    let engine = session.look().await?;
    let limits: Vec<_> = engine.limits().list().await?.iter().map(LimitReport::of).collect();
    if session.screen.is_json {
        session.screen.json(&LimitList { limits })?;
        return Ok(Exit::Done);
    }
    if limits.is_empty() {
        session.screen.note("there are no limits");
        return Ok(Exit::Done);
    }
    let row = |limit: &LimitReport| {
        let per = limit.per_seconds.map_or_else(String::new, |seconds| format!("{seconds}s"));
        let (pattern, kind) = (Cell::from(&limit.pattern), Cell::from(&limit.kind));
        vec![pattern, kind, Cell::from(limit.number.to_string()), Cell::from(per)]
    };
    session.screen.table(&["PATTERN", "KIND", "NUMBER", "PER"], limits.iter().map(row).collect())?;
    Ok(Exit::Done)
}

async fn set(session: &mut Session, args: SetLimit) -> Result<Exit, CliError> {
    let SetLimit { pattern, kind, per } = args;
    let kind = match (kind.running, kind.starts.zip(per), kind.open, kind.weight) {
        (Some(n), ..) => LimitKind::Running(n),
        (_, Some((n, per)), ..) => LimitKind::Starts { n, per },
        (_, _, Some(n), _) => LimitKind::Open(n),
        (.., Some(n)) => LimitKind::Weight(n),
        _ => {
            return Err(
                CliError::usage("it is not said what is limited").with_help("pass `--running NUMBER`")
            );
        }
    };
    let limit = Limit::new(pattern, kind).map_err(|error| CliError::usage(error.to_string()))?;
    let engine = session.engine().await?;
    engine.limits().set(limit.clone()).await?;
    done(session, "set", LimitReport::of(&limit))
}

async fn remove(session: &mut Session, pattern: &str, kind: LimitName) -> Result<Exit, CliError> {
    // Its number and its time do not matter.
    let kind = match kind {
        LimitName::Running => LimitKind::Running(0),
        LimitName::Starts => LimitKind::Starts { n: 0, per: Duration::from_secs(1) },
        LimitName::Open => LimitKind::Open(0),
        LimitName::Weight => LimitKind::Weight(1),
    };
    let engine = session.engine().await?;
    let limits = engine.limits().list().await?;
    let found =
        limits.iter().find(|limit| limit.pattern.as_str() == pattern && limit.kind.name() == kind.name());
    let removed = engine.limits().remove(pattern, kind).await?;
    match found.filter(|_| removed) {
        Some(limit) => done(session, "removed", LimitReport::of(limit)),
        None => {
            let what = format!("`{pattern}` has no limit of the kind {}", kind.name());
            Err(CliError::new(Exit::NotFound, what)
                .with_help("`queues limit list` lists those that there are"))
        }
    }
}

fn done(session: &Session, action: &str, limit: LimitReport) -> Result<Exit, CliError> {
    if session.screen.is_json {
        session.screen.json(&LimitDeed { action: action.into(), limit })?;
    } else {
        session.screen.line(&format!("{}: {action}", limit.text))?;
    }
    Ok(Exit::Done)
}
