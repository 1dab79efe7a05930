//! Everything that waits for somebody: approvals, questions, unknown outcomes, changed resources, and parked runs.

use aether_core::store::{RunFilter, WaitFilter, WaitPlace};
use aether_core::view::pending::Waiting;
use askama::Template;

use crate::pages::cards::Card;
use crate::pages::runs::run_path;
use crate::pages::shell::{Answer, Ask, Shell, html};
use crate::text::json::mark;
use crate::text::time::When;

/// Decisions of a page.
const PAGE: usize = 20;
/// Parked runs that are listed.
const PARKED: usize = 50;

#[derive(Debug, Template)]
#[template(path = "inbox.html")]
struct Page {
    shell: Shell,
    kinds: Vec<Kind>,
    list: List,
    live: String,
}

#[derive(Debug)]
struct Kind {
    name: &'static str,
    key: &'static str,
    is_current: bool,
}

/// What waits.
#[derive(Debug, Template)]
#[template(path = "inbox_list.html")]
pub(crate) struct List {
    base: String,
    kind: String,
    cards: Vec<Card>,
    parked: Vec<Parked>,
    next: Option<WaitPlace>,
    fingerprint: String,
}

#[derive(Debug)]
struct Parked {
    href: String,
    run: String,
    workflow: String,
    why: String,
    needs: String,
    recorded: Option<String>,
    requested: Option<String>,
    unread: usize,
    since: When,
}

const KINDS: [(&str, &str); 5] = [
    ("", "All"),
    ("approval", "Approvals"),
    ("question", "Questions"),
    ("unknown", "Unknown outcomes"),
    ("parked", "Parked"),
];

pub(crate) async fn page(ask: Ask) -> Answer {
    let list = list(&ask).await?;
    let current = ask.get("kind").unwrap_or_default().to_owned();
    let kinds = KINDS.map(|(key, name)| Kind { name, key, is_current: key == current });
    let live = if current.is_empty() {
        String::new()
    } else {
        format!("?kind={}", crate::access::visit::part(&current))
    };
    html(&Page { shell: ask.shell("inbox", "Inbox").await?, kinds: kinds.into(), list, live })
}

pub(crate) async fn list(ask: &Ask) -> Result<List, axum::response::Response> {
    let kind = ask.get("kind").unwrap_or_default();
    let after = ask.get("after").and_then(|after| after.parse().ok()).map(WaitPlace::new);
    let mut cards = Vec::new();
    let mut next = None;
    let mut marks = Vec::new();
    let filter = match kind {
        "approval" => Some(WaitFilter::default().kind(Waiting::Approval)),
        "question" => Some(WaitFilter::default().kind(Waiting::Question)),
        "unknown" => Some(WaitFilter::default().kind(Waiting::Resolution).kind(Waiting::Confirmation)),
        "parked" => None,
        _ => Some(
            [Waiting::Approval, Waiting::Question, Waiting::Resolution, Waiting::Confirmation]
                .into_iter()
                .fold(WaitFilter::default(), WaitFilter::kind),
        ),
    };
    if let Some(mut filter) = filter {
        (filter.after, filter.limit) = (after, PAGE);
        let page = ask.shared.engine().all_pending(filter).await.map_err(|error| ask.store(&error))?;
        for wait in &page.waits {
            marks.push(format!("{} {}", wait.shown(), wait.refused.len()));
            cards.extend(Card::of(ask, wait, false).await);
        }
        next = page.next;
    }
    let mut parked = Vec::new();
    if matches!(kind, "" | "parked") && after.is_none() {
        let found = ask
            .shared
            .engine()
            .parked(RunFilter::new().limit(PARKED))
            .await
            .map_err(|error| ask.store(&error))?;
        for run in found.runs {
            marks.push(format!("{} {}", run.run, run.unread));
            parked.push(Parked {
                href: run_path(&ask.visit.base, run.run.as_str()),
                run: run.run.to_string(),
                workflow: run.workflow,
                why: run.why,
                needs: run.needs.to_string(),
                recorded: run.recorded.map(|at| at.to_string()),
                requested: run.requested.map(|at| at.to_string()),
                unread: run.unread,
                since: ask.when(run.since),
            });
        }
    }
    let fingerprint = mark(&marks);
    Ok(List { base: ask.visit.base.clone(), kind: kind.to_owned(), cards, parked, next, fingerprint })
}

impl List {
    pub(crate) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }
}
