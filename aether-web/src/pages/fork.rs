//! Forks: the bill that shows what a fork would do to the world, the form that decides about each call on it, and what
//! differs between a fork and its origin.
//!
//! Promise: the plan executes nothing. A fork is started only by the bill that was shown: where a call has another
//! outcome by then, or there is one more, it is refused. A form that is sent twice starts one fork.

use std::collections::BTreeSet;

use aether_core::engine::{Engine, ForkError, ForkPlan};
use aether_core::id::RunId;
use aether_core::journal::BilledCall;
use aether_core::journal::event::Event;
use aether_core::store::StoreError;
use askama::Template;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};

use crate::access::form::Form;
use crate::access::refusal::Refusal;
use crate::access::visit::part;
use crate::pages::runs::run_path;
use crate::pages::shell::{Answer, Ask, Shell, html};
use crate::permissions::Actions;
use crate::text::difference::{Line, lines};
use crate::text::json::{Shown, line, pretty};

/// Where a run is cut at its beginning, and before what failed.
const START: &str = "start";
const FAILURE: &str = "failure";

#[derive(Debug, Template)]
#[template(path = "fork.html")]
struct Page {
    shell: Shell,
    id: String,
    href: String,
    before: String,
    cut: String,
    position: u64,
    bill: String,
    /// What the fork's id ends with, so that the form starts one fork however often it is sent.
    mark: String,
    calls: Vec<Call>,
    audits: bool,
    is_open: bool,
    may_end: bool,
    is_retry: bool,
}

/// A call on the bill.
#[derive(Debug)]
struct Call {
    command: String,
    /// Name of the field with the decision.
    input: String,
    outcome: &'static str,
    class: &'static str,
    irreversible: bool,
    child: Option<String>,
    args: Option<Shown>,
    result: Option<Shown>,
    can_keep: bool,
    can_undo: bool,
    /// What undoes it.
    undo: String,
    needs_decision: bool,
}

async fn plan(engine: &Engine, run: &RunId, before: &str) -> Result<ForkPlan, ForkError> {
    match before {
        START => engine.fork(run).from_start().plan().await,
        FAILURE => engine.retry(run).plan().await,
        command => engine.fork(run).before(command).plan().await,
    }
}

fn allowed(ask: &Ask) -> Result<(), Response> {
    if ask.visit.may(Actions::FORK) {
        return Ok(());
    }
    let why = "This console does not allow you to fork runs. Its program can, with `.allow(Actions::FORK)`.";
    Err(Refusal::page(&ask.visit, StatusCode::FORBIDDEN, why, "/"))
}

/// Whether the form asks to end the run that it forks: that is an end as any other.
fn may_end(ask: &Ask, run: &RunId, form: &Form) -> Result<(), Response> {
    if form.get("origin") != "end" || ask.visit.may(Actions::END) {
        return Ok(());
    }
    let why = "This console does not allow you to end runs. Its program can, with `.allow(Actions::END)`. Nothing was started.";
    Err(Refusal::page(&ask.visit, StatusCode::FORBIDDEN, why, &format!("/runs/{}", part(run.as_str()))))
}

fn refuse(ask: &Ask, run: &RunId, error: &ForkError) -> Response {
    let status = match error {
        ForkError::Store(StoreError::UnknownRun { .. }) => StatusCode::NOT_FOUND,
        ForkError::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    };
    Refusal::page(&ask.visit, status, error, &format!("/runs/{}", part(run.as_str())))
}

pub(crate) async fn page(ask: Ask, Path(id): Path<String>) -> Answer {
    allowed(&ask)?;
    let run = ask.run(&id)?;
    let before = ask.get("before").unwrap_or(START).to_owned();
    let engine = ask.shared.engine();
    let plan = plan(engine, &run, &before).await.map_err(|error| refuse(&ask, &run, &error))?;
    let record = engine.store().run(&run).await.map_err(|error| ask.store(&error))?;
    html(&Page {
        shell: ask.shell("runs", format!("Fork of {id}")).await?,
        href: run_path(&ask.visit.base, &id),
        cut: match before.as_str() {
            START => "at its beginning: nothing but the input is copied".to_owned(),
            FAILURE => "before what failed".to_owned(),
            command => format!("before {command}"),
        },
        position: plan.position(),
        bill: plan.shown(),
        mark: new_mark(&ask)?,
        audits: ask.visit.audits(),
        calls: plan.calls().iter().map(|call| Call::of(&ask, call)).collect(),
        is_open: record.is_some_and(|record| !record.status.is_terminal()),
        may_end: ask.visit.may(Actions::END),
        is_retry: before == FAILURE,
        id,
        before,
    })
}

impl Call {
    fn of(ask: &Ask, call: &BilledCall) -> Self {
        // As they were recorded, they are for auditors.
        let shown = |payload: &Option<_>| payload.as_ref().filter(|_| ask.visit.audits()).map(Shown::payload);
        Self {
            command: call.command.to_string(),
            input: format!("call.{}", part(call.command.as_str())),
            outcome: call.outcome.as_str(),
            class: call.class.as_str(),
            irreversible: call.irreversible,
            child: call.child.as_ref().map(|child| run_path(&ask.visit.base, child.as_str())),
            args: shown(&call.args),
            result: shown(&call.result),
            can_keep: call.can_keep(),
            can_undo: call.can_undo(),
            undo: call.undo.as_ref().map(|(step, _)| step.clone()).unwrap_or_default(),
            needs_decision: call.needs_decision(),
        }
    }
}

/// What makes the id of one fork: drawn for each page that shows a bill.
fn new_mark(ask: &Ask) -> Result<String, Response> {
    let drawn = ask.shared.sessions.mark();
    // The letter keeps it apart from the numbers that the engine gives.
    drawn
        .map(|mark| format!("c{mark}"))
        .map_err(|error| Refusal::plain(StatusCode::SERVICE_UNAVAILABLE, error))
}

/// The id of the fork that the form starts; `None` for a retry, of which there is one in any case.
fn named(ask: &Ask, run: &RunId, form: &Form) -> Result<Option<RunId>, Response> {
    if form.get("before") == FAILURE {
        return Ok(None);
    }
    let mark = form.get("fork");
    let digits = mark.strip_prefix('c').filter(|digits| digits.len() == 8);
    if !digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit())) {
        let why = "The form does not say which fork it starts. Load the page again.";
        return Err(Refusal::page(
            &ask.visit,
            StatusCode::BAD_REQUEST,
            why,
            &format!("/runs/{}", part(run.as_str())),
        ));
    }
    ask.run(&format!("{run}~fork-{mark}")).map(Some)
}

fn forked(ask: &Ask, fork: &RunId) -> Response {
    Redirect::to(&format!("{}?done=forked", run_path(&ask.visit.base, fork.as_str()))).into_response()
}

/// Starts the fork that was shown.
pub(crate) async fn start(ask: Ask, Path(id): Path<String>, form: Form) -> Answer {
    allowed(&ask)?;
    let run = ask.run(&id)?;
    may_end(&ask, &run, &form)?;
    let engine = ask.shared.engine();
    let fork = named(&ask, &run, &form)?;
    // One after the other: the second of two finds what the first has started.
    let _alone = ask.shared.forks.lock().await;
    if let Some(fork) = &fork
        && origin(engine, fork).await.map_err(|error| ask.store(&error))?.as_ref() == Some(&run)
    {
        return Ok(forked(&ask, fork));
    }
    let mut plan =
        plan(engine, &run, form.get("before")).await.map_err(|error| refuse(&ask, &run, &error))?;
    if plan.shown() != form.get("bill") {
        let why = "The run has gone on since the bill was shown. Nothing was started; look at the bill as it is now.";
        let back = format!("/runs/{}/fork?before={}", part(&id), part(form.get("before")));
        return Err(Refusal::page(&ask.visit, StatusCode::CONFLICT, why, &back));
    }
    let commands: Vec<String> = plan.calls().iter().map(|call| call.command.to_string()).collect();
    let asked: Vec<String> = commands.iter().map(|command| format!("call.{}", part(command))).collect();
    if let Some(unknown) = form.names("call.").find(|name| !asked.iter().any(|known| known == name)) {
        let why = format!("`{}` is no field of this form. Nothing was started.", line(unknown, 60));
        let back = format!("/runs/{}/fork?before={}", part(&id), part(form.get("before")));
        return Err(Refusal::page(&ask.visit, StatusCode::BAD_REQUEST, why, &back));
    }
    for command in commands {
        plan = match form.get(&format!("call.{}", part(&command))) {
            "keep" => plan.keep(&command),
            "again" => plan.again(&command),
            "undo" => plan.undo_first(&command),
            _ => plan,
        };
    }
    plan = match form.get("origin") {
        "leave" => plan.leave_origin_running(),
        "end" => plan.end_origin("a fork replaces it"),
        _ => plan,
    };
    if let Some(fork) = &fork {
        plan = plan.id(fork.as_str());
    }
    let fork = plan.start(ask.visit.user.name()).await.map_err(|error| refuse(&ask, &run, &error))?;
    Ok(forked(&ask, fork.id()))
}

/// The run that this one is a fork of; `None` also where there is no such run.
pub(crate) async fn origin(engine: &Engine, run: &RunId) -> Result<Option<RunId>, StoreError> {
    let store = &**engine.store();
    let frames = match store.load_page(run, 0, 1).await {
        Err(StoreError::UnknownRun { .. }) => return Ok(None),
        frames => frames?,
    };
    let events = aether_core::store::read::events(store, run, &frames).await?;
    Ok(events.into_iter().find_map(|event| match event {
        Event::RunCreated(created) => created.forked_from.map(|from| from.run),
        _ => None,
    }))
}

#[derive(Debug, Template)]
#[template(path = "difference.html")]
struct Difference {
    shell: Shell,
    id: String,
    href: String,
    origin: String,
    origin_href: String,
    rows: Vec<Differs>,
    same: usize,
}

/// A command that is not the same in both.
#[derive(Debug)]
struct Differs {
    command: String,
    says: &'static str,
    input: Option<Vec<Line>>,
    result: Option<Vec<Line>>,
}

/// Most commands whose differences are shown.
const MOST: usize = 100;

/// What differs between a fork and its origin, command by command.
pub(crate) async fn difference(ask: Ask, Path(id): Path<String>) -> Answer {
    let run = ask.run(&id)?;
    if !ask.visit.audits() {
        let why = "What differs between runs shows everything that they hold, and is for the audit role.";
        return Err(Refusal::page(&ask.visit, StatusCode::FORBIDDEN, why, &format!("/runs/{}", part(&id))));
    }
    let (engine, fault) = (ask.shared.engine(), |error: StoreError| ask.store(&error));
    let Some(origin) = origin(engine, &run).await.map_err(fault)? else {
        let why = "This run is no fork.";
        return Err(Refusal::page(&ask.visit, StatusCode::NOT_FOUND, why, &format!("/runs/{}", part(&id))));
    };
    let (one, other) = (engine.view(&origin).await.map_err(fault)?, engine.view(&run).await.map_err(fault)?);
    let names: BTreeSet<_> = one.steps.iter().map(|step| &step.command).collect();
    let new = other.steps.iter().filter(|step| !names.contains(&step.command)).map(|step| &step.command);
    let (mut rows, mut same) = (Vec::new(), 0);
    for command in one.steps.iter().map(|step| &step.command).chain(new) {
        let (before, after) = (one.step(command), other.step(command));
        let text = |payload: Option<&aether_core::payload::Payload>| payload.map(pretty).unwrap_or_default();
        let input = lines(
            &text(before.and_then(|step| step.input.as_ref())),
            &text(after.and_then(|step| step.input.as_ref())),
        );
        let ended = |step: Option<&aether_core::view::StepView>| {
            let result = step.and_then(|step| step.result.as_ref());
            result.map(|result| result.as_ref().map_or_else(pretty, pretty)).unwrap_or_default()
        };
        let result = lines(&ended(before), &ended(after));
        let says = match (before, after) {
            (Some(_), None) => "only in the origin",
            (None, Some(_)) => "only in the fork",
            _ if input.is_none() && result.is_none() => {
                same += 1;
                continue;
            }
            _ => "differs",
        };
        if rows.len() < MOST {
            rows.push(Differs { command: command.to_string(), says, input, result });
        }
    }
    html(&Difference {
        shell: ask.shell("runs", format!("What differs in {id}")).await?,
        href: run_path(&ask.visit.base, &id),
        id,
        origin_href: run_path(&ask.visit.base, origin.as_str()),
        origin: origin.to_string(),
        rows,
        same,
    })
}
