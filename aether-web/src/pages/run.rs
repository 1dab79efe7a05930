//! The page of one run: what it does on the left, what is selected on the right, and what somebody may do.

use std::collections::BTreeSet;

use aether_core::engine::Hold;
use aether_core::id::CommandId;
use aether_core::store::{RunFilter, RunRecord, StoreError};
use aether_core::view::pending::{Pending, Waiting};
use aether_core::view::{RunView, StepPage};
use askama::Template;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;

use crate::access::refusal::Refusal;
use crate::access::visit::part;
use crate::pages::cards::Card;
use crate::pages::fork::origin;
use crate::pages::journal::{Entry, newest};
use crate::pages::runs::{Why, run_path, state, why};
use crate::pages::shell::{Answer, Ask, Shell, html};
use crate::pages::step::Panel;
use crate::permissions::Actions;
use crate::text::json::Shown;
use crate::text::time::{When, between, count, length};
use crate::timeline::bars::Moment;
use crate::timeline::rows::{PAGE, Row, Timeline};

/// The page.
#[derive(Debug, Template)]
#[template(path = "run.html")]
struct Page {
    shell: Shell,
    run: About,
    timeline: Timeline,
    /// The command in the panel, and where it is asked for.
    selected: String,
    panel: Option<Panel>,
    cards: Vec<Card>,
    overview: Overview,
    entries: Vec<Entry>,
    may: May,
    signal_id: String,
}

/// What somebody may do with the run.
#[derive(Debug)]
struct May {
    signal: bool,
    end: bool,
    fork: bool,
    retry: bool,
    export: bool,
}

/// What stands above everything.
#[derive(Debug)]
struct About {
    id: String,
    href: String,
    workflow: String,
    version: u32,
    state: &'static str,
    is_open: bool,
    labels: Vec<(String, String)>,
    started: When,
    took: String,
    events: String,
    position: u64,
    generation: u32,
    parent: Option<(String, String)>,
    origin: Option<(String, String)>,
    children: Vec<(String, String, &'static str)>,
    why: Why,
    is_urgent: bool,
    warning: Option<String>,
    ending: Option<String>,
}

/// What the panel shows where no command is selected.
#[derive(Debug)]
struct Overview {
    input: Option<Shown>,
    result: Option<Shown>,
    error: Option<Shown>,
    uncompensated: Vec<String>,
    budgets: Vec<(String, String)>,
}

/// What is read of a run for its page.
struct Found {
    record: RunRecord,
    /// The page of its steps that is shown.
    view: RunView,
    hold: Hold,
    pending: Vec<Pending>,
}

async fn find(ask: &Ask, id: &str, asked: Option<&CommandId>) -> Result<Found, Response> {
    let run = ask.run(id)?;
    let engine = ask.shared.engine();
    let fault = |error: StoreError| ask.store(&error);
    let record = engine.store().run(&run).await.map_err(fault)?;
    let Some(record) = record else { return Err(fault(StoreError::UnknownRun { run })) };
    let number = ask.get("page").and_then(|page| page.parse().ok());
    let steps = match (number, asked) {
        (Some(number), _) => StepPage::number(number),
        (None, Some(command)) => StepPage::with(command.clone()),
        (None, None) if record.status.is_terminal() => StepPage::number(1),
        (None, None) => StepPage::last(),
    };
    let view = engine.view_page(&run, steps.size(PAGE)).await.map_err(fault)?;
    let hold = engine.why(&run).await.map_err(fault)?;
    // Only what waits is worth a look into the journal.
    let pending = match &hold {
        Hold::Ended { .. } => Vec::new(),
        _ => engine.pending(&run).await.map_err(fault)?,
    };
    Ok(Found { record, view, hold, pending })
}

pub(crate) async fn page(ask: Ask, Path(id): Path<String>) -> Answer {
    let asked = ask.get("step").map(|step| CommandId::from(step.to_owned()));
    let found = find(&ask, &id, asked.as_ref()).await?;
    let unknown: BTreeSet<_> = found
        .pending
        .iter()
        .filter(|wait| wait.waiting == Waiting::Resolution)
        .map(|wait| wait.command.clone())
        .collect();
    let timeline = Timeline::of(&found.view, &Moment { now: ask.now, unknown });
    let panel = match &asked {
        Some(command) => match panel(&ask, &found.view, command).await? {
            None => {
                let why = format!("the run has no command `{command}`");
                let back = format!("/runs/{}", part(&id));
                return Err(Refusal::page(&ask.visit, StatusCode::NOT_FOUND, why, &back));
            }
            panel => panel,
        },
        None => None,
    };
    let mut cards = Vec::new();
    for wait in
        found.pending.iter().filter(|wait| asked.as_ref().is_none_or(|command| *command == wait.command))
    {
        cards.extend(Card::of(&ask, wait, true).await);
    }
    let entries = newest(&ask, &found.record).await?;
    let run = About::of(&ask, &found).await?;
    let shell = ask.shell("runs", &run.id).await?;
    let is_open = run.is_open;
    let may = May {
        signal: is_open && ask.visit.may(Actions::SIGNAL),
        end: is_open && ask.visit.may(Actions::END),
        fork: ask.visit.may(Actions::FORK),
        retry: run.state == "failed" && ask.visit.may(Actions::FORK),
        export: ask.visit.audits(),
    };
    html(&Page {
        overview: Overview::of(&found.view, ask.visit.audits()),
        selected: asked.map(|command| command.to_string()).unwrap_or_default(),
        signal_id: format!("console:{}:{}", ask.visit.user.name(), ask.now.as_microsecond()),
        shell,
        run,
        timeline,
        panel,
        cards,
        entries,
        may,
    })
}

/// The panel of a command of this run, which may be on another page than that which is shown.
async fn panel(ask: &Ask, shown: &RunView, command: &CommandId) -> Result<Option<Panel>, Response> {
    if shown.step(command).is_some() {
        return Panel::of(ask, shown, command).await;
    }
    let own = ask.shared.engine().view_page(&shown.run, StepPage::with(command.clone()).size(1)).await;
    Panel::of(ask, &own.map_err(|error| ask.store(&error))?, command).await
}

impl Page {
    fn step(&self, row: &Row) -> String {
        format!("{}?step={}", self.run.href, part(row.command.as_str()))
    }

    fn is_selected(&self, row: &Row) -> bool {
        row.command.as_str() == self.selected
    }

    /// The address of what the panel shows.
    fn panel_again(&self) -> String {
        match self.selected.as_str() {
            "" => self.run.href.clone(),
            command => format!("{}?step={}", self.run.href, part(command)),
        }
    }

    /// The address of this page as it is, for what is loaded again.
    fn again(&self) -> String {
        let step = match self.selected.as_str() {
            "" => String::new(),
            command => format!("&step={}", part(command)),
        };
        // The last page of an open run grows: it is asked for by what is selected, or as the last one.
        match self.run.is_open && self.timeline.page == self.timeline.pages {
            true => format!("{}?{}", self.run.href, step.trim_start_matches('&')),
            false => format!("{}?page={}{step}", self.run.href, self.timeline.page),
        }
    }
}

impl About {
    async fn of(ask: &Ask, found: &Found) -> Result<Self, Response> {
        let (record, view) = (&found.record, &found.view);
        let base = &ask.visit.base;
        let linked = |id: &str| (id.to_owned(), run_path(base, id));
        let filter = RunFilter::new().parent(record.id.clone()).limit(20);
        let children = ask.shared.engine().runs(filter).await.map_err(|error| ask.store(&error))?;
        let end = if record.status.is_terminal() { record.updated_at } else { ask.now };
        let origin = origin(ask.shared.engine(), &record.id).await.map_err(|error| ask.store(&error))?;
        Ok(Self {
            id: record.id.to_string(),
            href: run_path(base, record.id.as_str()),
            workflow: record.workflow.clone(),
            version: record.version,
            state: state(record),
            is_open: !record.status.is_terminal(),
            labels: record.labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            started: ask.when(record.created_at),
            took: length(between(record.created_at, end)),
            events: count(record.next),
            position: record.next,
            generation: view.generation,
            parent: record.parent.as_ref().map(|parent| linked(parent.as_str())),
            origin: origin.map(|origin| linked(origin.as_str())),
            children: children
                .iter()
                .map(|child| (child.id.to_string(), run_path(base, child.id.as_str()), state(child)))
                .collect(),
            why: why(ask, &found.hold),
            is_urgent: found.hold.needs_operator(),
            warning: view.history.warning(),
            ending: view.ending.as_ref().map(|ending| ending.reason.clone()),
        })
    }
}

impl Overview {
    fn of(view: &RunView, audits: bool) -> Self {
        let budget = |used: &aether_core::journal::BudgetUse| {
            let spent = format!("{} calls, {} tokens", count(used.spent.calls), count(used.spent.tokens));
            // What was set is for auditors.
            let limit = used.budget.as_ref().filter(|_| audits).map(|budget| format!(" of {budget}"));
            let limit = limit.unwrap_or_default();
            (used.scope.clone(), format!("{spent}{limit}"))
        };
        let budgets = view.budgets();
        let budgets = budgets.iter().filter(|used| used.budget.is_some()).map(budget).collect();
        let uncompensated = view.uncompensated.iter().map(ToString::to_string).collect();
        let (input, result, error) = if audits {
            let shown = |payload| Some(Shown::payload(payload));
            match &view.result {
                Some(Ok(value)) => (view.input.as_ref().and_then(shown), shown(value), None),
                Some(Err(error)) => (view.input.as_ref().and_then(shown), None, shown(error)),
                None => (view.input.as_ref().and_then(shown), None, None),
            }
        } else {
            let people = view.summary_for_people();
            let shown = |value: &Option<serde_json::Value>| value.as_ref().map(Shown::value);
            (shown(&people.input), shown(&people.result), people.error.as_deref().map(Shown::text))
        };
        Self { input, result, error, uncompensated, budgets }
    }
}
