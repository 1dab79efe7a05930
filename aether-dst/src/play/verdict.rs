//! The verdict on a schedule that is over: over the store's content alone, with the model's help.
//!
//! Promise: knows no scenario. Every run has ended; every acknowledged message was consumed once and in order, or is still
//! there; every result is one that the model allows.

use std::collections::{BTreeMap, BTreeSet};

use aether_core::contract::Status;
use aether_core::journal::event::Event;
use aether_core::store::memory::MemoryStore;
use aether_core::store::{RunFilter, RunRecord, Store as _, read};

use crate::judge::{self, violated};
use crate::model::{self, RunFacts};
use crate::program::Got;
use crate::sim::{self, task::quiet};
use crate::store::now;
use crate::story::{Deed, Op, Story};
use crate::world::micros;

fn runs(memory: &MemoryStore) -> Vec<RunRecord> {
    quiet(|| now(memory.runs(RunFilter::default()))).unwrap_or_default()
}

/// Runs that have not ended.
pub fn open_runs(memory: &MemoryStore) -> Vec<RunRecord> {
    runs(memory).into_iter().filter(|run| !run.status.is_terminal()).collect()
}

/// Judges what a story has left behind.
pub fn judge(memory: &MemoryStore, story: &Story) {
    quiet(|| {
        let programs: BTreeMap<String, &[Op]> = story.programs().into_iter().collect();
        let mut ended = BTreeMap::new();
        for record in runs(memory) {
            let events = events(memory, &record);
            match record.status.is_terminal() {
                true => drop(ended.insert(record.id.to_string(), result(&events))),
                false => stuck(memory, story, &record),
            }
            messages(memory, &record, &events, programs.get(record.id.as_str()).copied().unwrap_or_default());
            unexpected_end(story, &record, &events);
            if let Some(limit) = longest_wait(story) {
                late(memory, &record, limit);
            }
        }
        for (run, got) in &ended {
            let Some(got) = got else { continue };
            let facts = judge::with(|facts| RunFacts {
                signals: facts.signals.get(run).cloned().unwrap_or_default(),
                values: facts.values.get(run).cloned().unwrap_or_default(),
                children: ended.clone(),
                may_doubt: false,
            });
            let facts = RunFacts { may_doubt: judge::may_lose_runs(), ..facts };
            let Some(program) = programs.get(run) else { continue };
            if let Err((rule, what)) = model::check(program, got, &facts) {
                let trouble = judge::with(|facts| facts.trouble);
                let rule = match (rule, trouble) {
                    ("in-doubt", Some(trouble)) => format!("in-doubt-{trouble}"),
                    ("in-doubt", None) => "in-doubt-without-crash".into(),
                    (rule, _) => rule.into(),
                };
                violated(rule, format!("{run}: {what}"));
            }
        }
    });
}

fn events(memory: &MemoryStore, record: &RunRecord) -> Vec<Event> {
    let frames = now(memory.load(&record.id, 0)).unwrap_or_default();
    match now(Box::pin(read::events(memory, &record.id, &frames))) {
        Ok(events) => events,
        Err(error) => {
            violated("unreadable", format!("{}: {error}", record.id));
            Vec::new()
        }
    }
}

/// What a run that has completed returned.
fn result(events: &[Event]) -> Option<Vec<Got>> {
    match events.last()? {
        Event::RunCompleted(completed) => completed.result.decode().ok(),
        _ => None,
    }
}

fn stuck(memory: &MemoryStore, story: &Story, record: &RunRecord) {
    let unread = now(memory.inbox(&record.id, 0)).unwrap_or_default();
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
fn messages(memory: &MemoryStore, record: &RunRecord, events: &[Event], program: &[Op]) {
    let run = record.id.to_string();
    let sent = judge::with(|facts| facts.signals.get(&run).cloned().unwrap_or_default());
    let received = events.iter().filter_map(|event| match event {
        Event::SignalReceived(e) => number(&e.id),
        _ => None,
    });
    let received: Vec<u64> = received.collect();
    let unread = now(memory.inbox(&record.id, 0)).unwrap_or_default();
    let unread: BTreeSet<u64> = unread.iter().filter_map(|message| number(&message.id)).collect();
    for (name, signal) in &sent {
        let times = received.iter().filter(|known| *known == signal).count();
        match (times, unread.contains(signal)) {
            (1, false) | (0, true) => {}
            (0, false) => violated("lost", format!("signal {signal} (s{name}) to {run}")),
            (times, unread) => {
                violated(
                    "consumed-twice",
                    format!("signal {signal} to {run}: {times} times, unread {unread}"),
                );
            }
        }
    }
    for name in [0, 1] {
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
fn late(memory: &MemoryStore, record: &RunRecord, limit: u64) {
    let mut waits = BTreeMap::new();
    for frame in now(memory.load(&record.id, 0)).unwrap_or_default() {
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

/// A program never fails, and is cancelled only by somebody, or with its parent.
fn unexpected_end(story: &Story, record: &RunRecord, events: &[Event]) {
    let run = record.id.as_str();
    let is_expected = match record.status {
        Status::Failed => story.any(|op| matches!(op, Op::Hold(true))),
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
