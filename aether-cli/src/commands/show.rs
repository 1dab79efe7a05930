//! `runs show`.

use aether_core::view::StepPage;

use crate::args::runs::Show;
use crate::commands::print;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::hold::Reason;
use crate::output::runs::{RunLine, RunReport, StepReport};
use crate::output::waits::WaitReport;
use crate::screen::{Cell, Screen, Tone};
use crate::session::{Session, existing, run_id};
use crate::time::both;

pub(crate) async fn show(session: &mut Session, args: &Show) -> Result<Exit, CliError> {
    let engine = session.look().await?;
    let id = run_id(&args.run.run)?;
    let record = existing(&engine, &id).await?;
    let view = match args.page {
        Some(number) => engine.view_page(&id, StepPage::number(number)).await?,
        None => engine.view(&id).await?,
    };
    let hold = engine.why(&id).await?;
    let waits = engine.pending(&id).await?.iter().map(WaitReport::of).collect();
    let report = RunReport::of(RunLine::of(&record, Some(&hold)), &view, waits);
    if session.screen.is_json {
        session.screen.json(&report)?;
    } else {
        print_run(&session.screen, &report)?;
    }
    Ok(Exit::Done)
}

fn print_run(screen: &Screen, report: &RunReport) -> Result<(), CliError> {
    let run = &report.run;
    screen.toned(&run.id, Tone::Strong)?;
    screen.field("workflow", &format!("{} v{}", run.workflow, run.version))?;
    screen.field("status", &run.status)?;
    screen.field("created", &both(run.created_at))?;
    screen.field("changed", &format!("{}, {} events", both(run.updated_at), run.events))?;
    if let Some(parent) = &run.parent {
        screen.field("parent", parent)?;
    }
    if !run.labels.is_empty() {
        let labels = run.labels.iter().map(|(key, value)| format!("{key}={value}"));
        screen.field("labels", &labels.collect::<Vec<_>>().join(" "))?;
    }
    if let Some(hold) = run.hold.as_ref().filter(|hold| hold.reason != Reason::Ended) {
        screen.field("why", &hold.text)?;
        hold.fix.as_ref().map_or(Ok(()), |fix| screen.field("what helps", fix))?;
    }
    print::value(screen, "input", report.input.as_ref())?;
    print::value(screen, "result", report.result.as_ref())?;
    print::value(screen, "error", report.error.as_ref())?;
    report.uncompensated.iter().try_for_each(|step| screen.field("not undone", step))?;
    if !report.steps.is_empty() {
        let (first, shown, all) = (report.first_step, report.steps.len(), report.step_count);
        match shown == all {
            true => screen.heading("Steps")?,
            false => screen.heading(&format!("Steps {} to {} of {all}", first + 1, first + shown))?,
        }
        screen.table(
            &["COMMAND", "CLASS", "STATUS", "ATTEMPTS", "RESULT"],
            report.steps.iter().map(step).collect(),
        )?;
    }
    if !report.waits.is_empty() {
        screen.heading("Waits for")?;
        screen.table(&["COMMAND", "KIND", "NAME", "SINCE"], report.waits.iter().map(wait).collect())?;
    }
    Ok(())
}

fn step(step: &StepReport) -> Vec<Cell> {
    let result = step.result.as_ref().or(step.error.as_ref());
    let status = if step.in_doubt { print::status("in_doubt") } else { print::status(&step.status) };
    vec![
        Cell::from(&step.command),
        Cell::from(&step.class),
        status,
        Cell::from(step.attempts.to_string()),
        Cell::from(result.map_or("", |value| value.as_str())),
    ]
}

fn wait(wait: &WaitReport) -> Vec<Cell> {
    vec![
        Cell::from(&wait.command),
        Cell::from(&wait.waiting),
        Cell::from(&wait.name),
        Cell::from(both(wait.since)),
    ]
}
