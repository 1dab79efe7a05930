//! `evidence export` and `evidence verify`.

use std::path::Path;

use aether_core::recording::{Evidence, EvidenceReport};

use crate::args::store::EvidenceExport;
use crate::commands::target;
use crate::error::{CliError, found};
use crate::exit::Exit;
use crate::output::files::{DecisionReport, EvidenceOutcome};
use crate::screen::Tone;
use crate::session::{Session, run_id};

pub(crate) async fn export(session: &mut Session, args: &EvidenceExport) -> Result<Exit, CliError> {
    let (engine, actor) = (session.look().await?, session.actor()?);
    let evidence = engine.evidence(&run_id(&args.run)?, &actor).await?;
    if target::is_stdout(&args.out) {
        let text = evidence.to_text()?;
        let exit = exit_of(&Evidence::parse(&text)?.verify());
        return found(exit, session.screen.raw_json(&text));
    }
    target::check(session, &args.out, "aether-evidence", args.force)?;
    evidence.write(&args.out)?;
    // What is printed is what the file says when it is read.
    print(session, &args.out, Evidence::read(&args.out)?.verify())
}

pub(crate) fn verify(session: &mut Session, file: &Path, tip: Option<&str>) -> Result<Exit, CliError> {
    if !file.exists() {
        let what = format!("there is no file {}", file.display());
        return Err(
            CliError::new(Exit::NotFound, what).with_help("`evidence export RUN --out FILE` writes one")
        );
    }
    let mut report = Evidence::read(file)?.verify();
    if let Some(noted) = tip.filter(|noted| !noted.eq_ignore_ascii_case(&report.tip)) {
        report.problems.push(format!("the noted hash is {noted}, and that of this history {}", report.tip));
    }
    print(session, file, report)
}

fn print(session: &Session, file: &Path, report: EvidenceReport) -> Result<Exit, CliError> {
    let exit = exit_of(&report);
    let printed = if session.screen.is_json {
        session.screen.json(&outcome(file, report))
    } else {
        print_lines(session, file, &report)
    };
    found(exit, printed)
}

fn exit_of(report: &EvidenceReport) -> Exit {
    if report.is_sound() { Exit::Done } else { Exit::Problems }
}

/// Each line is escaped by itself: what stands in the file makes none.
fn print_lines(session: &Session, file: &Path, report: &EvidenceReport) -> Result<(), CliError> {
    session.screen.line(&file.display().to_string())?;
    let tone = if report.is_sound() { Tone::Plain } else { Tone::Bad };
    report.lines().iter().try_for_each(|line| session.screen.toned(line, tone))
}

fn outcome(file: &Path, report: EvidenceReport) -> EvidenceOutcome {
    let decisions = report.decisions.into_iter().map(|decision| DecisionReport {
        at: decision.at.to_string(),
        kind: decision.kind,
        actor: decision.actor,
        command: decision.command,
        digest: decision.digest,
        claimed: decision.claimed,
    });
    EvidenceOutcome {
        file: file.display().to_string(),
        run: report.run.to_string(),
        workflow: report.workflow,
        status: report.status,
        begins: report.begins,
        events: report.events,
        encoded: report.encoded,
        tip: report.tip,
        decisions: decisions.collect(),
        replay: report.replay.verdict,
        replay_fits: report.replay.fits,
        problems: report.problems,
    }
}
