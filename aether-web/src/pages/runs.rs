//! The list of runs: which are shown stands in the address, and why each of them does not move beside it.

use aether_core::contract::Status;
use aether_core::engine::Hold;
use aether_core::store::{Cursor, RunFilter, RunRecord};
use aether_core::view::pending::Waiting;
use askama::Template;
use axum::response::Response;

use crate::access::visit::{home, part, place};
use crate::pages::shell::{Answer, Ask, Shell, html};
use crate::text::json::{line, mark};
use crate::text::time::{When, count};

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
    /// What stands in the address and says nothing that is known.
    misfits: Vec<String>,
}

/// The runs themselves.
#[derive(Debug, Default, Template)]
#[template(path = "runs_list.html")]
pub(crate) struct List {
    home: String,
    rows: Vec<Row>,
    /// Where the next page is.
    next: Option<String>,
    is_first: bool,
    first: String,
    is_filtered: bool,
    /// What was asked for and is not understood: then nothing is listed.
    misfits: Vec<String>,
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
    /// The time of which the rest speaks at its end.
    pub(crate) at: Option<When>,
}

impl Why {
    fn new(first: &'static str, rest: impl Into<String>) -> Self {
        Self { first, rest: rest.into(), at: None }
    }

    fn at(self, at: Option<When>) -> Self {
        Self { at, ..self }
    }
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
        href: place(&ask.visit.base, &format!("/{}", filter.with_status(status))),
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
    let (found, next, looked_at) = match filter.misfits.is_empty() {
        true => filter.find(ask).await.map_err(|error| ask.store(&error))?,
        false => (Vec::new(), None, None),
    };
    let rows = found.iter().map(|(run, hold)| Row::of(ask, run, hold)).collect();
    let at = |after| place(&ask.visit.base, &format!("/{}", filter.query(after)));
    Ok(List {
        home: home(&ask.visit.base),
        rows,
        next: next.map(|next| at(Some(next))),
        is_first: filter.after.is_none(),
        first: at(None),
        is_filtered: filter.is_set(),
        misfits: filter.misfits,
        looked_at,
    })
}

impl List {
    /// How many runs were looked at in vain, where there are more.
    fn none_among(&self) -> Option<usize> {
        self.looked_at.filter(|_| self.rows.is_empty() && self.next.is_some())
    }

    /// What changes when something on the page does, other than how long ago it was.
    pub(crate) fn fingerprint(&self) -> String {
        let rows = self.rows.iter().flat_map(|row| {
            let at = row.why.at.as_ref().map_or("", |at| &*at.machine);
            [&*row.id, row.state, row.why.first, &row.why.rest, at, &row.events]
        });
        mark(rows.chain(self.next.as_deref()))
    }
}

impl Filter {
    fn of(ask: &Ask) -> Self {
        let text = |name: &str| ask.get(name).map(|text| text.trim().to_owned()).unwrap_or_default();
        let filter = Self {
            status: text("status"),
            workflow: text("workflow"),
            version: text("version"),
            label: text("label"),
            q: text("q"),
            why: text("why"),
            after: ask.get("after").and_then(|after| after.parse().ok()),
            misfits: Vec::new(),
        };
        let misfits = filter.misfits(ask.get("after"));
        Self { misfits, ..filter }
    }

    /// What of the address is not understood. A filter that is left out would show what nobody asked for.
    fn misfits(&self, after: Option<&str>) -> Vec<String> {
        let is_status =
            self.status == "open" || Status::ALL.into_iter().any(|status| status.as_str() == self.status);
        let texts = [
            ("status", &*self.status, is_status),
            ("version", &self.version, self.version.parse::<u32>().is_ok()),
            ("label", &self.label, self.label.split_once('=').is_some_and(|(key, _)| !key.trim().is_empty())),
            ("why", &self.why, REASONS.iter().any(|(known, _)| *known == self.why)),
            ("after", after.unwrap_or_default(), self.after.is_some()),
        ];
        let misfits = texts.iter().filter(|(_, text, fits)| !text.is_empty() && !fits);
        misfits.map(|(name, text, _)| format!("{name}={}", line(text, 60))).collect()
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
    let at = |at| Some(ask.when(at));
    // Errors as they were recorded are for auditors.
    let told = |error: &str| match ask.visit.audits() {
        true => format!(": {}", line(error, 120)),
        false => String::new(),
    };
    match hold {
        Hold::Ended { .. } => Why::default(),
        Hold::Parked { why, .. } => Why::new("Needs other code: ", line(why, 160)),
        Hold::InDoubt { step, since } => {
            Why::new("Unknown outcome: ", format!("{} since", step.name())).at(at(*since))
        }
        Hold::Waiting { on } => waiting(ask, on),
        Hold::Retrying { step, attempt, error, next } => {
            let due = if next.is_some() { ", next" } else { "" };
            Why::new("", format!("Retrying {} (attempt {}){}{due}", step.name(), attempt, told(error)))
                .at(next.and_then(at))
        }
        // For how long changes with every look, and is no news.
        Hold::SilentWorker { worker, .. } => {
            Why::new("Worker is silent: ", format!("{worker}; another one takes over soon"))
        }
        Hold::Running { .. } => Why::new("", "Running"),
        Hold::Queued { place, ahead, limit, .. } => {
            let limit = limit.as_ref().map(|limit| format!(", kept back by {limit}")).unwrap_or_default();
            Why::new("", format!("Queued in {place}, {ahead} ahead{limit}"))
        }
        Hold::Due { since } => Why::new("", "Due since").at(at(*since)),
        Hold::NoCode { .. } => {
            Why::new("No worker has its code: ", "start a program that links this workflow")
        }
        Hold::NotServed { .. } => Why::new("No worker serves its queue", ""),
        Hold::NoWorker { .. } => Why::new("No worker is there: ", "start a program with this store"),
        Hold::NotYet { at: due } => Why::new("", "Due").at(at(*due)),
        Hold::StoreRefuses { error, .. } => Why::new("The store refuses to write", told(error)),
        other => Why::new("", other.to_string()),
    }
}

fn waiting(ask: &Ask, on: &[aether_core::engine::OpenWaitOf]) -> Why {
    let Some(wait) = on.first() else { return Why::new("", "Waits for a message") };
    let name = line(&wait.name, 90);
    let until = wait.until.map(|until| ask.when(until));
    let more = match on.len() {
        1 => String::new(),
        all => format!(" and {} more", all - 1),
    };
    match wait.waiting {
        Waiting::Approval => Why::new("Approval: ", format!("{name}{more}")),
        Waiting::Question => Why::new("Question: ", format!("{name}{more}")),
        Waiting::Confirmation => Why::new("A resource changed: ", format!("{name}{more}")),
        Waiting::Signal => Why::new("", format!("Waits for the signal {name}{more}")),
        Waiting::Callback => Why::new("", format!("Waits for a report on {name}{more}")),
        Waiting::Timer => Why::new("", format!("Sleeps{more}, wakes")).at(until),
        Waiting::Child => Why::new("", format!("Waits for the run {name}{more}")),
        Waiting::Retry => Why::new("", format!("Retrying {name}{more}, next")).at(until),
        Waiting::Limit => Why::new("", format!("Waits for the limit {name}{more}")).at(until),
        other => Why::new("", format!("Waits for {other}: {name}{more}")),
    }
}
