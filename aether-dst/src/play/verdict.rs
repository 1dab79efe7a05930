//! The verdict on a schedule that is over: over the store's content alone, with the model's help.
//!
//! Promise: knows no scenario. Every run has ended; every acknowledged message was consumed once and in order, or is still
//! there; every result is one that the model allows.

use std::collections::{BTreeMap, BTreeSet};

use aether_core::contract::Status;
use aether_core::id::{IdempotencyKey, RunId};
use aether_core::journal::StoredFrame;
use aether_core::journal::event::Event;
use aether_core::store::ledger::{PURGED, STORE_WIDE};
use aether_core::store::{Holder, Message, RunFilter, RunRecord, Store, StoreError, holder, read};

use crate::judge::{self, violated};
use crate::model::{self, RunFacts};
use crate::play::owed;
use crate::program::{self, Got};
use crate::sim;
use crate::story::{Deed, Op, Story, contains, walk};
use crate::world::micros;

/// A run, as it was left behind.
pub(super) struct Left {
    pub(super) record: RunRecord,
    frames: Vec<StoredFrame>,
    pub(super) events: Vec<Event>,
    unread: Vec<Message>,
}

/// How many runs have not ended.
pub async fn open_runs(store: &dyn Store) -> usize {
    let runs = store.runs(RunFilter::default()).await;
    runs.map_or(1, |runs| runs.iter().filter(|run| !run.status.is_terminal()).count())
}

async fn left(store: &dyn Store) -> Result<Vec<Left>, StoreError> {
    let mut left = Vec::new();
    for record in store.runs(RunFilter::default()).await? {
        let frames = store.load(&record.id, 0).await?;
        let events = read::events(store, &record.id, &frames).await?;
        let unread = store.inbox(&record.id, 0).await?;
        left.push(Left { record, frames, events, unread });
    }
    Ok(left)
}

/// Judges what a story has left behind.
pub async fn judge(store: &dyn Store, story: &Story) {
    let left = match left(store).await {
        Ok(left) => left,
        Err(error) => return violated("unreadable", error.to_string()),
    };
    let programs: BTreeMap<String, &[Op]> = story.programs().into_iter().collect();
    let mut ended = BTreeMap::new();
    keys(store, story).await;
    for run in &left {
        match run.record.status.is_terminal() {
            true => drop(ended.insert(run.record.id.to_string(), result(&run.events))),
            false => stuck(story, run),
        }
        let program = programs.get(run.record.id.as_str()).copied().unwrap_or_default();
        messages(story, run, program);
        unexpected_end(story, program, &run.record, &run.events);
        if story.undoes() && run.record.status.is_terminal() {
            owed::judge(run, program);
        }
        if let Some(limit) = longest_wait(story) {
            late(run, limit);
        }
    }
    for (run, got) in &ended {
        if let (Some(got), Some(program)) = (got, programs.get(run)) {
            check(story, run, program, got, &ended);
        }
    }
}

/// Whether the model allows a result.
fn check(story: &Story, run: &str, program: &[Op], got: &[Got], ended: &BTreeMap<String, Option<Vec<Got>>>) {
    let may_doubt = judge::may_lose_runs();
    let facts = judge::with(|facts| RunFacts {
        signals: facts.signals.get(run).cloned().unwrap_or_default(),
        values: facts.values.get(run).cloned().unwrap_or_default(),
        children: ended.clone(),
        asked: asked(story),
        may_doubt,
        undoing: facts.things.undoing(),
    });
    if let Err((rule, what)) = model::check(program, got, &facts) {
        broken(rule, format!("{run}: {what}"));
    }
}

/// A rule does not hold; if something is in doubt that should not be, it matters what happened.
pub(super) fn broken(rule: &str, what: String) {
    let trouble = judge::with(|facts| facts.trouble);
    let rule = match (rule, trouble) {
        ("in-doubt", Some(trouble)) => format!("in-doubt-{trouble}"),
        ("in-doubt", None) => "in-doubt-without-crash".into(),
        (rule, _) => rule.into(),
    };
    violated(rule, what);
}

/// The keys within the store, each with every run that asks for it.
fn asked(story: &Story) -> BTreeSet<(u8, String)> {
    let mut asked = BTreeSet::new();
    for (run, program) in story.programs() {
        walk(program, &mut |op| {
            if let Op::Once(key, ..) = op {
                asked.insert((*key, run.clone()));
            }
        });
    }
    asked
}

/// A key within the store is held by the one call that may have happened, and by none where every call has failed.
async fn keys(store: &dyn Store, story: &Story) {
    let Ok(nobody) = RunId::new("nobody") else { return };
    let path = format!("{}::once", program::PATH);
    let keys: BTreeSet<u8> = asked(story).into_iter().map(|(key, _)| key).collect();
    for key in keys {
        let found = holder(store, &nobody, &format!("{STORE_WIDE}{path}:k{key}")).await;
        let happened = judge::with(|facts| facts.may_have_happened(&format!("k{key}")));
        match found {
            Err(error) => violated("unreadable", error.to_string()),
            Ok(Some(holder)) if !is_by(&holder, happened.as_ref()) && !judge::may_lose_runs() => {
                violated("key-stays-taken", format!("k{key} by {holder:?}, {happened:?} may have happened"));
            }
            Ok(None) if happened.is_some() => {
                violated("key-is-free", format!("k{key}, and {happened:?} may have happened"));
            }
            Ok(_) => {}
        }
    }
}

/// Whether the call that holds a key is this one.
fn is_by(holder: &Holder, call: Option<&IdempotencyKey>) -> bool {
    let key = holder.key.as_str();
    call.is_some_and(|call| call.as_str() == key.strip_prefix(PURGED).unwrap_or(key))
}

/// What a run that has completed returned.
fn result(events: &[Event]) -> Option<Vec<Got>> {
    match events.last()? {
        Event::RunCompleted(completed) => completed.result.decode().ok(),
        _ => None,
    }
}

fn stuck(story: &Story, Left { record, unread, .. }: &Left) {
    let rule = match (&record.owner, unread.is_empty()) {
        (Some(_), _) => "stuck-owned",
        (None, false) if story.inline < 100 => "stuck-unread-large",
        (None, false) => "stuck-unread",
        (None, true) => "stuck",
    };
    let topics: Vec<_> = unread.iter().map(|message| message.topic.clone()).collect();
    let due = record.wake_at.map(micros);
    let what = format!(
        "{} {:?} owner {:?} epoch {} due {due:?} unread {topics:?}",
        record.id, record.status, record.owner, record.epoch
    );
    violated(rule, what);
}

/// Every acknowledged signal was consumed once, and in order, or is still there.
fn messages(story: &Story, Left { record, events, unread, .. }: &Left, program: &[Op]) {
    let run = record.id.to_string();
    let sent = judge::with(|facts| facts.signals.get(&run).cloned().unwrap_or_default());
    let received = events.iter().filter_map(|event| match event {
        Event::SignalReceived(e) => number(&e.id),
        _ => None,
    });
    let received: Vec<u64> = received.collect();
    let unread: BTreeSet<u64> = unread.iter().filter_map(|message| number(&message.id)).collect();
    for (name, signal) in &sent {
        let times = received.iter().filter(|known| *known == signal).count();
        match (times, unread.contains(signal)) {
            (1, false) | (0, true) => {}
            // Perhaps in a generation before.
            (0, false) if contains(program, &|op| matches!(op, Op::Continue(_))) => {}
            (0, false) => violated("lost", format!("signal {signal} (s{name}) to {run}")),
            (times, unread) => {
                violated(
                    "consumed-twice",
                    format!("signal {signal} to {run}: {times} times, unread {unread}"),
                );
            }
        }
    }
    // On a file it is not known in which order two of them were written that were sent at the same time.
    for name in if story.file { 0..0 } else { 0..2 } {
        let order: Vec<u64> = sent.iter().filter(|(n, _)| *n == name).map(|(_, number)| *number).collect();
        let got: Vec<u64> = received.iter().copied().filter(|number| order.contains(number)).collect();
        if model::in_sequence(program, name) && !order.starts_with(&got) {
            violated("out-of-order", format!("{run} got {got:?} of s{name}, sent in the order {order:?}"));
        }
    }
}

/// How long a message may lie in the inbox of a run that waits for it, in microseconds. `None`: an engine was not there, or
/// the clock means nothing.
fn longest_wait(story: &Story) -> Option<u64> {
    let leaps = |deed: &Deed| matches!(deed, Deed::Leap(_) | Deed::Down(..) | Deed::Kill(_));
    if judge::may_lose_runs() || story.does(leaps) {
        return None;
    }
    // A claim reads the store a few times, after the engine's next look. One that failed is tried again later.
    let claim = if story.slow { 3_000_000 } else { 600_000 };
    let faults = story.deeds.iter().map(|(_, deed)| match deed {
        Deed::Fault(_, span, _) => span * 1_000 + 5_500_000,
        _ => 0,
    });
    Some(claim + faults.sum::<u64>() + sim::longest_stall())
}

/// A message is received soon after it was sent and waited for.
fn late(Left { record, frames, .. }: &Left, limit: u64) {
    let mut waits = BTreeMap::new();
    for frame in frames {
        let (at, mut received) = (micros(frame.at), None);
        for event in frame.events().unwrap_or_default() {
            match event {
                Event::WaitStarted(event) => drop(waits.insert(event.command, at)),
                Event::SignalReceived(event) => received = number(&event.id),
                Event::WaitCompleted(event) => {
                    let began = waits.get(&event.command).copied().unwrap_or(at);
                    let Some(signal) = received.take() else { continue };
                    let sent = judge::with(|facts| {
                        facts.delivered.get(&(record.id.to_string(), signal)).copied().unwrap_or(at)
                    });
                    let waited = at.saturating_sub(sent.max(began));
                    if waited > limit {
                        let run = &record.id;
                        violated("late", format!("{run} received signal {signal} after {waited} us"));
                    }
                }
                _ => {}
            }
        }
    }
}

/// The number of a signal, by its message's id.
fn number(id: &str) -> Option<u64> {
    id.rsplit(':').next()?.parse().ok()
}

/// A program fails only where it says so, and is cancelled only by somebody, or with its parent.
fn unexpected_end(story: &Story, program: &[Op], record: &RunRecord, events: &[Event]) {
    let run = record.id.as_str();
    let is_expected = match record.status {
        Status::Failed => {
            story.any(|op| matches!(op, Op::Hold(true))) || contains(program, &|op| matches!(op, Op::Fail))
        }
        Status::Cancelled => {
            record.parent.is_some() || story.does(|deed| matches!(deed, Deed::Cancel(_, of) if of == run))
        }
        _ => true,
    };
    if !is_expected {
        violated("unexpected-end", format!("{run}: {:?}", events.last()));
    }
    let seen = judge::with(|facts| facts.ends.get(run).cloned());
    if let (Some(seen), Some(Event::RunCompleted(own))) = (seen, events.last())
        && seen != own.result.as_str()
    {
        violated("two-results", format!("{run} ended as {}, a handle said {seen}", own.result.as_str()));
    }
}
