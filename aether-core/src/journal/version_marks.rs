//! The marks of a run: the versions that its journal holds, and those that follow from where the run has been.
//!
//! Promise: a version depends on the journal and on the code alone, never on the order in which branches are polled.
//! One name has one version in a run, and a version on which anything recorded rests is told again by every later replay.
//!
//! A version that is new is recorded together with the first event that the code behind the mark makes. Until then nothing
//! rests on it, and the run is free: another build may take it past the place by another path.
//!
//! A mark that has no record was either passed by code that did not have it yet, or was not reached so far. It was passed
//! where history holds a command behind it: in its scope, or in a scope around that one. Where nothing says so, the mark
//! waits until all of history was asked for. By then every other mark that was passed has been asked, so the answer is
//! the same whichever branch is polled first. Where history cannot be asked for unless a mark that waits returns, the
//! run has passed that mark.

use std::collections::BTreeSet;
use std::task::{Poll, Waker};

use crate::journal::event::VersionMarked;
use crate::sched::HashMap;
use crate::vocabulary::id::CommandId;

/// What the place of a mark begins with, inside its scope: `3.b0.v:use-baz`, and `3.b0.v7:use-baz` for a mark that is asked
/// for each time before the command with number 7.
const MARK: &str = "v";

/// One question for a version, at its place in the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Its command, which is named after the mark and has no number.
    pub command: CommandId,
    /// Path of the scope that asks.
    scope: String,
    /// Number of the next command in that scope.
    next: u32,
    /// The lowest version that the code has a path for.
    pub from: u32,
    /// The highest one.
    pub to: u32,
}

impl Mark {
    /// The mark `name` in `scope`, in front of the command with number `next`. With `each` it has a version of its own there.
    pub fn new(scope: &str, next: u32, name: &str, range: (u32, u32), each: bool) -> Self {
        let last = if each { format!("{MARK}{next}") } else { MARK.to_owned() };
        let place = if scope.is_empty() { last } else { format!("{scope}.{last}") };
        let (from, to) = (range.0.min(range.1), range.0.max(range.1));
        Self { command: CommandId::new(&place, name), scope: scope.to_owned(), next, from, to }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.command.name()
    }

    fn marked(&self, version: u32) -> VersionMarked {
        VersionMarked { command: self.command.clone(), change: self.name().to_owned(), version }
    }

    /// Whether the code behind it may have made an event about this command.
    fn is_before(&self, command: Option<&CommandId>) -> bool {
        // What is said of the run as a whole rests on all that the code has seen.
        let Some(place) = command.map(CommandId::place) else { return true };
        self.scope == place
            || Reached::of([(place, true)]).is_behind(self)
            || is_later_item(&self.scope, place)
    }
}

/// Whether `place` is in a later item of an `each` than `scope`. With a limit, such an item may have begun because the one
/// with the mark had ended.
fn is_later_item(scope: &str, place: &str) -> bool {
    std::iter::once(scope).chain(scopes_around(scope)).any(|around| {
        let Some((each, item)) = around.rsplit_once('.') else { return false };
        let number = |item: &str| item.strip_prefix('i')?.split('.').next()?.parse::<u32>().ok();
        let later = place.strip_prefix(each).and_then(|rest| rest.strip_prefix('.')).and_then(number);
        number(item).zip(later).is_some_and(|(number, later)| later > number)
    })
}

/// A version that is new to the run.
#[derive(Debug)]
struct Fresh {
    marked: VersionMarked,
    /// Where it was told.
    asked: Vec<Mark>,
}

impl Fresh {
    fn is_of(&self, mark: &Mark) -> bool {
        let (recorded, command) = (&self.marked.command, &mark.command);
        recorded == command || !is_each(recorded) && !is_each(command) && recorded.name() == command.name()
    }
}

/// Whether a mark has a version for each time it is asked for, and not one for the run.
fn is_each(command: &CommandId) -> bool {
    let last = command.place().rsplit('.').next().unwrap_or_default();
    last.strip_prefix(MARK).is_some_and(|number| number.parse::<u32>().is_ok())
}

/// A version that a run has at a mark.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KnownVersion {
    /// Name of the mark.
    pub change: String,
    /// The version.
    pub version: u32,
    /// Whether the journal holds it; else it follows from where the run has been.
    pub recorded: bool,
}

/// The marks of one run.
#[derive(Debug, Default)]
pub struct VersionMarks {
    by_name: HashMap<Box<str>, u32>,
    by_command: HashMap<CommandId, u32>,
    /// What was told of the run, is not in its journal, and is to be recorded.
    unrecorded: Vec<VersionMarked>,
    /// What was told of the run, and nothing recorded rests on.
    fresh: Vec<Fresh>,
    /// By name: what was told of the run and is not in its journal.
    inferred: BTreeSet<(String, u32)>,
    waiting: Vec<(Mark, Waker)>,
    /// Where the run has been, as its journal says; made when it is first asked for.
    reached: Option<Reached>,
    /// The journal holds the end of the workflow.
    ended: bool,
}

impl VersionMarks {
    /// Takes in a recorded version. The first one of a name counts.
    pub(super) fn apply(&mut self, marked: VersionMarked) {
        self.keep(&marked.command, &marked.change, marked.version);
    }

    fn keep(&mut self, command: &CommandId, change: &str, version: u32) {
        if is_each(command) {
            self.by_command.entry(command.clone()).or_insert(version);
        } else {
            self.by_name.entry(change.into()).or_insert(version);
        }
    }

    /// The version to tell at `mark`, if it is known.
    pub fn tell(&mut self, mark: &Mark) -> Option<u32> {
        let known = self.known(mark)?;
        if let Some(fresh) = self.fresh.iter_mut().find(|fresh| fresh.is_of(mark))
            && fresh.asked.iter().all(|asked| asked.scope != mark.scope || asked.next > mark.next)
        {
            fresh.asked.push(mark.clone());
        }
        Some(known)
    }

    /// The version that the run has at `mark`, if it is known.
    pub fn known(&self, mark: &Mark) -> Option<u32> {
        let known = if is_each(&mark.command) {
            self.by_command.get(&mark.command)
        } else {
            self.by_name.get(mark.name())
        };
        known.copied()
    }

    /// The journal holds the end of the workflow, so the run has passed every mark that it comes to.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    /// Whether the run has passed `mark`; `places` are the places that history holds, and whether a race was decided there.
    pub(super) fn is_passed<'a>(
        &mut self,
        mark: &Mark,
        places: impl FnOnce() -> Vec<(&'a str, bool)>,
    ) -> bool {
        self.ended || self.reached.get_or_insert_with(|| Reached::of(places())).is_behind(mark)
    }

    /// The run has passed `mark` without a record: it took the path of the lowest version.
    pub(super) fn pass(&mut self, mark: &Mark) {
        self.keep(&mark.command, mark.name(), mark.from);
        self.inferred.insert((mark.name().to_owned(), mark.from));
        // One round of a loop has no say in the others. That it was passed stays as plain in the journal as it is.
        if !is_each(&mark.command) {
            self.unrecorded.push(mark.marked(mark.from));
        }
    }

    /// Sets the version of a mark that the run comes to for the first time. It is recorded with the first event behind it.
    pub fn decide(&mut self, mark: &Mark, version: u32) {
        self.keep(&mark.command, mark.name(), version);
        self.fresh.push(Fresh { marked: mark.marked(version), asked: vec![mark.clone()] });
    }

    /// The new versions on which events about one of `commands` rest, to be recorded with them; returned once.
    pub fn take_before<'c>(
        &mut self,
        commands: impl Iterator<Item = Option<&'c CommandId>> + Clone,
    ) -> Vec<VersionMarked> {
        let is_before = |fresh: &mut Fresh| {
            fresh.asked.iter().any(|mark| commands.clone().any(|command| mark.is_before(command)))
        };
        self.fresh.extract_if(.., is_before).map(|fresh| fresh.marked).collect()
    }

    /// What was told of the run and is to be recorded; returned once.
    pub fn take_unrecorded(&mut self) -> Vec<VersionMarked> {
        for marked in &self.unrecorded {
            self.inferred.remove(&(marked.change.clone(), marked.version));
        }
        std::mem::take(&mut self.unrecorded)
    }

    /// Remembers whom to wake when all of history was asked for.
    pub(super) fn wait(&mut self, mark: &Mark, waker: &Waker) -> Poll<Option<u32>> {
        match self.waiting.iter_mut().find(|(waiting, _)| waiting.command == mark.command) {
            Some((_, known)) => known.clone_from(waker),
            None => self.waiting.push((mark.clone(), waker.clone())),
        }
        Poll::Pending
    }

    /// The question was dropped, or has its answer.
    pub fn stop_waiting(&mut self, mark: &Mark) {
        self.waiting.retain(|(waiting, _)| waiting.command != mark.command);
    }

    /// Whether a mark waits.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Wakes the marks that wait.
    pub(super) fn wake(&self) {
        self.waiting.iter().for_each(|(_, waker)| waker.wake_by_ref());
    }

    /// The run has passed all marks that wait.
    pub(super) fn release(&mut self) {
        for (mark, waker) in std::mem::take(&mut self.waiting) {
            if self.known(&mark).is_none() {
                self.pass(&mark);
                // What follows from the whole of a replay is recorded for rounds of loops, too.
                if is_each(&mark.command) {
                    self.unrecorded.push(mark.marked(mark.from));
                }
            }
            waker.wake();
        }
    }

    /// Every version that is known of the run, in the order of the names.
    pub fn all(&self) -> Vec<KnownVersion> {
        let by_name = self.by_name.iter().map(|(name, version)| (&**name, *version));
        let by_command = self.by_command.iter().map(|(command, version)| (command.name(), *version));
        let known: BTreeSet<_> =
            by_name.chain(by_command).map(|(change, version)| (change.to_owned(), version)).collect();
        let with_source = |(change, version): (String, u32)| {
            let recorded = !self.inferred.contains(&(change.clone(), version));
            KnownVersion { change, version, recorded }
        };
        known.into_iter().map(with_source).collect()
    }
}

/// Where a run has been.
#[derive(Debug, Default)]
struct Reached {
    /// By scope: the highest number of a command in it or below.
    newest: HashMap<Box<str>, u32>,
    /// The races that were decided: the winner's code ran to its end.
    decided: BTreeSet<Box<str>>,
}

impl Reached {
    fn of<'a>(places: impl IntoIterator<Item = (&'a str, bool)>) -> Self {
        let mut reached = Self::default();
        for (place, decided) in places {
            if decided {
                reached.decided.insert(place.into());
            }
            for (scope, number) in numbers_of(place) {
                let newest = reached.newest.entry(scope.into()).or_default();
                *newest = number.max(*newest);
            }
        }
        reached
    }

    /// Whether history holds a command behind `mark`: in its scope, or in a scope around it.
    fn is_behind(&self, mark: &Mark) -> bool {
        let newest = |scope: &str| self.newest.get(scope).copied();
        let behind = |(scope, number)| newest(scope).is_some_and(|newest| newest > number);
        newest(&mark.scope).is_some_and(|newest| newest >= mark.next)
            || numbers_of(&mark.scope).any(behind)
            || scopes_around(&mark.scope).any(|scope| self.decided.contains(scope))
    }
}

/// The commands that a place is in, from the inside out: the scope of each, and its number there.
fn numbers_of(place: &str) -> impl Iterator<Item = (&str, u32)> {
    std::iter::once(place).chain(scopes_around(place)).filter_map(|place| {
        let (scope, number) = place.rsplit_once('.').unwrap_or(("", place));
        number.parse().ok().map(|number| (scope, number))
    })
}

/// The paths that `path` is in, from the inside out, without the root.
fn scopes_around(path: &str) -> impl Iterator<Item = &str> {
    path.rmatch_indices('.').filter_map(|(at, _)| path.get(..at))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::journal::event::{Event, RaceDecided, TimeRecorded, TimerScheduled};
    use crate::journal::history::History;

    fn reached(places: &[&str]) -> Reached {
        Reached::of(places.iter().map(|place| (*place, false)))
    }

    fn is_behind(places: &[&str], scope: &str, next: u32) -> bool {
        reached(places).is_behind(&Mark::new(scope, next, "m", (1, 2), false))
    }

    #[test]
    fn a_mark_is_named_and_has_no_number() {
        let named = |scope, each| Mark::new(scope, 7, "use-baz", (1, 2), each).command.as_str().to_owned();
        assert_eq!(named("", false), "v:use-baz");
        assert_eq!(named("3.b0", false), "3.b0.v:use-baz");
        assert_eq!((named("3.b0", true), named("", true)), ("3.b0.v7:use-baz".into(), "v7:use-baz".into()));
        let parsed: CommandId = "3.b0.v7:use-baz".parse().unwrap();
        assert!(is_each(&parsed) && !is_each(&"3.b0.v:use-baz".parse().unwrap()));
        assert!(!is_each(&"21:version".parse().unwrap()));
    }

    #[test]
    fn a_mark_is_passed_where_a_command_behind_it_is_known() {
        assert!(is_behind(&["2"], "", 2));
        assert!(!is_behind(&["1"], "", 2));
        assert!(is_behind(&["10"], "", 9), "numbers, not text");
        assert!(is_behind(&["2.b0.1"], "", 2));
        // In the branch, behind the branch, in the other branch, and before it.
        assert!(is_behind(&["3.b0.2"], "3.b0", 2));
        assert!(is_behind(&["4"], "3.b0", 2));
        assert!(is_behind(&["3.b0.1"], "3.b0.0.i2", 5));
        assert!(!is_behind(&["3.b1.9", "3.b0.1", "2"], "3.b0", 2));
    }

    #[test]
    fn the_winner_of_a_decided_race_has_ended() {
        let mark = Mark::new("3.b0", 2, "m", (1, 2), false);
        assert!(Reached::of([("3", true)]).is_behind(&mark));
        assert!(!Reached::of([("3", false)]).is_behind(&mark));
        assert!(!Reached::of([("4", true)]).is_behind(&Mark::new("5", 0, "m", (1, 2), false)));
    }

    #[test]
    fn the_first_version_of_a_name_counts_everywhere() {
        let mut marks = VersionMarks::default();
        let (here, there) = (Mark::new("", 0, "m", (1, 2), false), Mark::new("3.b1", 4, "m", (1, 2), false));
        marks.decide(&here, 2);
        assert_eq!(marks.tell(&there), Some(2));
        let recorded = marks.take_before(std::iter::once(None));
        assert_eq!((recorded[0].command.as_str(), recorded[0].version), ("v:m", 2));
        marks.apply(there.marked(1));
        assert_eq!(marks.known(&there), Some(2));
        assert_eq!(marks.known(&Mark::new("", 0, "m", (1, 2), true)), None);
    }

    #[test]
    fn a_new_version_is_recorded_with_the_first_event_that_rests_on_it() {
        let (left, right) =
            (Mark::new("3.b0", 2, "m", (1, 2), false), Mark::new("3.b1", 5, "m", (1, 2), false));
        let rests = |asked: &[&Mark], on: &str| {
            let mut marks = VersionMarks::default();
            marks.decide(asked[0], 2);
            asked.iter().for_each(|mark| assert_eq!(marks.tell(mark), Some(2)));
            let command = CommandId::new(on, "step");
            let taken = marks.take_before(std::iter::once(Some(&command))).len();
            assert!(marks.take_before([None].into_iter()).len() == 1 - taken, "it is recorded once");
            taken == 1
        };
        assert!(!rests(&[&left], "3.b0.1") && rests(&[&left], "3.b0.2") && rests(&[&left], "3.b0.4.i0.0"));
        assert!(!rests(&[&left], "3.b1.7"), "another branch knows nothing of it");
        assert!(rests(&[&left, &right], "3.b1.7") && !rests(&[&left, &right], "3.b1.4"));
        assert!(rests(&[&left], "3") && rests(&[&left], "4") && !rests(&[&left], "2"));
        let item = Mark::new("0.i2.4.b0", 1, "m", (1, 2), false);
        assert!(rests(&[&item], "0.i3.0") && !rests(&[&item], "0.i1.9") && !rests(&[&item], "0.i2.4.b1.9"));
        let round = Mark::new("", 7, "m", (1, 2), true);
        assert!(rests(&[&round], "7") && !rests(&[&round], "6"));
    }

    #[test]
    fn what_follows_from_history_is_recorded_once() {
        let mut marks = VersionMarks::default();
        marks.pass(&Mark::new("", 0, "m", (1, 2), false));
        let unrecorded = KnownVersion { change: "m".into(), version: 1, recorded: false };
        assert_eq!(marks.all(), [unrecorded]);
        assert_eq!(marks.take_unrecorded().len(), 1);
        assert!(marks.take_unrecorded().is_empty());
        assert!(marks.all()[0].recorded);
    }

    fn begun(id: &str) -> Event {
        let (command, due) = (id.to_owned().into(), Timestamp::UNIX_EPOCH);
        TimerScheduled { command, due, site: None }.into()
    }

    fn answered(id: &str) -> Event {
        TimeRecorded { command: id.to_owned().into(), value: Timestamp::UNIX_EPOCH }.into()
    }

    fn ask(history: &mut History, scope: &str, next: u32) -> Poll<Option<u32>> {
        history.version(&Mark::new(scope, next, "m", (1, 2), false), Waker::noop())
    }

    #[test]
    fn a_mark_waits_until_every_other_place_was_asked() {
        // The second branch passed the place and was in the middle of its command; the first one is polled first.
        let mut history = History::fold([begun("0.b1.0:sleep")]);
        assert!(history.is_exhausted());
        assert_eq!(ask(&mut history, "0.b0", 0), Poll::Pending);
        assert_eq!(ask(&mut history, "0.b1", 0), Poll::Ready(Some(1)));
        assert_eq!(ask(&mut history, "0.b0", 0), Poll::Ready(Some(1)));
    }

    #[test]
    fn a_mark_is_new_once_all_of_history_was_asked_for() {
        let mut history = History::fold([answered("0.b0.0:now"), begun("0.b1.0:sleep")]);
        assert_eq!(ask(&mut history, "0.b0", 1), Poll::Pending);
        history.request("0.b1.0");
        assert_eq!(ask(&mut history, "0.b0", 1), Poll::Pending);
        history.request("0.b0.0");
        assert!(history.take_delivery("0.b0.0", Waker::noop()).is_some());
        assert_eq!(ask(&mut history, "0.b0", 1), Poll::Ready(None));
        assert!(!history.release_marks());
    }

    #[test]
    fn a_mark_that_keeps_history_from_being_asked_for_was_passed() {
        for behind in [begun("0.i1.0:sleep"), answered("0.i1.0:now")] {
            // The second item began when the first one had ended, whose mark is the last thing in it.
            let mut history = History::fold([behind]);
            assert_eq!(ask(&mut history, "0.i0", 1), Poll::Pending);
            assert!(history.release_marks() && !history.release_marks());
            assert_eq!(ask(&mut history, "0.i0", 1), Poll::Ready(Some(1)));
            assert_eq!(history.marks().take_unrecorded().len(), 1);
        }
    }

    #[test]
    fn a_replay_that_waits_for_the_next_delivery_releases_no_mark() {
        let mut history = History::fold([answered("0.b1.0:now")]);
        assert_eq!(ask(&mut history, "0.b0", 0), Poll::Pending);
        // Somebody waits for the delivery, and an operator is asked whether it may be made.
        assert!(history.is_due("0.b1.0", Waker::noop()));
        assert!(!history.release_marks());
    }

    #[test]
    fn what_the_loser_of_a_race_recorded_counts_for_the_run() {
        let marked = Mark::new("0.b1", 0, "m", (1, 2), false).marked(2);
        let winner = "0.b0".to_owned();
        let decided = RaceDecided { command: "0:race".to_owned().into(), winner };
        let mut history = History::fold([marked.into(), decided.into(), answered("1:now")]);
        assert_eq!(ask(&mut history, "", 1), Poll::Ready(Some(2)));
        assert!(history.leftover().is_some_and(|record| record.command.name() != "m"));
    }

    #[test]
    fn a_recorded_mark_is_neither_delivered_nor_left_over() {
        let marked = Mark::new("", 0, "m", (1, 2), false).marked(2);
        let mut history = History::fold([marked.into()]);
        assert!(history.is_empty() && history.is_exhausted() && history.leftover().is_none());
    }

    #[test]
    fn a_run_whose_workflow_has_ended_has_passed_every_mark() {
        let mut history = History::fold([]);
        history.end();
        assert_eq!(ask(&mut history, "0.b0", 7), Poll::Ready(Some(1)));
    }

    #[test]
    fn a_round_that_was_passed_is_not_recorded_and_one_that_kept_the_others_waiting_is() {
        let round = |next| Mark::new("", next, "m", (1, 2), true);
        let mut history = History::fold([begun("5:sleep")]);
        assert_eq!(history.version(&round(3), Waker::noop()), Poll::Ready(Some(1)));
        assert!(history.marks().take_unrecorded().is_empty());
        assert!(!history.marks().all()[0].recorded);
        assert_eq!(history.version(&round(6), Waker::noop()), Poll::Pending);
        assert!(history.release_marks());
        assert_eq!(history.marks().take_unrecorded()[0].command.as_str(), "v6:m");
        assert_eq!(history.version(&round(6), Waker::noop()), Poll::Ready(Some(1)));
        assert_eq!(history.version(&round(7), Waker::noop()), Poll::Pending);
    }
}
