//! `runs fork` and `runs retry`: the bill, the decisions, the fork.

use aether_core::contract::Status;
use aether_core::engine::{Engine, ForkPlan};
use aether_core::id::RunId;

use crate::args::runs::{Decisions, Fork, Retry};
use crate::commands::filter::{is_filtered, targets};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::steering::{CallReport, ForkOutcome, Refused, Retried};
use crate::screen::{Cell, Screen, Tone};
use crate::session::{Session, run_id};
use crate::value;

pub(crate) async fn retry(session: &mut Session, args: Retry) -> Result<Exit, CliError> {
    let Retry { mut which, decisions } = args;
    let engine = if decisions.dry_run { session.look().await? } else { session.engine().await? };
    if let ([run], false) = (&*which.runs, is_filtered(&which.pick)) {
        let plan = engine.retry(&run_id(run)?).plan().await?;
        return carry_out(session, plan, decisions).await;
    }
    if decisions.digest.is_some() {
        return Err(CliError::usage("`--digest` is that of one run's bill: name that run"));
    }
    // A bill alone needs nobody's consent.
    which.yes |= decisions.dry_run;
    let ids = targets(session, &engine, which, "retry", &[Status::Failed]).await?;
    let mut retried = Retried::default();
    for id in ids {
        match retry_one(session, &engine, &id, &decisions).await {
            Ok(outcome) => retried.forks.push(outcome),
            Err(error) => retried.refused.push(Refused { run: id.to_string(), reason: error.to_string() }),
        }
    }
    print_retried(session, &retried)
}

/// Retries one of several: what its bill leaves undecided is an error that says so.
async fn retry_one(
    session: &Session,
    engine: &Engine,
    run: &RunId,
    decisions: &Decisions,
) -> Result<ForkOutcome, CliError> {
    let plan = decided(engine.retry(run).plan().await?, decisions);
    let mut outcome = ForkOutcome::of(&plan);
    if !decisions.dry_run {
        outcome.fork = Some(plan.start(&session.actor()?).await?.id().to_string());
    }
    Ok(outcome)
}

fn print_retried(session: &Session, retried: &Retried) -> Result<Exit, CliError> {
    let exit = if retried.refused.is_empty() { Exit::Done } else { Exit::Conflict };
    if session.screen.is_json {
        session.screen.json(retried)?;
        return Ok(exit);
    }
    for ForkOutcome { origin, fork, undecided, .. } in &retried.forks {
        session.screen.line(&match fork {
            Some(fork) => format!("{origin}: retried as {fork}"),
            None if *undecided == 0 => format!("{origin}: nothing is to be decided"),
            None => format!("{origin}: {undecided} calls are undecided"),
        })?;
    }
    for Refused { run, reason } in &retried.refused {
        session.screen.toned(&format!("{run}: not retried: {reason}"), Tone::Bad)?;
    }
    Ok(exit)
}

pub(crate) async fn fork(session: &mut Session, args: Fork) -> Result<Exit, CliError> {
    let engine = if args.decisions.dry_run { session.look().await? } else { session.engine().await? };
    let run = run_id(&args.run)?;
    let fork = engine.fork(&run);
    let fork = match args.cut.before {
        Some(command) => fork.before(command),
        None if args.cut.before_failure => fork.before_failure(),
        None if args.cut.at_end => fork.at_end(),
        None => fork.from_start(),
    };
    let mut plan = fork.plan().await?;
    if let Some(id) = args.new_id {
        plan = plan.id(id);
    }
    for (command, answer) in args.answer {
        plan = plan.answer(command, &value::read(&answer)?);
    }
    if let Some(reason) = args.end_origin {
        plan = plan.end_origin(reason);
    }
    if args.leave_origin_running {
        plan = plan.leave_origin_running();
    }
    carry_out(session, plan, args.decisions).await
}

async fn carry_out(session: &mut Session, plan: ForkPlan, decisions: Decisions) -> Result<Exit, CliError> {
    let is_dry = decisions.dry_run;
    if let Some(digest) = &decisions.digest
        && *digest != plan.shown()
    {
        let run = plan.origin().clone();
        let what =
            format!("the bill of run `{run}` is another one than the digest names; nothing was started");
        let help = format!("`--dry-run` shows it as it is now, with the digest `{}`", plan.shown());
        return Err(CliError::new(Exit::Conflict, what).with_help(help));
    }
    let plan = decided(plan, &decisions);
    let mut outcome = ForkOutcome::of(&plan);
    if is_dry {
        print_bill(&session.screen, &outcome)?;
    } else {
        let actor = session.actor()?;
        match plan.start(&actor).await {
            Ok(fork) => outcome.fork = Some(fork.id().to_string()),
            Err(error) => {
                // What must be decided is said before it is said that it must.
                if !session.screen.is_json {
                    print_bill(&session.screen, &outcome)?;
                }
                return Err(error.into());
            }
        }
    }
    if session.screen.is_json {
        session.screen.json(&outcome)?;
    } else if let Some(fork) = &outcome.fork {
        print_bill(&session.screen, &outcome)?;
        session.screen.line(&format!("forked as {fork}"))?;
    } else {
        session.screen.note("nothing was started");
    }
    Ok(Exit::Done)
}

/// The plan with what was decided: first about the calls that are named.
fn decided(mut plan: ForkPlan, decisions: &Decisions) -> ForkPlan {
    for command in &decisions.keep {
        plan = plan.keep(command);
    }
    for command in &decisions.again {
        plan = plan.again(command);
    }
    for command in &decisions.undo_first {
        plan = plan.undo_first(command);
    }
    match decisions {
        Decisions { keep_all: true, .. } => plan.keep_all(),
        Decisions { again_all: true, .. } => plan.again_all(),
        Decisions { undo_all_first: true, .. } => plan.undo_all_first(),
        _ => plan,
    }
}

fn print_bill(screen: &Screen, outcome: &ForkOutcome) -> Result<(), CliError> {
    if screen.is_json {
        return Ok(());
    }
    screen.line(&format!("fork of run {}, cut at event {}", outcome.origin, outcome.position))?;
    if outcome.calls.is_empty() {
        screen.line("no call behind the cut may have changed the world")?;
    } else {
        let rows = outcome.calls.iter().map(row).collect();
        screen.table(&["CALL", "CLASS", "OUTCOME", "DECISION", "ARGUMENTS"], rows)?;
    }
    // A fork that was started is bound to nothing any more.
    if outcome.fork.is_some() { Ok(()) } else { screen.field("digest", &outcome.digest) }
}

fn row(call: &CallReport) -> Vec<Cell> {
    let irreversible = if call.irreversible { ", irreversible" } else { "" };
    let decision = match &call.decision {
        Some(decision) => Cell::toned(decision, Tone::Good),
        None if call.needs_decision => Cell::toned("undecided", Tone::Bad),
        None => Cell::from("none needed"),
    };
    vec![
        Cell::from(&call.command),
        Cell::from(&call.class),
        Cell::from(format!("{}{irreversible}", call.outcome)),
        decision,
        Cell::from(call.args.as_ref().map_or("", |args| args.as_str())),
    ]
}
