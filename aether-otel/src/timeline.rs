//! What a view of a run does not keep and spans need: claims, parking, and when calls began that record no beginning.
//!
//! Promise: a fold over the journal like the view; the same events give the same times.

use std::collections::BTreeMap;

use aether_core::id::{CommandId, Position, RunId};
use aether_core::journal::event::{Event, InvocationDecision};
use aether_core::view::EventTime;
use jiff::Timestamp;

use crate::scopes::numbered;

/// A piece of time between two events.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) began: EventTime,
    pub(crate) ended: Option<EventTime>,
    /// Of a claim: the worker, where the journal names it.
    pub(crate) worker: Option<String>,
    /// How it ended.
    pub(crate) how: &'static str,
}

impl Piece {
    fn begun(began: EventTime, worker: Option<String>) -> Self {
        Self { began, ended: None, worker, how: "" }
    }
}

/// When commands of one scope ended.
#[derive(Clone, Copy, Debug)]
struct Ends {
    /// The highest number of a command so far.
    ordinal: u32,
    /// When it last had an end.
    at: Timestamp,
    /// When the commands before it did.
    before: Timestamp,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    /// The claims of the run, as far as the journal shows them.
    pub(crate) claims: Vec<Piece>,
    /// The times in which it was parked.
    pub(crate) parked: Vec<Piece>,
    /// When attempts were due that follow a failed one, by `<command>#<attempt>`.
    dues: BTreeMap<String, Timestamp>,
    /// The newest attempt at each command that failed before.
    newest: BTreeMap<String, u32>,
    /// When attempts began, by `<command>#<attempt>`, as far as that follows from what comes before them.
    begins: BTreeMap<String, Timestamp>,
    /// Since when the run is in the hands of its worker.
    taken: Option<Timestamp>,
    ends: BTreeMap<String, Ends>,
    /// What the wait is for that began with the event at a position.
    pub(crate) waits: BTreeMap<Position, &'static str>,
    /// What was decided last about an unknown outcome.
    pub(crate) decisions: BTreeMap<String, &'static str>,
    /// The child run of a command.
    pub(crate) children: BTreeMap<String, RunId>,
    last: Option<Timestamp>,
    /// When the run is due that is suspended.
    pub(crate) due: Option<Timestamp>,
}

impl Timeline {
    pub(crate) fn apply(&mut self, now: EventTime, event: &Event) {
        match event {
            // A later generation begins when it is claimed.
            Event::RunCreated(_) if now.position == 0 => self.claim(now, None),
            Event::RunRequeued(e) => {
                self.due = None;
                let before = EventTime { at: self.last.unwrap_or(now.at), ..now };
                self.end_claim(before, "released_or_lost");
                self.claim(now, Some(e.worker.to_string()));
            }
            Event::RunWaiting(e) => {
                self.due = e.until;
                self.end_claim(now, "waiting");
            }
            Event::RunParked(_) => {
                self.end_claim(now, "parked");
                end(&mut self.parked, now, "parked");
                self.parked.push(Piece::begun(now, None));
            }
            Event::CodeAdopted(_) => end(&mut self.parked, now, "adopted"),
            Event::RunUnwinding(_) => end(&mut self.parked, now, "undone"),
            Event::StepRetried(e) => {
                self.begin(&e.command, e.attempt, now.at);
                let next = e.attempt.saturating_add(1);
                self.dues.insert(format!("{}#{next}", e.command), e.due);
                self.newest.insert(e.command.to_string(), next);
            }
            Event::NodeStarted(e) => self.begin(&e.command, 0, now.at),
            Event::CommandCommitted(e) => {
                let attempt = self.newest.get(e.command.as_str()).copied().unwrap_or(0);
                self.begin(&e.command, attempt, now.at);
            }
            Event::TimerScheduled(_) => self.waits_for(now, "timer"),
            Event::WaitStarted(_) => self.waits_for(now, "signal"),
            Event::ApprovalRequested(_) => self.waits_for(now, "question"),
            Event::CallbackAwaited(_) => self.waits_for(now, "callback"),
            Event::ChildStarted(e) => {
                self.children.insert(e.command.to_string(), e.child.clone());
            }
            Event::InvocationResolved(e) => {
                if e.decision == InvocationDecision::Ask {
                    self.waits_for(now, "resolution");
                }
                self.decisions.insert(e.command.to_string(), decision(e.decision));
            }
            event if event.is_terminal() => {
                self.end_claim(now, "ended");
                end(&mut self.parked, now, "ended");
            }
            _ => {}
        }
        if let Some(command) = event.command() {
            self.end_of(command, now.at);
        }
        self.last = Some(now.at);
    }

    /// The generation is over, and the next one begins.
    pub(crate) fn renew(&mut self, now: EventTime) {
        self.end_claim(now, "renewed");
    }

    /// Lets go of pieces of which spans were made. A claim is linked to the one before it.
    pub(crate) fn release(&mut self) {
        self.claims.drain(..self.claims.len().saturating_sub(2));
        self.parked.drain(..self.parked.len().saturating_sub(1));
    }

    fn waits_for(&mut self, now: EventTime, kind: &'static str) {
        self.waits.insert(now.position, kind);
    }

    fn claim(&mut self, now: EventTime, worker: Option<String>) {
        self.taken = Some(now.at);
        self.claims.push(Piece::begun(now, worker));
    }

    fn end_claim(&mut self, now: EventTime, how: &'static str) {
        end(&mut self.claims, now, how);
    }

    fn end_of(&mut self, command: &CommandId, at: Timestamp) {
        let Some((scope, ordinal)) = numbered(command.place()) else { return };
        let ends = self.ends.entry(scope.to_owned()).or_insert(Ends { ordinal, at, before: Timestamp::MIN });
        if ordinal > ends.ordinal {
            *ends = Ends { ordinal, at, before: ends.before.max(ends.at) };
        } else if ordinal == ends.ordinal {
            ends.at = at;
        }
    }

    /// When an attempt began whose beginning is not recorded: when it was due, or else when what the workflow did before it
    /// in its scope had ended, and not before the run was in the hands of its worker.
    pub(crate) fn began(&self, command: &CommandId, attempt: u32) -> Option<Timestamp> {
        self.begins.get(&format!("{command}#{attempt}")).copied()
    }

    /// Keeps when an attempt began of which the journal now says something for the first time.
    fn begin(&mut self, command: &CommandId, attempt: u32, now: Timestamp) {
        let name = format!("{command}#{attempt}");
        if self.begins.contains_key(&name) {
            return;
        }
        let before = self.dues.get(&name).copied().or_else(|| self.before(command.place())).unwrap_or(now);
        let began = before.max(self.taken.unwrap_or(before)).min(now);
        self.begins.insert(name, began);
    }

    fn before(&self, place: &str) -> Option<Timestamp> {
        let mut place = place;
        let mut latest = None;
        while let Some((scope, ordinal)) = numbered(place) {
            if let Some(ends) = self.ends.get(scope) {
                let at = match ends.ordinal {
                    newest if newest < ordinal => ends.at.max(ends.before),
                    _ => ends.before,
                };
                latest = latest.max(Some(at).filter(|at| *at > Timestamp::MIN));
            }
            // Of a branch, what counts is the command that opened it.
            place = match scope.rsplit_once('.') {
                Some((outer, last)) if last.parse::<u32>().is_err() => outer,
                _ => scope,
            };
        }
        latest
    }
}

fn end(pieces: &mut [Piece], now: EventTime, how: &'static str) {
    if let Some(open) = pieces.last_mut().filter(|piece| piece.ended.is_none()) {
        (open.ended, open.how) = (Some(now), how);
    }
}

fn decision(decision: InvocationDecision) -> &'static str {
    match decision {
        InvocationDecision::Happened => "happened",
        InvocationDecision::DidNotHappen => "did_not_happen",
        InvocationDecision::InDoubt => "in_doubt",
        InvocationDecision::Retry => "retry",
        InvocationDecision::Ask => "ask",
    }
}
