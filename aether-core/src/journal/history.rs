//! The replay matcher: one run's journal as the answers it holds, handed out in the order of the first delivery.
//!
//! Promise: a recorded answer goes only to the command that has its place, kind, name and arguments; answers are
//! handed out in the order in which the workflow saw them first; no wildcard decides a match.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::{Poll, Waker};

use crate::journal::event::{Event, ForkDecided};
use crate::journal::generation::Generation;
use crate::journal::kept::{KeptCall, KeptCalls};
use crate::journal::obligations::is_undoing;
use crate::journal::resources::Resources;
use crate::journal::version_marks::{Mark, VersionMarks};
use crate::sched::{HashMap, mutated};
use crate::vocabulary::id::{CommandId, is_within};
use crate::vocabulary::outcome::EffectClass;

mod closed;
mod commands;
mod items;
mod place;
mod places;
pub(crate) mod record;

use self::commands::Commands;
use self::items::{WaitingItems, item_of};
use self::place::Place;
use self::places::Places;
pub use self::record::{Asked, CommandDetails, CommandRecord, Expired, Invocation, RecordedResult};

/// One run's journal, folded for replay.
#[derive(Debug, Default)]
pub struct History {
    resources: Resources,
    commands: Commands,
    /// The places of the answers that are to be handed out, in their order.
    deliveries: Places,
    /// How many were handed out.
    delivered: usize,
    /// Sites in the source, while events are folded: many commands have few.
    sites: BTreeSet<Arc<str>>,
    waiting: HashMap<Box<str>, Waker>,
    at_frontier: Vec<(CommandId, Waker)>,
    /// Where in `at_frontier` a place is.
    frontier_index: HashMap<Box<str>, usize>,
    /// By scope: commands in it and below that were begun, have no answer, and were not requested again.
    begun: HashMap<Box<str>, usize>,
    /// Items of an `each` that may have to begin above its limit.
    items: WaitingItems,
    /// The run was suspended after the newest event of a command: all code up to there ran until it waited.
    suspended: bool,
    /// Once every answer was handed out: the places of commands that nobody had asked for then, the first one last.
    unasked: Option<Vec<Box<str>>>,
    /// The code was not yet seen to ask for all that is recorded; until then nothing live may happen.
    unproven: bool,
    marks: VersionMarks,
    /// Of a fork: calls of its origin whose outcomes it takes over when it asks for them.
    kept: KeptCalls,
    /// It took something over from an origin.
    took_over: bool,
}

/// A history whose events come one by one.
#[derive(Debug, Default)]
pub(crate) struct Folding {
    history: History,
    /// The places of races and plans, and the winners of races.
    decided: Vec<(Place, Option<String>)>,
    /// The root scope, where this is not the run's first generation.
    scope: Option<String>,
}

impl Folding {
    /// Takes in the next event.
    pub(crate) fn apply(&mut self, event: Event) {
        match &event {
            Event::RaceDecided(e) => self.decided.push((Place(e.command.clone()), Some(e.winner.clone()))),
            Event::PlanGenerated(e) => self.decided.push((Place(e.command.clone()), None)),
            Event::RunContinued(e) => {
                self.scope = Some(Generation { number: e.generation, began: 0 }.scope())
            }
            _ => {}
        }
        self.history.apply(event);
    }

    /// There are no more.
    pub(crate) fn finish(self) -> History {
        let Self { mut history, decided, scope } = self;
        history.forget_below(&decided);
        if let Some(scope) = scope {
            history.forget_undone_for_others(&scope);
        }
        // Nothing else is found by its site.
        history.sites = BTreeSet::new();
        history.count_begun();
        history.unproven = !history.commands.is_empty() || !history.deliveries.is_empty();
        history
    }
}

impl History {
    /// Folds `events` from position 0 on.
    pub fn fold(events: impl IntoIterator<Item = Event>) -> Self {
        let mut folding = Folding::default();
        events.into_iter().for_each(|event| folding.apply(event));
        folding.finish()
    }

    /// The history of an unwinding. What was begun is gone on with when its turn comes, and nothing waits for that: its turn
    /// is not that in which workflow code began it.
    #[must_use]
    pub(crate) fn unwinding(mut self) -> Self {
        let waits = mutated("unwinding-waits-for-what-was-begun");
        for record in self.commands.open_mut().filter(|record| record.answer.is_none() && !waits) {
            record.requested = true;
        }
        self.count_begun();
        self
    }

    fn count_begun(&mut self) {
        self.begun.clear();
        for record in self.commands.open() {
            if record.answer.is_none() && !record.requested {
                scopes_of(record.command.place())
                    .for_each(|scope| *self.begun.entry(scope.into()).or_default() += 1);
            }
        }
    }

    /// Whether the code that runs next in `scope` is known to have run before. What the code did after the newest event
    /// is known only where the run was suspended then.
    pub fn replays(&self, scope: &str) -> bool {
        !self.is_exhausted() || self.suspended || self.begun.get(scope).is_some_and(|begun| *begun > 0)
    }

    /// Whether there is anything to replay.
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty() && self.progress() == (0, 0) && !self.suspended
    }

    /// The run has recorded something new about a command.
    pub fn proceed(&mut self) {
        self.suspended = false;
    }

    fn apply(&mut self, event: Event) {
        // A mark is neither delivered nor left over, and says nothing of the code behind it.
        if let Event::VersionMarked(marked) = event {
            return self.marks.apply(marked);
        }
        self.kept.apply(&event);
        self.took_over |= matches!(event, Event::OutcomeKept(_));
        let Some(command) = event.command().cloned() else {
            self.suspended |= matches!(event, Event::RunWaiting(_));
            return;
        };
        self.suspended = false;
        self.resources.apply(&event);
        let record = self.commands.of(&command);
        let answer = record.apply(event, &mut self.sites);
        if let Some(answer) = answer
            && record.answer.is_none()
        {
            record.class = record.class.or(class_of(&answer));
            record.answer = Some(answer);
            self.deliveries.push_back(command.place());
        }
        if record.is_complete() {
            self.commands.close(&command);
        }
    }

    /// The calls of the origin that `command` may take over.
    pub(crate) fn kept(&self, command: &CommandId) -> Vec<KeptCall> {
        self.kept.candidates(command)
    }

    /// Notes that a command takes this call over.
    pub(crate) fn take_kept(&mut self, taken: &ForkDecided) {
        self.kept.take(taken);
        self.took_over = true;
    }

    /// The calls of the origin that nothing has taken over yet.
    pub(crate) fn open_decisions(&self) -> impl Iterator<Item = &KeptCall> {
        self.kept.open()
    }

    /// Whether the run took something over from an origin: it may wait for a child run that is not its own.
    pub(crate) fn took_over(&self) -> bool {
        self.took_over
    }

    /// What is recorded about resources.
    pub fn resources(&self) -> &Resources {
        &self.resources
    }

    /// Commands other than `but` whose newest invocation was started and has no known end.
    pub fn unsettled<'a>(&'a self, but: &'a CommandId) -> impl Iterator<Item = &'a CommandId> {
        let open = |record: &&CommandRecord| {
            let unfinished = record.invocation.as_ref().is_some_and(|i| i.finished.is_none() && !i.refused);
            unfinished && record.answer.is_none() && record.command != *but
        };
        self.commands.open().filter(open).map(|record| &record.command)
    }

    /// What is recorded of commands that were begun and have no answer.
    pub(crate) fn begun(&self) -> impl Iterator<Item = &CommandRecord> {
        self.commands.open().filter(|record| record.answer.is_none())
    }

    /// On replay only the winner of a race is polled, and of a recorded plan nothing: what the others got is not handed
    /// out again.
    fn forget_below(&mut self, decided: &[(Place, Option<String>)]) {
        if decided.is_empty() {
            return;
        }
        let mut winners: HashMap<&str, Vec<Option<&str>>> = HashMap::new();
        for (place, winner) in decided {
            winners.entry(place.place()).or_default().push(winner.as_deref());
        }
        let lost = |place: &str| {
            let mut decided = scopes_of(place).filter_map(|scope| winners.get(scope)).flatten();
            decided.any(|winner| !winner.is_some_and(|winner| is_within(place, winner)))
        };
        self.deliveries.retain(|place| !lost(place));
        self.commands.retain(|place| !lost(place));
    }

    /// Calls that undo steps, and that code of an earlier generation began, are looked up when somebody goes on with them: as
    /// where a branch began them that lost a race.
    fn forget_undone_for_others(&mut self, scope: &str) {
        let earlier = |place: &str| !is_within(place, scope) && is_undoing(place);
        self.deliveries.retain(|place| !earlier(place));
        self.commands.retain(|place| !earlier(place));
    }

    /// What is recorded at `place`.
    pub fn peek(&mut self, place: &str) -> Option<&CommandRecord> {
        self.commands.get(place).map(|record| &*record)
    }

    /// Takes in what is recorded of a command by now, for who goes on with it.
    pub(crate) fn bring_up_to_date(&mut self, mut record: CommandRecord) {
        record.requested = true;
        self.commands.put(record);
    }

    /// What is recorded at `place`; marks it as asked for.
    pub fn request(&mut self, place: &str) -> Option<&CommandRecord> {
        let record = self.commands.get(place)?;
        let first = !std::mem::replace(&mut record.requested, true);
        if first && record.answer.is_none() {
            for scope in scopes_of(place) {
                if let Some(begun) = self.begun.get_mut(scope) {
                    *begun = begun.saturating_sub(1);
                }
            }
            if self.is_all_requested() {
                self.marks.wake();
            }
        }
        self.commands.get_open(place)
    }

    /// Whether every recorded answer was handed out.
    pub fn is_exhausted(&self) -> bool {
        self.deliveries.is_empty()
    }

    /// Number of answers handed out, and number of answers recorded.
    pub fn progress(&self) -> (usize, usize) {
        (self.delivered, self.delivered + self.deliveries.len())
    }

    /// Whether the answer at `place` is the next one in order, without taking it; remembers whom to wake when it is.
    pub fn is_due(&mut self, place: &str, waker: &Waker) -> bool {
        self.waiting.insert(place.into(), waker.clone());
        self.deliveries.front() == Some(place)
    }

    /// Takes the answer at `place` if it is the next one in order; else remembers whom to wake when it is.
    pub fn take_delivery(&mut self, place: &str, waker: &Waker) -> Option<CommandRecord> {
        if self.deliveries.front() != Some(place) {
            self.waiting.insert(place.into(), waker.clone());
            return None;
        }
        self.deliveries.pop_front();
        self.delivered += 1;
        self.waiting.remove(place);
        if let Some(next) = self.deliveries.front() {
            if let Some(waker) = self.waiting.get(next) {
                waker.wake_by_ref();
            }
        } else {
            self.marks.wake();
            if !self.unproven {
                self.prove();
            }
        }
        self.commands.take(place)
    }

    /// Whether the code was seen to ask for all that is recorded.
    pub fn is_proven(&self) -> bool {
        !self.unproven
    }

    /// Everything that is recorded was delivered, and every command that was begun was asked for again: live effects may
    /// go on, in every branch.
    pub fn prove(&mut self) {
        self.unproven = false;
        self.frontier_index.clear();
        self.at_frontier.drain(..).for_each(|(_, waker)| waker.wake());
    }

    /// Whether live effects may go on; else remembers whom to wake when they may.
    pub fn pass_frontier(&mut self, command: &CommandId, waker: &Waker) -> bool {
        if self.is_exhausted() && !self.unproven {
            return true;
        }
        let known = self.frontier_index.get(command.place()).and_then(|at| self.at_frontier.get_mut(*at));
        match known {
            Some((_, known)) => known.clone_from(waker),
            None => {
                self.frontier_index.insert(command.place().into(), self.at_frontier.len());
                self.at_frontier.push((command.clone(), waker.clone()));
            }
        }
        false
    }

    /// Drops what is recorded inside of `scopes`: of branches that lost a race before they asked for it.
    pub fn forget(&mut self, scopes: &[String]) {
        let lost = |place: &str| scopes.iter().any(|scope| is_within(place, scope));
        // A branch that asked for an answer does not wait for it any more. An answer that was not delivered to it stays: the
        // branch could not lose before it got that, so this is other code.
        let commands = &self.commands;
        self.waiting.retain(|place, _| !(lost(place) && commands.has(place)));
        self.commands.retain_open(|record| {
            record.requested || record.answer.is_some() || !lost(record.command.place())
        });
        self.count_begun();
        self.marks.wake();
    }

    /// One more than the highest number of an item of the `each` at `place` that has a command.
    pub fn items_of(&self, place: &str) -> usize {
        self.commands
            .places()
            .filter_map(|at| item_of(at, place))
            .max()
            .map_or(0, |number| number.saturating_add(1))
    }

    /// Whether the next item of the `each` at `place`, of which `begun` have begun, was released to begin above its limit; else
    /// remembers whom to wake when it is.
    pub fn needs_item(&mut self, place: &str, begun: usize, waker: &Waker) -> bool {
        self.items.is_needed(place, begun, waker)
    }

    /// Releases an item that has not begun and without which history cannot be requested. Returns whether there was one.
    pub fn release_item(&mut self) -> bool {
        let needed = match self.is_exhausted() {
            false => self.stuck_at(),
            true if self.unproven => self.leftover(),
            true => None,
        };
        let Some(needed) = needed.map(|record| record.command.clone()) else { return false };
        self.items.release(needed.place())
    }

    /// The next answer, when nobody asks for it.
    pub fn stuck_at(&mut self) -> Option<&CommandRecord> {
        let next = self.deliveries.front().filter(|next| !self.waiting.contains_key(*next))?;
        self.commands.get(next).map(|record| &*record)
    }

    /// Whether every recorded answer was delivered, and every command that was begun was requested again.
    pub fn is_all_requested(&self) -> bool {
        self.is_exhausted() && self.begun.get("").is_none_or(|begun| *begun == 0)
    }

    /// The version of the run at `mark`; `None` where the run comes to it for the first time. Pending while that is not
    /// known; remembers whom to wake when it is.
    pub fn version(&mut self, mark: &Mark, waker: &Waker) -> Poll<Option<u32>> {
        if let Some(known) = self.marks.tell(mark) {
            return Poll::Ready(Some(known));
        }
        let commands = &self.commands;
        let is_race = |record: &CommandRecord| matches!(record.answer, Some(RecordedResult::Race(_)));
        let places = || {
            commands.places().map(|place| (place, commands.get_open(place).is_some_and(is_race))).collect()
        };
        if self.marks.is_passed(mark, places) {
            self.marks.pass(mark);
            return Poll::Ready(Some(mark.from));
        }
        if self.is_all_requested() { Poll::Ready(None) } else { self.marks.wait(mark, waker) }
    }

    /// Releases the marks that wait where history cannot be requested without them: the run has passed them. Returns
    /// whether there were any.
    pub fn release_marks(&mut self) -> bool {
        let released = self.marks.is_waiting()
            && (self.stuck_at().is_some() || (self.is_exhausted() && !self.is_all_requested()));
        if released {
            self.marks.release();
        }
        released
    }

    /// The journal holds the end of the workflow.
    pub fn end(&mut self) {
        self.marks.end();
    }

    /// The run's marks.
    pub fn marks(&mut self) -> &mut VersionMarks {
        &mut self.marks
    }

    /// A command that waits for something history does not hold.
    pub fn frontier_request(&self) -> Option<&CommandId> {
        self.at_frontier.first().map(|(command, _)| command)
    }

    /// A command that history holds and nobody asked for.
    pub fn leftover(&mut self) -> Option<&CommandRecord> {
        let place = match self.stuck_at() {
            Some(stuck) => stuck.command.place().into(),
            None => self.next_unasked()?,
        };
        self.peek(&place)
    }

    /// The first place, as the code reaches them, that nobody asked for. What was asked for stays so: they are sorted once.
    fn next_unasked(&mut self) -> Option<Box<str>> {
        let commands = &self.commands;
        if !self.is_exhausted() {
            return commands.unrequested().min_by_key(|place| in_order(place)).map(Into::into);
        }
        let unasked = self.unasked.get_or_insert_with(|| {
            let mut places: Vec<&str> = commands.unrequested().collect();
            places.sort_by_cached_key(|place| Reverse(in_order(place)));
            places.into_iter().map(Into::into).collect()
        });
        while unasked.last().is_some_and(|place| !commands.is_unrequested(place)) {
            unasked.pop();
        }
        unasked.last().cloned()
    }
}

/// The scopes that a place is in, from the inside out; the root scope is the empty text.
fn scopes_of(place: &str) -> impl Iterator<Item = &str> {
    place.rmatch_indices('.').filter_map(|(at, _)| place.get(..at)).chain(std::iter::once(""))
}

/// Orders places as the code reaches them in one scope.
fn in_order(place: &str) -> Vec<(&str, u32)> {
    let part = |part: &str| part.find(|c: char| c.is_ascii_digit()).unwrap_or(part.len());
    place.split('.').map(|p| p.split_at(part(p))).map(|(kind, n)| (kind, n.parse().unwrap_or(0))).collect()
}

fn class_of(answer: &RecordedResult) -> Option<EffectClass> {
    match answer {
        RecordedResult::Time(_) | RecordedResult::Timer => Some(EffectClass::Time),
        RecordedResult::Uuid(_) => Some(EffectClass::Uuid),
        RecordedResult::Random(_) => Some(EffectClass::Random),
        RecordedResult::Wait(_) => Some(EffectClass::Human),
        RecordedResult::Length { .. } => Some(EffectClass::Time),
        RecordedResult::Step(_) | RecordedResult::Race(_) => None,
    }
}

#[cfg(test)]
mod tests;
