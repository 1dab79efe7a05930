//! From frames to what a journal says of its run.
//!
//! Promise: frames are checked, folded and let go of as they come, so that a long journal is never in memory as a whole; a
//! journal that is damaged is a fault of its run alone.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::engine::advance::forking::{Beginning, ReadBeginning};
use crate::journal::code::RecordedCode;
use crate::journal::event::{Event, RunCreated};
use crate::journal::frame::{Chained, JournalError, StoredFrame};
use crate::journal::generation::Generation;
use crate::journal::history::{Folding, History};
use crate::journal::obligations::{COMPENSATE, Obligations, undoes_another, without_open_questions};
use crate::journal::spending::Spending;
use crate::run::fault::Fault;
use crate::store::api::Store;
use crate::store::open_waits::OpenWaits;
use crate::store::pages::{PAGE, Pages};
use crate::vocabulary::code::RunCode;
use crate::vocabulary::id::{CommandId, Position, RunId};

/// What a journal says of its run.
pub(crate) struct Read {
    pub(crate) created: RunCreated,
    /// The code that recorded it last.
    pub(crate) code: RunCode,
    pub(crate) parked: bool,
    /// Whether its workflow has run, as far as that is recorded.
    pub(crate) begun: bool,
    pub(crate) next: u64,
    pub(crate) generation: Generation,
    pub(crate) history: History,
    pub(crate) obligations: Obligations,
    pub(crate) spending: Spending,
    pub(crate) open_waits: OpenWaits,
    pub(crate) unwinding: Option<Unwinding>,
    pub(crate) beginning: Option<Beginning>,
    pub(crate) end: Option<Event>,
}

/// The part of a journal in which a run's steps are undone.
pub(crate) struct Unwinding {
    /// The event with which the run was to end.
    pub(crate) end: Event,
    /// What was recorded after the workflow ended, and of commands that undo others and were begun before.
    pub(crate) history: History,
}

/// How often a journal is read again whose beginning went away meanwhile.
const GENERATIONS: u32 = 3;

/// Reads and checks the whole journal of a run that nobody else appends to.
pub(crate) async fn read_own(store: &dyn Store, run: &RunId) -> Result<Read, Fault> {
    pages_of(store, run).await?.finish(run)
}

/// Reads and checks the whole journal of a run, to which others may append meanwhile; `None` where there is none.
pub(crate) async fn read(store: &dyn Store, run: &RunId) -> Result<Option<Read>, Fault> {
    let mut again = GENERATIONS;
    loop {
        let journal = match pages_of(store, run).await {
            // The run has begun a new generation, and what came next went with the old one. Or the journal is damaged.
            Err(Fault::Journal { error: JournalError::Gap { .. }, .. }) if again > 0 => {
                again -= 1;
                continue;
            }
            read => read?,
        };
        return journal.began.map(|_| journal.finish(run)).transpose();
    }
}

async fn pages_of(store: &dyn Store, run: &RunId) -> Result<Journal, Fault> {
    let (mut journal, mut pages) = (Journal::default(), Pages::new(store, run, 0, PAGE));
    while let Some(frames) = pages.next().await? {
        journal.add(store, run, &frames).await?;
    }
    Ok(journal)
}

/// A journal as far as it was read.
#[derive(Default)]
struct Journal {
    chained: Chained,
    began: Option<Position>,
    created: Option<RunCreated>,
    recorded: RecordedCode,
    begun: bool,
    generation: Generation,
    open_waits: OpenWaits,
    obligations: Obligations,
    spending: Spending,
    history: Folding,
    beginning: ReadBeginning,
    /// The event with which the run is to end once its steps are undone, and what was recorded of that.
    unwinding: Option<(Box<Event>, Folding)>,
    undoing: Undoing,
    /// Whether the next event was appended with how the run ends.
    is_late: bool,
    /// The newest event, where a run ends with it. One that others follow is an event like them.
    end: Option<Event>,
}

/// What was recorded of commands that undo others and have no answer.
#[derive(Default)]
struct Undoing {
    /// Few runs undo anything before they end, or have begun to in an earlier generation.
    is_begun: bool,
    events: BTreeMap<CommandId, Vec<Event>>,
    answered: BTreeSet<CommandId>,
}

impl Undoing {
    fn note(&mut self, event: &Event) {
        self.is_begun |= match event {
            Event::NodeStarted(e) => e.command.name() == COMPENSATE,
            Event::RunContinued(e) => e.carried.is_some(),
            _ => false,
        };
        if !self.is_begun {
            return;
        }
        let Some(command) = event.command().filter(|command| undoes_another(command)) else { return };
        if matches!(event, Event::CommandCommitted(_)) {
            self.events.remove(command);
            self.answered.insert(command.clone());
        } else if !self.answered.contains(command) {
            self.events.entry(command.clone()).or_default().push(event.clone());
        }
    }
}

/// Whether a run may end with this while calls of it are cut off.
fn cuts_off(event: &Event) -> bool {
    match event {
        Event::RunUnwinding(e) => cuts_off(&e.end),
        Event::RunFailed(_) | Event::RunCancelled(_) | Event::RunTerminated(_) => true,
        _ => false,
    }
}

/// Whether the workflow ran when this was recorded: it was not only created, claimed or parked.
fn is_of_workflow(event: &Event) -> bool {
    !matches!(event, Event::RunCreated(_) | Event::RunRequeued(_) | Event::RunParked(_))
}

impl Journal {
    async fn add(&mut self, store: &dyn Store, run: &RunId, frames: &[StoredFrame]) -> Result<(), Fault> {
        let Some(first) = frames.first() else { return Ok(()) };
        let (mut events, mut late) = (Vec::new(), Vec::new());
        for frame in frames {
            let read = self.chained.follow(frame);
            let mut read = read.map_err(|error| Fault::Journal { run: run.clone(), error })?;
            if read.iter().any(cuts_off) {
                late.push(frame.position..frame.position.saturating_add(read.len() as u64));
            }
            events.append(&mut read);
        }
        crate::store::read::fill(store, run, frames, &mut events).await?;
        let mut times = frames.iter().peekable();
        let mut at = first.at;
        for (position, event) in (first.position..).zip(events) {
            while let Some(frame) = times.next_if(|frame| frame.position <= position) {
                at = frame.at;
            }
            self.is_late = late.iter().any(|frame| frame.contains(&position));
            self.push(position, at, event);
        }
        Ok(())
    }

    fn push(&mut self, position: Position, at: Timestamp, event: Event) {
        // A new generation began while the old one was read.
        if self.began.is_some() && matches!(event, Event::RunCreated(_)) {
            *self = Self { chained: self.chained, ..Self::default() };
        }
        let _the_sum_counts = self.open_waits.apply(at, &event);
        self.begun |= is_of_workflow(&event);
        self.recorded.apply(&event);
        if let Some(end) = self.end.take() {
            self.fold(end);
        }
        match (self.began, event) {
            (None, event) => {
                self.began = Some(position);
                self.obligations.apply(&event);
                self.spending.apply(&event);
                if let Event::RunCreated(created) = event {
                    self.created = Some(created);
                }
            }
            (_, event) if event.is_terminal() => self.end = Some(event),
            (_, event) => self.fold(event),
        }
    }

    fn fold(&mut self, event: Event) {
        self.obligations.apply(&event);
        self.spending.apply(&event);
        if let Event::RunContinued(e) = &event {
            self.generation.number = e.generation;
        }
        match (&mut self.unwinding, event) {
            (None, Event::RunUnwinding(e)) => {
                let mut history = Folding::default();
                let begun =
                    std::mem::take(&mut self.undoing.events).into_values().flat_map(without_open_questions);
                begun.for_each(|event| history.apply(event));
                self.unwinding = Some((e.end, history));
            }
            (None, event) => {
                self.undoing.note(&event);
                // What is committed with how a run ends was handed to no code: its call had been cut off.
                if self.is_late && matches!(event, Event::CommandCommitted(_)) {
                    return;
                }
                if let Some(event) = self.beginning.apply(event) {
                    self.history.apply(event);
                }
            }
            (Some((end, history)), event) => {
                // A run that is terminated while its steps are undone says so in a second one.
                if let Event::RunUnwinding(e) = &event {
                    end.clone_from(&e.end);
                }
                history.apply(event);
            }
        }
    }

    fn finish(self, run: &RunId) -> Result<Read, Fault> {
        let began = self.began.unwrap_or_default();
        let (Some(created), Some((code, parked))) = (self.created, self.recorded.newest()) else {
            let reason = "a journal begins with `run_created`".into();
            let error = JournalError::Unreadable { position: began, reason };
            return Err(Fault::Journal { run: run.clone(), error });
        };
        let unwinding = self
            .unwinding
            .map(|(end, history)| Unwinding { end: *end, history: history.finish().unwinding() });
        Ok(Read {
            created,
            code,
            parked,
            begun: self.begun,
            next: self.chained.next(),
            generation: Generation { began, ..self.generation },
            history: self.history.finish(),
            obligations: self.obligations,
            spending: self.spending,
            open_waits: self.open_waits,
            unwinding,
            beginning: self.beginning.finish(),
            end: self.end,
        })
    }
}

#[cfg(test)]
mod tests;
