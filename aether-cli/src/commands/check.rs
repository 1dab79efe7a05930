//! `check`.

use aether_core::engine::{CheckReport, RunCheck};

use crate::args::runs::Filter;
use crate::commands::filter::filter_of;
use crate::error::{CliError, OWN_PROGRAM, found};
use crate::exit::Exit;
use crate::output::code::{Check, CheckedRun};
use crate::session::Session;

pub(crate) async fn check(session: &mut Session, args: Filter) -> Result<Exit, CliError> {
    let engine = session.look().await?;
    if engine.workflows().is_empty() {
        return Err(CliError::new(Exit::NotFound, "this program links no workflow, so no run could fit it")
            .with_help(OWN_PROGRAM));
    }
    let report = engine.check(filter_of(args)?).await?;
    let exit = if report.is_clean() { Exit::Done } else { Exit::Problems };
    let printed = if session.screen.is_json {
        session.screen.json(&check_of(&report))
    } else {
        session.screen.block(&report.to_string())
    };
    found(exit, printed)
}

fn check_of(report: &CheckReport) -> Check {
    let run = |run: &RunCheck| CheckedRun {
        run: run.run.to_string(),
        workflow: run.workflow.clone(),
        verdict: run.verdict.to_string(),
        why: run.why.clone(),
        recorded: run.recorded.as_ref().map(ToString::to_string),
        requested: run.requested.as_ref().map(ToString::to_string),
    };
    Check {
        fits: report.fits,
        adopts: report.adopts,
        parks: report.parks,
        fails: report.fails,
        unreadable: report.unreadable,
        runs: report.runs.iter().map(run).collect(),
    }
}
