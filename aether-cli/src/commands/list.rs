//! `runs list`.

use aether_core::engine::{Engine, Hold};
use aether_core::store::{RunFilter, RunRecord};

use crate::args::List;
use crate::commands::filter::filter_of;
use crate::commands::print;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::hold::Reason;
use crate::output::runs::{RunLine, RunList};
use crate::screen::{Cell, Tone};
use crate::session::Session;
use crate::time::ago;

/// Runs that are looked at together, where their reasons are asked for.
const PAGE: usize = 200;

pub(crate) async fn list(session: &mut Session, args: List) -> Result<Exit, CliError> {
    let engine = session.engine().await?;
    let List { filter, why, stuck, limit, after } = args;
    let mut filter = filter_of(filter)?;
    if (stuck || !why.is_empty()) && filter.statuses.is_empty() && !why.contains(&Reason::Ended) {
        // No other run can be held for such a reason.
        filter = filter.open();
    }
    filter.after = after;
    let wanted = |hold: &Hold| {
        (!stuck || hold.needs_operator())
            && (why.is_empty() || Reason::all_of(hold).iter().any(|reason| why.contains(reason)))
    };
    // One more than asked for says whether there is another page.
    let most = limit.saturating_add(1);
    filter.limit = if stuck || !why.is_empty() { PAGE } else { most.min(PAGE) };
    let mut found = matching(&engine, filter, most, wanted).await?;
    let is_more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| is_more).map(|(run, _)| run.place.to_string());
    let runs: Vec<_> = found.iter().map(|(run, hold)| RunLine::of(run, Some(hold))).collect();
    if session.screen.is_json {
        session.screen.json(&RunList { runs, next })?;
        return Ok(Exit::Done);
    }
    if runs.is_empty() {
        session.screen.note("no run fits");
        return Ok(Exit::Done);
    }
    session.screen.table(
        &["RUN", "WORKFLOW", "STATUS", "CHANGED", "WHY IT DOES NOT MOVE"],
        runs.iter().map(row).collect(),
    )?;
    if let Some(next) = next {
        session.screen.note(&format!("there are more: --after {next}"));
    }
    Ok(Exit::Done)
}

/// The first runs whose reasons are wanted.
async fn matching(
    engine: &Engine,
    mut filter: RunFilter,
    most: usize,
    wanted: impl Fn(&Hold) -> bool,
) -> Result<Vec<(RunRecord, Hold)>, CliError> {
    let mut found = Vec::new();
    loop {
        let page = engine.holds(filter.clone()).await?;
        let (is_last, last) = (page.len() < filter.limit, page.last().map(|(run, _)| run.place));
        found.extend(page.into_iter().filter(|(_, hold)| wanted(hold)).take(most - found.len()));
        match last {
            Some(last) if !is_last && found.len() < most => filter.after = Some(last),
            _ => return Ok(found),
        }
    }
}

fn row(run: &RunLine) -> Vec<Cell> {
    let hold = run.hold.as_ref().filter(|hold| hold.reason != Reason::Ended);
    let tone = if hold.is_some_and(|hold| hold.needs_operator) { Tone::Bad } else { Tone::Plain };
    vec![
        Cell::toned(&run.id, Tone::Strong),
        Cell::from(&run.workflow),
        print::status(&run.status),
        Cell::from(ago(run.updated_at)),
        Cell::toned(hold.map_or("", |hold| &*hold.text), tone),
    ]
}
