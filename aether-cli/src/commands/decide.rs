//! `inbox approve`, `reject`, `answer`, `resolve` and `confirm`.
//!
//! Promise: what is decided about is the wait that was shown, by its digest; if it is another one by then, nothing is
//! decided.

use aether_core::engine::Engine;
use aether_core::id::RunId;
use aether_core::inbox::Resolution;
use aether_core::journal::event::{ConfirmationDecision, StateConfirmed};
use aether_core::payload::Payload;
use aether_core::view::WaitRef;
use aether_core::view::pending::{Pending, Waiting};

use crate::args::inbox::{Answer, Approve, Confirm, Reject, Resolve, ShowWait, WhichWait};
use crate::commands::editor;
use crate::commands::end::later;
use crate::commands::inbox::{open_waits, print_wait};
use crate::commands::print;
use crate::error::{CliError, shows_it};
use crate::exit::Exit;
use crate::output::steering::Deed;
use crate::output::waits::WaitReport;
use crate::session::{Session, run_id};
use crate::text::word;
use crate::value;

/// What is decided about, and by whom.
struct Case {
    engine: Engine,
    run: RunId,
    wait: Pending,
    actor: String,
    /// What was seen before, by whoever passed a digest.
    digest: Option<String>,
}

impl Case {
    async fn find(session: &mut Session, which: &WhichWait, kind: Waiting) -> Result<Self, CliError> {
        let (engine, actor) = (session.engine().await?, session.actor()?);
        let WhichWait { which: ShowWait { run, wait }, digest } = which;
        let run = run_id(run)?;
        let mut found = open_waits(&engine, &run, wait.as_deref(), |waiting| waiting == kind).await?;
        if found.len() > 1 {
            let names: Vec<_> =
                found.iter().map(|wait| format!("{} (`{}`)", wait.command, wait.name)).collect();
            let what = format!("run `{run}`: several waits fit: {}", names.join(", "));
            return Err(CliError::usage(what).with_help("name the command of one of them"));
        }
        match found.pop() {
            Some(wait) => Ok(Self { engine, run, wait, actor, digest: digest.clone() }),
            None => Err(CliError::new(Exit::NotFound, format!("run `{run}`: nothing of that kind waits"))),
        }
    }

    /// The wait, tied to what was shown: here, or to whoever passed the digest.
    fn shown(&self) -> WaitRef {
        WaitRef::from(&self.wait.command).shown(self.digest.clone().unwrap_or_else(|| self.wait.shown()))
    }

    async fn decided(self, session: &Session, action: &str) -> Result<Exit, CliError> {
        let note = later(&self.engine, &self.run).await;
        let (run, command) = (self.run.to_string(), Some(self.wait.command.to_string()));
        print::steered(
            session,
            vec![Deed { action: action.into(), run, command, actor: Some(self.actor), note }],
        )
    }
}

pub(crate) async fn approve(session: &mut Session, args: &Approve) -> Result<Exit, CliError> {
    let case = Case::find(session, &args.wait, Waiting::Approval).await?;
    if args.edit {
        let edited = edited(&case)?;
        case.engine.approve_with(&case.run, case.shown(), &edited, &case.actor).await?;
        return case.decided(session, "edited").await;
    }
    if case.digest.is_none() {
        consent(session, &case)?;
    }
    match &args.args {
        Some(text) => {
            let edited = value::read(text)?;
            case.engine.approve_with(&case.run, case.shown(), &edited, &case.actor).await?;
            case.decided(session, "edited").await
        }
        None => {
            case.engine.approve(&case.run, case.shown(), &case.actor).await?;
            case.decided(session, "approved").await
        }
    }
}

/// Shows what is asked for, all of it, and asks whether to go on: what is cut off may be what matters.
fn consent(session: &mut Session, case: &Case) -> Result<(), CliError> {
    session.screen.is_full = true;
    if !session.screen.is_json {
        print_wait(&session.screen, &WaitReport::of(&case.wait))?;
    }
    match session.screen.ask("Approve this?")? {
        Some(true) => Ok(()),
        Some(false) => Err(CliError::new(Exit::Failed, "nothing was approved")),
        None => {
            let (run, command) = (word(case.run.as_str()), word(case.wait.command.as_str()));
            let digest = case.wait.shown();
            let what = "nobody is there to say yes to what is shown, so nothing was approved";
            Err(CliError::usage(what).with_help(format!(
                "look at it, and pass the digest of what you saw: `inbox approve {run} {command} --digest {digest}`"
            )))
        }
    }
}

/// The arguments as somebody edits them.
fn edited(case: &Case) -> Result<Payload, CliError> {
    let Some(args) = &case.wait.args else {
        let what = format!(
            "run `{}`: `{}` makes no call, so it has no arguments to edit",
            case.run, case.wait.command
        );
        return Err(CliError::new(Exit::Conflict, what));
    };
    editor::edit(args)
}

pub(crate) async fn reject(session: &mut Session, args: &Reject) -> Result<Exit, CliError> {
    let case = Case::find(session, &args.wait, Waiting::Approval).await?;
    case.engine.reject(&case.run, case.shown(), &args.reason, &case.actor).await?;
    case.decided(session, "rejected").await
}

pub(crate) async fn answer(session: &mut Session, args: Answer) -> Result<Exit, CliError> {
    let Answer { run, value, text, wait, digest } = args;
    let which = WhichWait { which: ShowWait { run, wait }, digest };
    let answer = match (text, value) {
        (Some(text), _) => Payload::encode(&text).map_err(|error| CliError::usage(error.to_string()))?,
        (None, Some(value)) => {
            value::read(&value).map_err(|error| error.with_help("for a plain text, use --text"))?
        }
        (None, None) => {
            return Err(CliError::usage("there is no answer").with_help("pass a value, or --text"));
        }
    };
    let case = Case::find(session, &which, Waiting::Question).await?;
    case.engine.answer(&case.run, case.shown(), &answer, &case.actor).await?;
    case.decided(session, "answered").await
}

pub(crate) async fn resolve(session: &mut Session, args: &Resolve) -> Result<Exit, CliError> {
    let resolution = match &args.outcome.happened {
        Some(value) => Resolution::Happened(value::read(value)?),
        None if args.outcome.did_not_happen => Resolution::DidNotHappen,
        None => Resolution::Abandon,
    };
    let case = Case::find(session, &args.wait, Waiting::Resolution).await?;
    case.is_as_seen()?;
    let Some(invocation) = &case.wait.invocation else {
        let what = format!("run `{}`: `{}` names no call", case.run, case.wait.command);
        return Err(CliError::new(Exit::Failed, what));
    };
    case.engine.resolve(&case.run, invocation, resolution, &case.actor).await?;
    case.decided(session, "resolved").await
}

pub(crate) async fn confirm(session: &mut Session, args: &Confirm) -> Result<Exit, CliError> {
    let case = Case::find(session, &args.wait, Waiting::Confirmation).await?;
    let asked = case.wait.question.as_ref().and_then(|question| question.decode::<StateConfirmed>().ok());
    let Some(asked) = asked else {
        let what =
            format!("run `{}`: `{}` does not say which resource it is about", case.run, case.wait.command);
        return Err(CliError::new(Exit::Failed, what));
    };
    let decision =
        if args.decision.accept { ConfirmationDecision::Accept } else { ConfirmationDecision::Fail };
    let (resource, id) = (&asked.resource, &asked.id);
    case.engine.confirm(&case.run, case.shown(), resource, id, decision, &case.actor).await?;
    case.decided(session, "confirmed").await
}

impl Case {
    /// Fails where the wait is another one than the digest names. The invocation that is decided about binds the rest.
    fn is_as_seen(&self) -> Result<(), CliError> {
        match &self.digest {
            Some(digest) if *digest != self.wait.shown() => {
                let (run, command) = (&self.run, &self.wait.command);
                let what = format!("run `{run}`: `{command}` is about something else than what was shown");
                Err(CliError::new(Exit::Conflict, what).with_help(shows_it(run, command)))
            }
            _ => Ok(()),
        }
    }
}
