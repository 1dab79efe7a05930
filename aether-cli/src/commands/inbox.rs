//! `inbox list` and `inbox show`.

use aether_core::engine::Engine;
use aether_core::id::RunId;
use aether_core::store::{WaitFilter, WaitPlace};
use aether_core::view::pending::{Pending, Waiting};

use crate::args::inbox::{InboxList, ShowWait};
use crate::commands::print;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::waits::{UnreadableReport, WaitList, WaitReport};
use crate::screen::{Cell, Screen, Tone};
use crate::session::{Session, existing, run_id};
use crate::text::word;
use crate::time::{ago, both};

pub(crate) async fn list(session: &mut Session, args: InboxList) -> Result<Exit, CliError> {
    let mut engine = session.look().await?;
    if !engine.store().unlisted_waits(1).await?.is_empty() {
        // An older build left runs whose waits are not listed yet: that is written, once.
        engine = session.engine().await?;
    }
    let mut filter = if args.kind.is_empty() { WaitFilter::for_reply() } else { WaitFilter::default() };
    filter.kinds.extend(args.kind);
    if let Some(run) = &args.run {
        let run = run_id(run)?;
        existing(&engine, &run).await?;
        filter.run = Some(run);
    }
    (filter.workflow, filter.name, filter.limit) = (args.workflow, args.name, args.limit);
    filter.after = args.after.map(WaitPlace::new);
    let page = engine.all_pending(filter).await?;
    let next = page.next.map(|next| next.to_string());
    let waits: Vec<_> = page.waits.iter().map(WaitReport::of).collect();
    let unreadable: Vec<_> = page.unreadable.iter().map(UnreadableReport::of).collect();
    let exit = if unreadable.is_empty() { Exit::Done } else { Exit::Store };
    if session.screen.is_json {
        session.screen.json(&WaitList { waits, unreadable, next })?;
        return Ok(exit);
    }
    if waits.is_empty() && unreadable.is_empty() {
        session.screen.note("nothing waits for a reply");
        return Ok(Exit::Done);
    }
    if !waits.is_empty() {
        session
            .screen
            .table(&["RUN", "WAIT", "KIND", "NAME", "SINCE", "ABOUT"], waits.iter().map(row).collect())?;
    }
    for wait in &unreadable {
        session.screen.note(&format!("run `{}` waits, and that cannot be read: {}", wait.run, wait.error));
    }
    if let Some(next) = next {
        session.screen.note(&format!("there are more: --after {next}"));
    }
    Ok(exit)
}

fn row(wait: &WaitReport) -> Vec<Cell> {
    let about = wait.args.as_ref().or(wait.question.as_ref());
    vec![
        Cell::toned(&wait.run, Tone::Strong),
        Cell::from(&wait.command),
        Cell::from(&wait.waiting),
        Cell::from(&wait.name),
        Cell::from(ago(wait.since)),
        Cell::from(about.map_or("", |about| about.as_str())),
    ]
}

pub(crate) async fn show(session: &mut Session, args: &ShowWait) -> Result<Exit, CliError> {
    let engine = session.look().await?;
    let run = run_id(&args.run)?;
    let found = open_waits(&engine, &run, args.wait.as_deref(), |_| true).await?;
    if session.screen.is_json {
        let waits = found.iter().map(WaitReport::of).collect();
        session.screen.json(&WaitList { waits, unreadable: Vec::new(), next: None })?;
        return Ok(Exit::Done);
    }
    for (number, wait) in found.iter().enumerate() {
        if number > 0 {
            session.screen.line("")?;
        }
        print_wait(&session.screen, &WaitReport::of(wait))?;
    }
    Ok(Exit::Done)
}

/// One wait with all that a decision rests on.
pub(crate) fn print_wait(screen: &Screen, wait: &WaitReport) -> Result<(), CliError> {
    screen.toned(&format!("{} {}", wait.run, wait.command), Tone::Strong)?;
    screen.field("waits for", &format!("{} `{}`", wait.waiting, wait.name))?;
    screen.field("since", &both(wait.since))?;
    wait.until.map_or(Ok(()), |until| screen.field("until", &both(until)))?;
    wait.site.as_ref().map_or(Ok(()), |site| screen.field("in", site))?;
    wait.invocation.as_ref().map_or(Ok(()), |invocation| screen.field("invocation", invocation))?;
    print::value(screen, "question", wait.question.as_ref())?;
    print::value(screen, "arguments", wait.args.as_ref())?;
    wait.refused.iter().try_for_each(|refused| {
        screen.field("refused", &format!("what {} said: {}", refused.actor, refused.reason))
    })?;
    screen.field("digest", &wait.digest)
}

/// The open waits of a run that `fits` lets through and that have this command or name; at least one.
pub(crate) async fn open_waits(
    engine: &Engine,
    run: &RunId,
    named: Option<&str>,
    fits: impl Fn(Waiting) -> bool,
) -> Result<Vec<Pending>, CliError> {
    let mut waits = engine.pending(run).await?;
    waits.retain(|wait| fits(wait.waiting));
    waits.retain(|wait| named.is_none_or(|named| wait.command.as_str() == named || wait.name == named));
    if !waits.is_empty() {
        return Ok(waits);
    }
    let record = existing(engine, run).await?;
    if record.status.is_terminal() {
        let what = format!("run `{run}` is {}; nothing of it waits any more", record.status);
        return Err(CliError::new(Exit::Conflict, what));
    }
    let what = match named {
        Some(named) => format!("run `{run}`: nothing of that kind named `{named}` waits"),
        None => format!("run `{run}`: nothing of that kind waits"),
    };
    let help = format!("`runs show {}` says what it waits for, and why it does not move", word(run.as_str()));
    Err(CliError::new(Exit::NotFound, what).with_help(help))
}
