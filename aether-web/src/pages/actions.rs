//! What forms do: one call of the engine each, with the name of who sent it.
//!
//! Promise: nothing is done that the console does not allow this user. A decision goes to the wait that was shown or to
//! none. Where somebody is sent afterwards is never read from the request.

use aether_core::engine::{DecideError, Hold};
use aether_core::id::{CommandId, InvocationId, RunId};
use aether_core::inbox::{Resolution, SendError};
use aether_core::journal::event::{ConfirmationDecision, StateConfirmed};
use aether_core::payload::Payload;
use aether_core::store::{Sent, StoreError};
use aether_core::view::WaitRef;
use aether_core::view::pending::{Pending, Waiting};
use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde_json::value::{RawValue, to_raw_value};

use crate::access::form::Form;
use crate::access::refusal::Refusal;
use crate::access::visit::part;
use crate::pages::cards::{proposed, schema};
use crate::pages::fields::{Edited, PREFIX, Unfit, WHOLE, fields, filled, typed};
use crate::pages::shell::{Answer, Ask};
use crate::pages::tool_question::ToolQuestion;
use crate::permissions::Actions;

/// A form about one run that its sender may send.
struct Submitted<'a> {
    ask: &'a Ask,
    form: &'a Form,
    run: RunId,
}

impl<'a> Submitted<'a> {
    fn new(ask: &'a Ask, form: &'a Form, id: &str, needs: Actions) -> Result<Self, Response> {
        if !ask.visit.may(needs) {
            let why =
                "This console does not allow you to do that. Its program can, with `.allow(Actions::..)`.";
            return Err(Refusal::page(&ask.visit, StatusCode::FORBIDDEN, why, "/"));
        }
        Ok(Self { ask, form, run: ask.run(id)? })
    }

    fn actor(&self) -> &str {
        self.ask.visit.user.name()
    }

    /// The wait that was shown.
    fn wait(&self) -> Result<WaitRef, Response> {
        match (self.form.get("command"), self.form.get("shown")) {
            ("", _) | (_, "") => {
                Err(self.refuse(StatusCode::BAD_REQUEST, "the form does not say what was shown"))
            }
            (command, shown) => Ok(WaitRef::from(CommandId::from(command.to_owned())).shown(shown)),
        }
    }

    /// The wait as it is now, if it is the one that was shown.
    async fn open(&self, waiting: Waiting) -> Result<Pending, Response> {
        let open =
            self.ask.shared.engine().pending(&self.run).await.map_err(|error| self.ask.store(&error))?;
        let (command, shown) = (self.form.get("command"), self.form.get("shown"));
        let own = open.into_iter().find(|wait| wait.command.as_str() == command && wait.waiting == waiting);
        own.filter(|wait| wait.shown() == shown).ok_or_else(|| {
            let why = "It does not wait for this any more, or for something else than what was shown. Nothing was done; \
                       look at it as it is now.";
            self.refuse(StatusCode::CONFLICT, why)
        })
    }

    fn done(&self, what: &str) -> Response {
        let base = &self.ask.visit.base;
        let to = match self.form.get("from") {
            "inbox" => format!("{base}/inbox?done={what}"),
            _ => format!("{base}/runs/{}?done={what}", part(self.run.as_str())),
        };
        Redirect::to(&to).into_response()
    }

    fn refuse(&self, status: StatusCode, why: impl ToString) -> Response {
        Refusal::page(&self.ask.visit, status, why, &format!("/runs/{}", part(self.run.as_str())))
    }

    fn unfit(&self, error: &Unfit) -> Response {
        self.refuse(StatusCode::UNPROCESSABLE_ENTITY, error)
    }

    async fn decided(&self, done: &str, result: Result<(), DecideError>) -> Answer {
        let error = match result {
            Ok(()) if self.is_taken_up().await => return Ok(self.done(done)),
            Ok(()) => return Ok(self.done("recorded")),
            Err(error) => error,
        };
        let status = match &error {
            DecideError::Send(error) => of_send(error),
            DecideError::Store(error) => of_store(error),
            DecideError::Misfit { .. } | DecideError::NothingToEdit { .. } | DecideError::Unrecordable(_) => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            DecideError::NoActor { .. } | DecideError::UnknownToken { .. } => StatusCode::BAD_REQUEST,
            _ => StatusCode::CONFLICT,
        };
        match error {
            // Who decided is for auditors.
            DecideError::AlreadyDecided { .. } if !self.ask.visit.audits() => {
                Err(self.refuse(status, "Somebody else has decided about this before. Nothing was done."))
            }
            error => Err(self.refuse(status, error)),
        }
    }

    /// Whether there is a program that goes on with the run.
    async fn is_taken_up(&self) -> bool {
        let hold = self.ask.shared.engine().why(&self.run).await;
        !matches!(
            hold,
            Ok(Hold::Parked { .. } | Hold::NoWorker { .. } | Hold::NoCode { .. } | Hold::NotServed { .. })
        )
    }

    fn sent(&self, done: &str, result: Result<Sent, SendError>) -> Answer {
        match result {
            Ok(Sent::Delivered) => Ok(self.done(done)),
            Ok(Sent::Duplicate) => Ok(self.done("duplicate")),
            Ok(Sent::RunEnded(_)) => Ok(self.done("ended")),
            Err(error) => Err(self.refuse(of_send(&error), error)),
        }
    }
}

fn of_store(error: &StoreError) -> StatusCode {
    match error {
        StoreError::UnknownRun { .. } => StatusCode::NOT_FOUND,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    }
}

fn of_send(error: &SendError) -> StatusCode {
    match error {
        SendError::Store(error) => of_store(error),
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    }
}

/// How the form with changed arguments says that they are meant.
const EDITED: &str = "edited";

/// Agrees to a call: as it was shown, or with the arguments of the form for changes.
pub(crate) async fn approve(ask: Ask, Path(id): Path<String>, form: Form) -> Answer {
    let sent = Submitted::new(&ask, &form, &id, Actions::DECIDE)?;
    let (engine, wait) = (ask.shared.engine(), sent.wait()?);
    let open = sent.open(Waiting::Approval).await?;
    if form.get("approve") != EDITED {
        if form.has_prefix(PREFIX) {
            let why = "The form holds changed arguments and does not say that they are to be taken. Load the page again.";
            return Err(sent.refuse(StatusCode::BAD_REQUEST, why));
        }
        return sent.decided("approved", engine.approve(&sent.run, wait, sent.actor()).await).await;
    }
    let schema = schema(&ask, &open).await;
    let edited = match open.args.as_ref().and_then(|args| Edited::of(schema.as_ref(), args)) {
        Some(edited) => edited.filled(&form).map_err(|error| sent.unfit(&error))?,
        // What it says to change is not taken, so that it is not agreed to either.
        None if form.has_prefix(PREFIX) => {
            let why =
                "Nothing of these arguments can be changed in a form. Load the page again. Nothing was done.";
            return Err(sent.refuse(StatusCode::BAD_REQUEST, why));
        }
        None => None,
    };
    match edited {
        None => sent.decided("approved", engine.approve(&sent.run, wait, sent.actor()).await).await,
        Some(edited) => {
            sent.decided("edited", engine.approve_with(&sent.run, wait, &edited, sent.actor()).await).await
        }
    }
}

/// Does not agree to a call.
pub(crate) async fn reject(ask: Ask, Path(id): Path<String>, form: Form) -> Answer {
    let sent = Submitted::new(&ask, &form, &id, Actions::DECIDE)?;
    let (wait, reason) = (sent.wait()?, form.get("reason").trim());
    sent.decided("rejected", ask.shared.engine().reject(&sent.run, wait, reason, sent.actor()).await).await
}

/// Answers a question.
pub(crate) async fn answer(ask: Ask, Path(id): Path<String>, form: Form) -> Answer {
    let sent = Submitted::new(&ask, &form, &id, Actions::DECIDE)?;
    let wait = sent.wait()?;
    let open = sent.open(Waiting::Question).await?;
    let question = proposed(open.question.as_ref());
    let value = match (question.as_ref().and_then(ToolQuestion::read), form.find(WHOLE)) {
        (Some(asked), _) => asked.answer(&form).and_then(|answer| raw(&answer)),
        (None, Some(_)) => typed(&form),
        (None, None) => {
            let schema = question.as_ref().and_then(|question| question.get("schema"));
            filled(&fields(schema, None).unwrap_or_default(), None, &form).and_then(|answer| raw(&answer))
        }
    };
    let value = value.map_err(|error| sent.unfit(&error))?;
    sent.decided("answered", ask.shared.engine().answer(&sent.run, wait, &value, sent.actor()).await).await
}

fn raw(answer: &serde_json::Value) -> Result<Box<RawValue>, Unfit> {
    to_raw_value(answer).map_err(|error| Unfit::new(WHOLE, format!("is no JSON: {error}")))
}

/// Says what became of a call whose outcome is unknown.
pub(crate) async fn resolve(ask: Ask, Path(id): Path<String>, form: Form) -> Answer {
    let sent = Submitted::new(&ask, &form, &id, Actions::DECIDE)?;
    let open = sent.open(Waiting::Resolution).await?;
    let invocation = InvocationId::from(form.get("invocation").to_owned());
    if open.invocation.as_ref() != Some(&invocation) {
        return Err(
            sent.refuse(StatusCode::CONFLICT, "It waits for a decision about another attempt by now.")
        );
    }
    let resolution = match form.get("decision") {
        "happened" => {
            let text = form.get("value").trim().to_owned();
            let value = Payload::from_text(text).map_err(|error| {
                let why = format!(
                    "What the call returned is to be JSON, such as \"receipt-17\" in quotes: {error}"
                );
                sent.refuse(StatusCode::UNPROCESSABLE_ENTITY, why)
            })?;
            Resolution::Happened(value)
        }
        "did_not" => Resolution::DidNotHappen,
        "abandon" => Resolution::Abandon,
        _ => {
            return Err(sent.refuse(StatusCode::BAD_REQUEST, "the form does not say what became of the call"));
        }
    };
    let resolved = ask.shared.engine().resolve(&sent.run, &invocation, resolution, sent.actor()).await;
    sent.decided("resolved", resolved).await
}

/// Decides about a resource that has changed.
pub(crate) async fn confirm(ask: Ask, Path(id): Path<String>, form: Form) -> Answer {
    let sent = Submitted::new(&ask, &form, &id, Actions::DECIDE)?;
    let decision = match form.get("decision") {
        "accept" => ConfirmationDecision::Accept,
        "fail" => ConfirmationDecision::Fail,
        _ => return Err(sent.refuse(StatusCode::BAD_REQUEST, "the form does not say what is decided")),
    };
    let open = sent.open(Waiting::Confirmation).await?;
    let changed = open.question.as_ref().and_then(|question| question.decode::<StateConfirmed>().ok());
    let Some(changed) = changed else {
        return Err(sent.refuse(StatusCode::CONFLICT, "It does not say which resource has changed."));
    };
    let (wait, engine) = (sent.wait()?, ask.shared.engine());
    let confirmed =
        engine.confirm(&sent.run, wait, &changed.resource, &changed.id, decision, sent.actor()).await;
    sent.decided("confirmed", confirmed).await
}

/// Sends a signal. Its id, which the page made, says by whom, and makes a form that is sent twice one signal.
pub(crate) async fn signal(ask: Ask, Path(id): Path<String>, form: Form) -> Answer {
    let sent = Submitted::new(&ask, &form, &id, Actions::SIGNAL)?;
    let own = format!("console:{}:", sent.actor());
    let (name, signal) = (form.get("name").trim(), form.get("id"));
    if name.is_empty() || !signal.starts_with(&own) {
        return Err(
            sent.refuse(StatusCode::BAD_REQUEST, "the form names no signal, or not the one of its page")
        );
    }
    // The run takes what comes, and one that expects a number ends with nothing.
    if form.get("as") != "text" && form.get("value").trim().is_empty() {
        return Err(sent.refuse(
            StatusCode::BAD_REQUEST,
            "the signal has no value: write `null` for none, or say that it is a text",
        ));
    }
    let value = typed(&form).map_err(|error| sent.unfit(&error))?;
    sent.sent("signalled", ask.shared.engine().signal(&sent.run, name, signal, &value).await)
}

/// Asks a run to end.
pub(crate) async fn end(ask: Ask, Path(id): Path<String>, form: Form) -> Answer {
    let sent = Submitted::new(&ask, &form, &id, Actions::END)?;
    let (engine, reason) = (ask.shared.engine(), form.get("reason").trim());
    match form.get("how") {
        "cancel" => sent.sent("cancelling", engine.cancel(&sent.run, reason, sent.actor()).await),
        "terminate" => sent.sent("terminated", engine.terminate(&sent.run, reason, sent.actor()).await),
        _ => Err(sent.refuse(StatusCode::BAD_REQUEST, "the form does not say how the run is to end")),
    }
}

/// The recording of a run, with its secrets masked, for a test.
pub(crate) async fn fixture(ask: Ask, Path(id): Path<String>) -> Answer {
    if !ask.visit.audits() {
        let why = "A recording holds everything, and is given out in the audit role.";
        return Err(Refusal::page(&ask.visit, StatusCode::FORBIDDEN, why, "/"));
    }
    let run = ask.run(&id)?;
    let back = format!("/runs/{}", part(&id));
    let refuse = |error: &dyn std::error::Error| {
        Refusal::page(&ask.visit, StatusCode::SERVICE_UNAVAILABLE, error, &back)
    };
    let recording = ask.shared.engine().export(&run).await.map_err(|error| refuse(&error))?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let name: String = id.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    let headers = [
        (header::CONTENT_TYPE, "application/json".to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}.json\"")),
    ];
    Ok((headers, recording.to_text()).into_response())
}
