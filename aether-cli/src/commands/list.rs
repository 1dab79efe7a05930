//! `runs list`.

use aether_core::store::DamagedRun;

use crate::args::runs::List;
use crate::commands::filter::Picked;
use crate::commands::print;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::hold::Reason;
use crate::output::runs::{Damaged, RunLine, RunList};
use crate::screen::{Cell, Tone};
use crate::session::Session;
use crate::time::ago;

pub(crate) async fn list(session: &mut Session, args: List) -> Result<Exit, CliError> {
    let engine = session.look().await?;
    let List { pick, limit, after } = args;
    let mut picked = Picked::of(pick)?;
    picked.filter.after = after;
    // One more than asked for says whether there is another page.
    let looked_at = picked.filter.clone().limit(limit.saturating_add(1));
    let mut found = picked.runs(&engine, limit.saturating_add(1)).await?;
    let damaged = engine.store().damaged_runs(looked_at).await?;
    let is_more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| is_more).map(|(run, _)| run.place.to_string());
    let runs: Vec<_> = found.iter().map(|(run, hold)| RunLine::of(run, Some(hold))).collect();
    damaged.iter().for_each(|run| left_out(session, run));
    if session.screen.is_json {
        let damaged = damaged.into_iter().map(Damaged::of).collect();
        session.screen.json(&RunList { runs, next, damaged })?;
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

fn left_out(session: &Session, DamagedRun { id, reason }: &DamagedRun) {
    session.screen.note(&format!("run {id} is left out, because its row is damaged: {reason}"));
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
