//! Everything that waits for somebody: approvals, questions, unknown outcomes, changed resources, and parked runs.

use std::collections::BTreeMap;

use aether_core::engine::ParkedRun;
use aether_core::store::{RunFilter, WaitFilter, WaitPlace};
use aether_core::view::pending::{Pending, Waiting};
use askama::Template;
use axum::response::{IntoResponse, Response};

use crate::access::visit::place;
use crate::pages::cards::Card;
use crate::pages::runs::run_path;
use crate::pages::shell::{Answer, Ask, DECISIONS, Shell, html};
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
    /// Where all parked runs are, where these are not all.
    all_parked: Option<String>,
    next: Option<WaitPlace>,
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

const KINDS: [(&str, &str); 6] = [
    ("", "All"),
    ("approval", "Approvals"),
    ("question", "Questions"),
    ("unknown", "Unknown outcomes"),
    ("changed", "Changed resources"),
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

/// How many decisions wait.
pub(crate) async fn badge(ask: Ask) -> Answer {
    let open = ask.open_decisions().await.map_err(|error| ask.store(&error))?;
    Ok(open.into_response())
}

pub(crate) async fn list(ask: &Ask) -> Result<List, Response> {
    look(ask).await?.list(ask).await
}

/// What the inbox holds, before its cards are made: they need whole journals, and this does not.
pub(crate) struct Look {
    waits: Vec<Pending>,
    next: Option<WaitPlace>,
    parked: Vec<ParkedRun>,
    more_parked: bool,
    fingerprint: String,
}

/// Looks into the inbox.
pub(crate) async fn look(ask: &Ask) -> Result<Look, Response> {
    let (engine, fault) = (ask.shared.engine(), |error| ask.store(&error));
    let kind = ask.get("kind").unwrap_or_default();
    let after = ask.get("after").and_then(|after| after.parse().ok()).map(WaitPlace::new);
    let (mut waits, mut next) = (Vec::new(), None);
    if let Some(mut filter) = filter(kind) {
        (filter.after, filter.limit) = (after, PAGE);
        let page = engine.all_pending(filter).await.map_err(fault)?;
        (waits, next) = (page.waits, page.next);
    }
    let (mut parked, mut more_parked) = (Vec::new(), false);
    if matches!(kind, "" | "parked") && after.is_none() {
        let found = engine.parked(RunFilter::new().limit(PARKED + 1)).await.map_err(fault)?;
        more_parked = found.runs.len() > PARKED;
        parked = found.runs;
        parked.truncate(PARKED);
    }
    // A reply that nobody has taken yet changes a card, too.
    let mut unread = BTreeMap::new();
    for wait in &waits {
        if !unread.contains_key(&wait.run) {
            let own = engine.store().unread(&wait.run).await.map_err(fault)?;
            unread.insert(wait.run.clone(), own.messages);
        }
    }
    let of_waits = waits.iter().map(|wait| {
        let unread = unread.get(&wait.run).copied().unwrap_or_default();
        format!("{} {} {} {unread}", wait.shown(), wait.refused.len(), wait.parked)
    });
    let of_parked = parked.iter().map(|run| format!("{} {} {}", run.run, run.since, run.unread));
    let more = [format!("{next:?} {more_parked}")];
    let fingerprint = mark(of_waits.chain(of_parked).chain(more));
    Ok(Look { waits, next, parked, more_parked, fingerprint })
}

/// The waits of a kind; `None` where it is none of waits.
fn filter(kind: &str) -> Option<WaitFilter> {
    let of = |kinds: &[Waiting]| Some(kinds.iter().copied().fold(WaitFilter::default(), WaitFilter::kind));
    match kind {
        "approval" => of(&[Waiting::Approval]),
        "question" => of(&[Waiting::Question]),
        "unknown" => of(&[Waiting::Resolution]),
        "parked" => None,
        "changed" => of(&[Waiting::Confirmation]),
        _ => of(&DECISIONS),
    }
}

impl Look {
    pub(crate) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The list, with its cards.
    pub(crate) async fn list(self, ask: &Ask) -> Result<List, Response> {
        let mut cards = Vec::new();
        for wait in &self.waits {
            cards.extend(Card::of(ask, wait, false).await);
        }
        let parked = self.parked.into_iter().map(|run| Parked {
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
        Ok(List {
            base: ask.visit.base.clone(),
            kind: ask.get("kind").unwrap_or_default().to_owned(),
            cards,
            parked: parked.collect(),
            all_parked: self.more_parked.then(|| place(&ask.visit.base, "/?why=parked")),
            next: self.next,
        })
    }
}
