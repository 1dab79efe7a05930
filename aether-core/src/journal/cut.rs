//! Cutting a journal for a fork: which events are copied, and which calls lie behind the cut.
//!
//! Promise: what is copied is a history that the run has had, or would have had after a crash, so that a replay accepts
//! it: everything that was answered before the first event of the command at the cut. A call that was begun there and
//! not answered, in another branch, lies behind the cut as a whole.

use std::collections::BTreeSet;

use crate::journal::event::{Event, OutcomeKept};
use crate::journal::obligations::{begins_fork, undoes_another};
use crate::vocabulary::id::{CommandId, Position};
use crate::vocabulary::outcome::EffectClass;

/// Where a run is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Before its first command.
    Start,
    /// Before the first event of this command, or of what is inside of it.
    Before(CommandId),
    /// Behind its last command, before its end.
    End,
}

/// Why a journal cannot be cut there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CutError {
    /// It does not hold the command; some that it holds.
    Unknown(Vec<CommandId>),
    /// The command is in a branch that lost this race.
    Lost(CommandId),
    /// The command undoes another one.
    Compensation,
}

/// A journal that was cut.
#[derive(Debug)]
pub(crate) struct Divided<'e> {
    /// The first position behind the cut.
    pub(crate) position: Position,
    events: &'e [Event],
    at: usize,
    /// Places of commands that are not copied although they were begun before the cut.
    open: BTreeSet<&'e str>,
}

impl<'e> Divided<'e> {
    /// Cuts a journal that begins with `run_created`.
    pub(crate) fn of(events: &'e [Event], cut: &Cut) -> Result<Self, CutError> {
        let ends = |event: &Event| event.is_terminal() || matches!(event, Event::RunUnwinding(_));
        let end = events.iter().position(ends).unwrap_or(events.len());
        let body = events.get(..end).unwrap_or_default();
        let at = match cut {
            Cut::Start => 1,
            Cut::End => end,
            Cut::Before(command) => before(body, command)?,
        };
        let head = events.get(..at).unwrap_or_default();
        Ok(Self { position: at as Position, events, at, open: open(head) })
    }

    /// Whether what is recorded of `command` is copied.
    pub(crate) fn holds(&self, position: usize, command: &CommandId) -> bool {
        position < self.at && !begins_fork(command) && !self.open.contains(command.place())
    }

    /// The journal, with positions.
    pub(crate) fn events(&self) -> impl Iterator<Item = (usize, &'e Event)> {
        self.events.iter().enumerate()
    }

    /// The copied events, without `run_created`. `changed_since` says of a resource whether a call behind the cut changed
    /// it: its state as of the cut is then no longer what must be found.
    pub(crate) fn copied(&self, changed_since: impl Fn(&str, &str) -> bool) -> Vec<Event> {
        let mut copied = Vec::new();
        for (position, event) in self.events().take(self.at).skip(1) {
            match (event, event.command()) {
                (Event::SignalReceived(_), _) => copied.push(event.clone()),
                (Event::StateChanged(e), _) if changed_since(&e.resource, &e.id) => {}
                (_, Some(command)) if self.holds(position, command) => {
                    copied.push(event.clone());
                    // Its id is made of the origin's, and the fork must find it again.
                    if matches!(event, Event::ChildStarted(_)) {
                        let (command, origin) = (command.clone(), command.clone());
                        copied.push(OutcomeKept { command, origin, digest: None }.into());
                    }
                }
                _ => {}
            }
        }
        copied
    }
}

fn is_or_is_within(command: &CommandId, at: &CommandId) -> bool {
    command == at || command.is_within(at.place())
}

/// Position of the first event of `command`.
fn before(body: &[Event], command: &CommandId) -> Result<usize, CutError> {
    if undoes_another(command) || begins_fork(command) {
        return Err(CutError::Compensation);
    }
    let lost = body.iter().find_map(|event| match event {
        Event::RaceDecided(race)
            if command.is_within(race.command.place()) && !command.is_within(&race.winner) =>
        {
            Some(race.command.clone())
        }
        _ => None,
    });
    let found = body.iter().position(|event| event.command().is_some_and(|at| is_or_is_within(at, command)));
    // Of a join there is no event of its own, only of what is inside of it: then its name cannot be compared.
    let named =
        |event: &Event| event.command().is_some_and(|at| at.place() == command.place() && at != command);
    match (found, lost) {
        (Some(_), Some(race)) => Err(CutError::Lost(race)),
        (Some(at), None) if !body.iter().any(named) => Ok(at),
        _ => Err(CutError::Unknown(near(body, command))),
    }
}

/// The most commands that an error names.
const NAMED: usize = 8;

/// Commands that may have been meant: of the same place or name, else the first ones.
fn near(body: &[Event], command: &CommandId) -> Vec<CommandId> {
    let mut known: Vec<&CommandId> = Vec::new();
    for found in body.iter().filter_map(Event::command) {
        if !known.contains(&found) && !undoes_another(found) && !begins_fork(found) {
            known.push(found);
        }
    }
    let alike = |known: &&&CommandId| known.place() == command.place() || known.name() == command.name();
    let mut near: Vec<_> = known.iter().filter(alike).take(NAMED).copied().cloned().collect();
    if near.is_empty() {
        near = known.into_iter().take(NAMED).cloned().collect();
    }
    near
}

/// Places of commands that `head` begins and does not answer, except those that lost a race which `head` decides, and
/// those inside of a plan that it records: nobody asks for these any more.
fn open(head: &[Event]) -> BTreeSet<&str> {
    let (mut begun, mut answered) = (BTreeSet::new(), BTreeSet::new());
    let mut decided: Vec<(&str, Option<&str>)> = Vec::new();
    for (event, command) in head.iter().filter_map(|event| Some((event, event.command()?))) {
        if begins(event) {
            begun.insert(command.place());
        }
        if answers(event) {
            answered.insert(command.place());
        }
        match event {
            Event::RaceDecided(e) => decided.push((command.place(), Some(&e.winner))),
            Event::PlanGenerated(_) => decided.push((command.place(), None)),
            _ => {}
        }
    }
    let below =
        |place: &str, scope: &str| place.strip_prefix(scope).is_some_and(|rest| rest.starts_with('.'));
    let over = |place: &str| {
        let mut decided = decided.iter();
        decided
            .any(|(scope, winner)| below(place, scope) && !winner.is_some_and(|winner| below(place, winner)))
    };
    begun.retain(|place| !answered.contains(place) && !over(place));
    begun
}

/// Whether this event begins something that has an answer later.
fn begins(event: &Event) -> bool {
    match event {
        // Such as `cx.compensate()`: it only lists what is done inside of it.
        Event::NodeStarted(e) => e.class != EffectClass::Pure,
        Event::CommandEmitted(_)
        | Event::ToolInvocationStarted(_)
        | Event::ToolInvocationRefused(_)
        | Event::TransactionFinished(_)
        | Event::TimerScheduled(_)
        | Event::WaitStarted(_)
        | Event::ApprovalRequested(_)
        | Event::ChildStarted(_) => true,
        _ => false,
    }
}

/// Whether this event holds the answer of its command.
fn answers(event: &Event) -> bool {
    matches!(
        event,
        Event::CommandCommitted(_)
            | Event::TimeRecorded(_)
            | Event::UuidRecorded(_)
            | Event::RandomRecorded(_)
            | Event::TimerFired(_)
            | Event::RaceDecided(_)
            | Event::WaitCompleted(_)
            | Event::PlanGenerated(_)
    )
}
