//! One command of a run, as the panel beside the timeline shows it.

use aether_core::contract::Status;
use aether_core::id::CommandId;
use aether_core::outcome::EffectClass;
use aether_core::payload::Payload;
use aether_core::store::ledger::LedgerEntry;
use aether_core::view::{Purpose, RunView, StepView};
use axum::response::Response;

use crate::access::visit::part;
use crate::pages::model::Talk;
use crate::pages::runs::run_path;
use crate::pages::shell::Ask;
use crate::permissions::Actions;
use crate::text::difference::{Line, lines};
use crate::text::json::{Shown, pretty};
use crate::text::time::{When, between, length};
use crate::timeline::rows::State;

/// The panel of one command.
#[derive(Debug)]
pub(crate) struct Panel {
    pub(crate) name: String,
    pub(crate) command: String,
    pub(crate) class: &'static str,
    pub(crate) state: State,
    pub(crate) site: Option<String>,
    pub(crate) marks: Vec<&'static str>,
    pub(crate) talk: Option<Talk>,
    pub(crate) input: Option<Shown>,
    /// What a person changed of the arguments before agreeing.
    pub(crate) edited: Option<Vec<Line>>,
    pub(crate) result: Option<Shown>,
    pub(crate) error: Option<Shown>,
    pub(crate) attempts: Vec<Attempt>,
    /// What differs between the errors of the last two attempts that failed.
    pub(crate) between_attempts: Option<Vec<Line>>,
    pub(crate) ledger: Vec<Row>,
    pub(crate) changes: Vec<(String, String)>,
    pub(crate) child: Option<(String, String)>,
    /// Where a fork before this command is planned.
    pub(crate) fork: Option<String>,
}

/// One attempt, or the question to a person.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) what: String,
    pub(crate) state: &'static str,
    pub(crate) began: When,
    pub(crate) took: String,
    pub(crate) error: Option<String>,
    pub(crate) by: Option<String>,
}

/// A row of the ledger.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) tool: String,
    pub(crate) status: &'static str,
    pub(crate) digest: String,
    pub(crate) key: Option<String>,
    pub(crate) business_key: Option<String>,
    pub(crate) started: When,
}

impl Panel {
    /// That of `command`; `None` where the run has no such command.
    pub(crate) async fn of(ask: &Ask, view: &RunView, command: &CommandId) -> Result<Option<Self>, Response> {
        let Some(step) = view.step(command) else { return Ok(None) };
        let audits = ask.visit.audits();
        let prices = ask.shared.settings.prices.as_ref();
        let talk = Talk::of(step, audits, prices).filter(|_| step.class == EffectClass::Llm);
        let (input, result, error) = values(view, step, audits);
        let attempts = attempts(ask, view, command, audits);
        let ledger = match step.class.changes_world() {
            true => ledger(ask, view, command).await?,
            false => Vec::new(),
        };
        let child = match step.class {
            EffectClass::Workflow => child(ask, view, step).await,
            _ => None,
        };
        let constraints =
            view.executions.iter().find(|own| own.command == *command).map(|own| &own.constraints);
        let irreversible = constraints.is_some_and(|constraints| constraints.irreversible);
        let marks = [(irreversible, "irreversible"), (step.world_changed(), "changed the world")];
        let edited = step.edited.as_ref().zip(step.input.as_ref());
        let edited = edited.and_then(|(edited, input)| lines(&pretty(input), &pretty(edited)));
        let fork = ask.visit.may(Actions::FORK).then(|| {
            let run = run_path(&ask.visit.base, view.run.as_str());
            format!("{run}/fork?before={}", part(command.as_str()))
        });
        Ok(Some(Self {
            name: command.name().to_owned(),
            command: command.to_string(),
            class: step.class.as_str(),
            state: State::of(step),
            site: step.site.clone(),
            marks: marks.iter().filter(|(is, _)| *is).map(|(_, mark)| *mark).collect(),
            input: input.filter(|_| talk.is_none()),
            result: result.filter(|_| talk.is_none()),
            talk,
            edited,
            error,
            between_attempts: differing(&attempts),
            attempts,
            ledger,
            changes: step.changes.iter().map(|change| (change.resource.clone(), change.id.clone())).collect(),
            child,
            fork,
        }))
    }
}

type Values = (Option<Shown>, Option<Shown>, Option<Shown>);

/// Arguments, value and error: to auditors as they are recorded, to others without keys and settings.
fn values(view: &RunView, step: &StepView, audits: bool) -> Values {
    if audits {
        let shown = |payload: &Payload| Some(Shown::payload(payload));
        return match &step.result {
            Some(Ok(value)) => (step.input.as_ref().and_then(shown), shown(value), None),
            Some(Err(error)) => (step.input.as_ref().and_then(shown), None, shown(error)),
            None => (step.input.as_ref().and_then(shown), None, None),
        };
    }
    let own = view.step_for_people(&step.command);
    let newest = own.iter().rev().find(|own| own.purpose == Purpose::Call).or(own.last());
    let asked = newest.and_then(|own| own.asked.as_ref()).map(Shown::value);
    let result = newest.and_then(|own| own.result.as_ref()).map(Shown::value);
    (asked, result, newest.and_then(|own| own.error.as_ref()).map(|error| Shown::text(error)))
}

fn attempts(ask: &Ask, view: &RunView, command: &CommandId, audits: bool) -> Vec<Attempt> {
    let own = view.executions.iter().filter(|execution| execution.command == *command);
    let shown = match audits {
        true => Vec::new(),
        false => view.step_for_people(command),
    };
    let mut number = 0;
    let attempt = |(at, execution): (usize, &aether_core::view::Execution)| {
        let lifecycle = &execution.lifecycle;
        let ended = lifecycle.status.is_terminal();
        let end = if ended { lifecycle.updated_at } else { ask.now };
        number += usize::from(execution.purpose == Purpose::Call);
        Attempt {
            what: match execution.purpose {
                Purpose::Call => format!("Attempt {number}"),
                _ => "Asked for consent".to_owned(),
            },
            state: lifecycle.status.as_str(),
            began: ask.when(lifecycle.created.at),
            took: length(between(lifecycle.created.at, end)),
            error: match audits {
                true => execution.error.clone(),
                false => shown.get(at).and_then(|shown| shown.error.clone()),
            }
            .filter(|_| lifecycle.status != Status::Completed),
            by: execution.decided_by.clone().filter(|_| audits),
        }
    };
    own.enumerate().map(attempt).collect()
}

fn differing(attempts: &[Attempt]) -> Option<Vec<Line>> {
    let mut errors = attempts.iter().rev().filter_map(|attempt| attempt.error.as_deref());
    let (newest, before) = (errors.next()?, errors.next()?);
    lines(before, newest)
}

async fn ledger(ask: &Ask, view: &RunView, command: &CommandId) -> Result<Vec<Row>, Response> {
    let rows = ask.shared.engine().ledger(&view.run).await.map_err(|error| ask.store(&error))?;
    let row = |row: &LedgerEntry| Row {
        tool: row.tool.clone(),
        status: row.status.as_str(),
        digest: row.digest.to_string(),
        key: ask.visit.audits().then(|| row.key.to_string()),
        business_key: row.business_key.clone().filter(|_| ask.visit.audits()),
        started: ask.when(row.started_at),
    };
    Ok(rows.iter().filter(|row| row.command == *command).map(row).collect())
}

/// The child run that a command started, and where its page is.
async fn child(ask: &Ask, view: &RunView, step: &StepView) -> Option<(String, String)> {
    let filter = aether_core::store::RunFilter::new().parent(view.run.clone()).limit(500);
    let children = ask.shared.engine().runs(filter).await.ok()?;
    let own = format!("/{}", step.command);
    let named = children.iter().find(|child| child.id.as_str().ends_with(&own));
    let child = named.or(match children.as_slice() {
        [one] => Some(one),
        _ => None,
    })?;
    Some((child.id.to_string(), run_path(&ask.visit.base, child.id.as_str())))
}
