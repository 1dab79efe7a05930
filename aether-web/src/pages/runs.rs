//! The list of runs: which are shown stands in the address, and why each of them does not move beside it.

use aether_core::contract::Status;
use aether_core::engine::Hold;
use aether_core::store::{Cursor, RunFilter, RunRecord};
use aether_core::view::pending::Waiting;
use askama::Template;
use axum::response::Response;

use crate::access::visit::part;
use crate::pages::shell::{Answer, Ask, Shell, html};
use crate::text::json::{line, mark};
use crate::text::time::{When, count, duration};

/// Runs of a page.
const PAGE: usize = 50;
/// How many runs are looked at for a page of those that do not move for one reason.
const LOOKED_AT: usize = 1_000;

/// The page.
#[derive(Debug, Template)]
#[template(path = "runs.html")]
struct Page {
    shell: Shell,
    filter: Filter,
    tabs: Vec<Tab>,
    workflows: Vec<String>,
    list: List,
    live: String,
}

/// A choice of statuses.
#[derive(Debug)]
struct Tab {
    name: &'static str,
    href: String,
    is_current: bool,
}

/// What is filtered by, as it stands in the address.
#[derive(Clone, Debug, Default)]
struct Filter {
    status: String,
    workflow: String,
    version: String,
    label: String,
    q: String,
    why: String,
    after: Option<Cursor>,
}

/// The runs themselves.
#[derive(Debug, Default, Template)]
#[template(path = "runs_list.html")]
pub(crate) struct List {
    base: String,
    rows: Vec<Row>,
    /// Where the next page begins.
    next: Option<String>,
    is_first: bool,
    first: String,
    is_filtered: bool,
    /// How many were looked at, where not all runs were.
    looked_at: Option<usize>,
}

#[derive(Debug)]
struct Row {
    href: String,
    id: String,
    workflow: String,
    version: u32,
    state: &'static str,
    labels: Vec<(String, String)>,
    queue: Option<String>,
    why: Why,
    updated: When,
    events: String,
}

/// Why a run does not move, in a line for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Why {
    /// What somebody must do; empty where nobody must.
    pub(crate) first: &'static str,
    pub(crate) rest: String,
}

/// The reasons that can be filtered by.
const REASONS: [(&str, &str); 12] = [
    ("people", "a person decides"),
    ("doubt", "unknown outcome"),
    ("parked", "parked"),
    ("retry", "retrying"),
    ("signal", "a message"),
    ("timer", "a time"),
    ("child", "another run"),
    ("limit", "a limit"),
    ("queue", "its turn in a queue"),
    ("worker", "no worker takes it"),
    ("silent", "its worker is silent"),
    ("none", "it moves"),
];

pub(crate) async fn page(ask: Ask) -> Answer {
    let filter = Filter::of(&ask);
    let list = list(&ask).await?;
    let shell = ask.shell("runs", "Runs").await?;
    let tabs = [
        ("", "All"),
        ("open", "Open"),
        ("waiting", "Waiting"),
        ("failed", "Failed"),
        ("completed", "Completed"),
    ];
    let tabs = tabs.map(|(status, name)| Tab {
        name,
        href: filter.with_status(status),
        is_current: filter.status == status,
    });
    let mut workflows = ask.shared.engine().workflows();
    workflows.dedup();
    let live = filter.query(filter.after);
    html(&Page { shell, tabs: tabs.into(), workflows, list, live, filter })
}

/// The runs that the query asks for.
pub(crate) async fn list(ask: &Ask) -> Result<List, Response> {
    let filter = Filter::of(ask);
    let (found, next, looked_at) = filter.find(ask).await.map_err(|error| ask.store(&error))?;
    let rows = found.iter().map(|(run, hold)| Row::of(ask, run, hold)).collect();
    Ok(List {
        base: ask.visit.base.clone(),
        rows,
        next: next.map(|next| filter.query(Some(next))),
        is_first: filter.after.is_none(),
        first: filter.query(None),
        is_filtered: filter.is_set(),
        looked_at,
    })
}

impl List {
    /// What changes when something on the page does, other than how long ago it was.
    pub(crate) fn fingerprint(&self) -> String {
        mark(
            self.rows.iter().flat_map(|row| [&*row.id, row.state, row.why.first, &row.why.rest, &row.events]),
        )
    }
}

impl Filter {
    fn of(ask: &Ask) -> Self {
        let text = |name: &str| ask.get(name).map(|text| text.trim().to_owned()).unwrap_or_default();
        Self {
            status: text("status"),
            workflow: text("workflow"),
            version: text("version"),
            label: text("label"),
            q: text("q"),
            why: text("why"),
            after: ask.get("after").and_then(|after| after.parse().ok()),
        }
    }

    fn reasons(&self) -> &'static [(&'static str, &'static str)] {
        &REASONS
    }

    fn is_set(&self) -> bool {
        ![&self.status, &self.workflow, &self.version, &self.label, &self.q, &self.why]
            .iter()
            .all(|text| text.is_empty())
    }

    /// Whether anything but the statuses is filtered by.
    fn is_narrowed(&self) -> bool {
        Self { status: String::new(), ..self.clone() }.is_set()
    }

    fn with_status(&self, status: &str) -> String {
        Self { status: status.to_owned(), ..self.clone() }.query(None)
    }

    /// As it stands in an address, with its question mark.
    fn query(&self, after: Option<Cursor>) -> String {
        let pairs = [
            ("status", &self.status),
            ("workflow", &self.workflow),
            ("version", &self.version),
            ("label", &self.label),
            ("q", &self.q),
            ("why", &self.why),
        ];
        let after = after.map(|after| format!("after={after}"));
        let set = pairs.iter().filter(|(_, value)| !value.is_empty());
        let all: Vec<_> = set.map(|(name, value)| format!("{name}={}", part(value))).chain(after).collect();
        if all.is_empty() { String::new() } else { format!("?{}", all.join("&")) }
    }

    fn of_store(&self) -> RunFilter {
        let mut filter = RunFilter::new();
        filter = match self.status.as_str() {
            "open" => filter.open(),
            name => match Status::ALL.into_iter().find(|status| status.as_str() == name) {
                Some(status) => filter.status(status),
                None => filter,
            },
        };
        if !self.workflow.is_empty() {
            filter = filter.workflow(&self.workflow);
        }
        if let Ok(version) = self.version.parse() {
            filter = filter.version(version);
        }
        if let Some((key, value)) = self.label.split_once('=') {
            filter = filter.label(key.trim(), value.trim());
        }
        if !self.q.is_empty() {
            filter = filter.id_contains(&self.q);
        }
        match self.why.as_str() {
            "" => {}
            "parked" => filter = filter.parked(true),
            _ if self.status.is_empty() => filter = filter.open(),
            _ => {}
        }
        filter.after = self.after;
        filter
    }

    /// A page of runs, where the next one begins, and how many were looked at where not all were.
    async fn find(&self, ask: &Ask) -> Result<Found, aether_core::store::StoreError> {
        let engine = ask.shared.engine();
        let mut filter = self.of_store();
        if self.why.is_empty() || self.why == "parked" {
            let mut found = engine.holds(filter.limit(PAGE + 1)).await?;
            let more = found.len() > PAGE;
            found.truncate(PAGE);
            let next = found.last().filter(|_| more).map(|(run, _)| run.place);
            return Ok((found, next, None));
        }
        let (mut found, mut looked_at) = (Vec::new(), 0);
        loop {
            let page = engine.holds(filter.clone().limit(PAGE * 2)).await?;
            let Some((last, _)) = page.last() else { return Ok((found, None, Some(looked_at))) };
            let next = last.place;
            looked_at += page.len();
            found.extend(page.into_iter().filter(|(_, hold)| is(&self.why, hold)));
            if found.len() >= PAGE || looked_at >= LOOKED_AT {
                return Ok((found, Some(next), Some(looked_at)));
            }
            filter.after = Some(next);
        }
    }
}

type Found = (Vec<(RunRecord, Hold)>, Option<Cursor>, Option<usize>);

/// Whether a run does not move for this reason.
fn is(reason: &str, hold: &Hold) -> bool {
    let waits_for = |kinds: &[Waiting]| match hold {
        Hold::Waiting { on } => on.iter().any(|wait| kinds.contains(&wait.waiting)),
        _ => false,
    };
    match reason {
        "people" => waits_for(&[Waiting::Approval, Waiting::Question, Waiting::Confirmation]),
        "doubt" => matches!(hold, Hold::InDoubt { .. }),
        "retry" => matches!(hold, Hold::Retrying { .. }) || waits_for(&[Waiting::Retry]),
        "signal" => {
            waits_for(&[Waiting::Signal, Waiting::Callback])
                || matches!(hold, Hold::Waiting { on } if on.is_empty())
        }
        "timer" => waits_for(&[Waiting::Timer]) || matches!(hold, Hold::NotYet { .. }),
        "child" => waits_for(&[Waiting::Child]),
        "limit" => waits_for(&[Waiting::Limit]),
        "queue" => matches!(hold, Hold::Queued { .. }),
        "worker" => matches!(
            hold,
            Hold::NoCode { .. } | Hold::NotServed { .. } | Hold::NoWorker { .. } | Hold::Due { .. }
        ),
        "silent" => matches!(hold, Hold::SilentWorker { .. } | Hold::StoreRefuses { .. }),
        "none" => matches!(hold, Hold::Running { .. }),
        _ => false,
    }
}

impl Row {
    fn of(ask: &Ask, run: &RunRecord, hold: &Hold) -> Self {
        Self {
            href: run_path(&ask.visit.base, run.id.as_str()),
            id: run.id.to_string(),
            workflow: run.workflow.clone(),
            version: run.version,
            state: state(run),
            labels: run.labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            queue: run.terms.queue.as_ref().map(ToString::to_string),
            why: why(ask, hold),
            updated: ask.when(run.updated_at),
            events: count(run.next),
        }
    }
}

/// Where the page of a run is.
pub(crate) fn run_path(base: &str, id: &str) -> String {
    format!("{base}/runs/{}", part(id))
}

/// The status of a run, or that it is parked.
pub(crate) fn state(run: &RunRecord) -> &'static str {
    if run.parked { "parked" } else { run.status.as_str() }
}

/// Why a run does not move, in a line for people.
pub(crate) fn why(ask: &Ask, hold: &Hold) -> Why {
    let since = |at| ask.when(at).relative;
    let (first, rest) = match hold {
        Hold::Ended { .. } => ("", String::new()),
        Hold::Parked { why, .. } => ("Needs other code: ", line(why, 160)),
        Hold::InDoubt { step, since: at } => {
            ("Unknown outcome: ", format!("{} since {}", step.name(), since(*at)))
        }
        Hold::Waiting { on } => waiting(ask, on),
        Hold::Retrying { step, attempt, error, next } => {
            let next = next.map(|next| format!(", next {}", since(next))).unwrap_or_default();
            ("", format!("Retrying {} (attempt {}{next}): {}", step.name(), attempt + 1, line(error, 120)))
        }
        Hold::SilentWorker { worker, silent, takeover_in } => (
            "Worker is silent: ",
            format!("{worker} for {}, taken over in {}", duration(*silent), duration(*takeover_in)),
        ),
        Hold::Running { .. } => ("", "Running".to_owned()),
        Hold::Queued { place, ahead, limit, .. } => {
            let limit = limit.as_ref().map(|limit| format!(", kept back by {limit}")).unwrap_or_default();
            ("", format!("Queued in {place}, {ahead} ahead{limit}"))
        }
        Hold::Due { since: at } => ("", format!("Due since {}", since(*at))),
        Hold::NoCode { .. } => {
            ("No worker has its code: ", "start a program that links this workflow".to_owned())
        }
        Hold::NotServed { .. } => ("No worker serves its queue", String::new()),
        Hold::NoWorker { .. } => ("No worker is there: ", "start a program with this store".to_owned()),
        Hold::NotYet { at } => ("", format!("Due {}", since(*at))),
        Hold::StoreRefuses { error, .. } => ("The store refuses to write: ", line(error, 120)),
        other => ("", other.to_string()),
    };
    Why { first, rest }
}

fn waiting(ask: &Ask, on: &[aether_core::engine::OpenWaitOf]) -> (&'static str, String) {
    let Some(wait) = on.first() else { return ("", "Waits for a message".to_owned()) };
    let name = line(&wait.name, 90);
    let until = wait.until.map(|until| format!(", {}", ask.when(until).relative)).unwrap_or_default();
    let more = match on.len() {
        1 => String::new(),
        all => format!(" and {} more", all - 1),
    };
    match wait.waiting {
        Waiting::Approval => ("Approval: ", format!("{name}{more}")),
        Waiting::Question => ("Question: ", format!("{name}{more}")),
        Waiting::Confirmation => ("A resource changed: ", format!("{name}{more}")),
        Waiting::Signal => ("", format!("Waits for the signal {name}{more}")),
        Waiting::Callback => ("", format!("Waits for a report on {name}{more}")),
        Waiting::Timer => ("", format!("Sleeps{until}{more}")),
        Waiting::Child => ("", format!("Waits for the run {name}{more}")),
        Waiting::Retry => ("", format!("Retrying {name}{until}{more}")),
        Waiting::Limit => ("", format!("Waits for the limit {name}{until}{more}")),
        other => ("", format!("Waits for {other}: {name}{more}")),
    }
}
