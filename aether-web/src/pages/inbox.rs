//! Everything that waits for somebody: approvals, questions, unknown outcomes, changed resources, and parked runs.

use std::collections::BTreeMap;

use aether_core::engine::ParkedRun;
use aether_core::store::{RunFilter, WaitFilter, WaitPlace};
use aether_core::view::pending::{Pending, UnreadableWait, Waiting};
use askama::Template;
use axum::response::{IntoResponse, Response};

use crate::access::visit::{part, place};
use crate::pages::cards::Card;
use crate::pages::runs::run_path;
use crate::pages::shell::{Answer, Ask, DECISIONS, Shell, html};
use crate::text::json::{line, mark};
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
    unreadable: Vec<Unreadable>,
    parked: Vec<Parked>,
    /// What was asked for and is not understood: then nothing is listed.
    misfits: Vec<String>,
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

/// A wait that is open, and that this program cannot read.
#[derive(Debug)]
struct Unreadable {
    href: String,
    run: String,
    workflow: String,
    what: String,
    why: String,
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
    // The list that is on the page, and not another one.
    let live = query(&ask);
    html(&Page { shell: ask.shell("inbox", "Inbox").await?, kinds: kinds.into(), list, live })
}

/// What is asked for, as it stands in an address.
fn query(ask: &Ask) -> String {
    let pairs = ["kind", "after"].map(|name| (name, ask.get(name).unwrap_or_default()));
    let set = pairs.iter().filter(|(_, value)| !value.is_empty());
    let all: Vec<_> = set.map(|(name, value)| format!("{name}={}", part(value))).collect();
    if all.is_empty() { String::new() } else { format!("?{}", all.join("&")) }
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
    unreadable: Vec<UnreadableWait>,
    next: Option<WaitPlace>,
    parked: Vec<ParkedRun>,
    misfits: Vec<String>,
    more_parked: bool,
    fingerprint: String,
}

/// Looks into the inbox.
pub(crate) async fn look(ask: &Ask) -> Result<Look, Response> {
    let (engine, fault) = (ask.shared.engine(), |error| ask.store(&error));
    let kind = ask.get("kind").unwrap_or_default();
    let asked_after = ask.get("after").filter(|after| !after.is_empty());
    let after = asked_after.and_then(|after| after.parse().ok()).map(WaitPlace::new);
    let misfits = misfits(kind, asked_after.filter(|_| after.is_none()));
    let (mut waits, mut unreadable, mut next) = (Vec::new(), Vec::new(), None);
    if let Some(mut filter) = filter(kind).filter(|_| misfits.is_empty()) {
        (filter.after, filter.limit) = (after, PAGE);
        let page = engine.all_pending(filter).await.map_err(fault)?;
        (waits, unreadable, next) = (page.waits, page.unreadable, page.next);
    }
    let (mut parked, mut more_parked) = (Vec::new(), false);
    if matches!(kind, "" | "parked") && asked_after.is_none() {
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
    let of_unreadable = unreadable.iter().map(|wait| format!("{} {:?}", wait.run, wait.command));
    let more = [format!("{next:?} {more_parked}")];
    let fingerprint = mark(of_waits.chain(of_parked).chain(of_unreadable).chain(more));
    Ok(Look { waits, unreadable, next, parked, misfits, more_parked, fingerprint })
}

/// What of the address is not understood. A filter that is left out would show what nobody asked for.
fn misfits(kind: &str, after: Option<&str>) -> Vec<String> {
    let kind = Some(kind).filter(|kind| !KINDS.iter().any(|(known, _)| known == kind));
    let named = [("kind", kind), ("after", after)];
    let misfits = named.into_iter().filter_map(|(name, text)| Some(format!("{name}={}", line(text?, 60))));
    misfits.collect()
}

/// The waits of a kind; `None` where it is none of waits.
fn filter(kind: &str) -> Option<WaitFilter> {
    let of = |kinds: &[Waiting]| Some(kinds.iter().copied().fold(WaitFilter::default(), WaitFilter::kind));
    match kind {
        "approval" => of(&[Waiting::Approval]),
        "question" => of(&[Waiting::Question]),
        "unknown" => of(&[Waiting::Resolution]),
        "changed" => of(&[Waiting::Confirmation]),
        "" => of(&DECISIONS),
        _ => None,
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
        let unreadable = self.unreadable.into_iter().map(|wait| Unreadable {
            href: run_path(&ask.visit.base, wait.run.as_str()),
            run: wait.run.to_string(),
            workflow: wait.workflow,
            what: wait.waiting.map_or_else(|| "something".to_owned(), |waiting| waiting.to_string()),
            why: line(&wait.error.to_string(), 600),
        });
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
            unreadable: unreadable.collect(),
            parked: parked.collect(),
            misfits: self.misfits,
            all_parked: self.more_parked.then(|| place(&ask.visit.base, "/?why=parked")),
            next: self.next,
        })
    }
}
