//! Records of commands that are complete, in few bytes: a long history has a million of them, and each waits there until
//! its answer is handed out.
//!
//! Promise: a record that was closed is the same when it is opened again. One that cannot be closed so stays open. What
//! many commands have in common, their [`Shape`], is held once; the rest is one text.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use super::place::by_place;
use super::record::{CommandRecord, Invocation, RecordedResult};
use crate::vocabulary::id::{CommandId, IdempotencyKey, InvocationId, RunId};
use crate::vocabulary::outcome::{EffectClass, Outcome};
use crate::vocabulary::payload::Digest;

/// Between the parts of a record's text. JSON, digests and the ids that code gives to commands do not hold it; a record
/// that does stays open.
const BETWEEN: char = '\u{1f}';

/// A longer text is not copied: what a record takes beside it does not count then.
const LONGEST: usize = 4 * 1024;

/// A closed record: its command, the number of its shape, its digest, its arguments and its answer.
#[derive(Debug)]
pub(super) struct Closed(Box<str>);

impl Closed {
    /// The place of its command.
    pub(super) fn place(&self) -> &str {
        let command = self.0.split_once(BETWEEN).map_or(&*self.0, |(command, _)| command);
        command.split_once(':').map_or(command, |(place, _)| place)
    }
}

by_place!(Closed);

/// What kind of answer a closed record has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Value,
    Error,
    Time,
    Uuid,
    Random,
}

/// All of a record but its texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    class: Option<EffectClass>,
    outcome: Option<Outcome>,
    site: Option<Arc<str>>,
    path: Option<Arc<str>>,
    /// `started`, `finished`, `committed`, `emitted` and `kept`.
    marks: [bool; 5],
    failed_attempts: u32,
    /// The run that its key names, and its attempt.
    invocation: Option<(RunId, u32)>,
    has_digest: bool,
    has_input: bool,
    kind: Kind,
}

/// The shapes of closed records.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    numbers: BTreeMap<Arc<Shape>, usize>,
    all: Vec<Arc<Shape>>,
    /// The run that the last key named.
    run: Option<RunId>,
}

impl Shapes {
    /// The record in few bytes; `None` where it would not be the same afterwards, or is asked for already.
    pub(super) fn close(&mut self, record: &CommandRecord) -> Option<Closed> {
        if record.requested || !record.has_no_details() {
            return None;
        }
        let (kind, answer) = text_of(record.answer.as_ref()?)?;
        let invocation = match &record.invocation {
            Some(invocation) => Some(self.derivable(invocation, &record.command)?),
            None => None,
        };
        let shape = Shape {
            class: record.class,
            outcome: record.outcome,
            site: record.site.clone(),
            path: record.path.clone(),
            marks: [record.started, record.finished, record.committed, record.emitted, record.kept],
            failed_attempts: record.failed_attempts,
            invocation,
            has_digest: record.digest.is_some(),
            has_input: record.input.is_some(),
            kind,
        };
        let digest = record.digest.as_ref().map_or("", Digest::as_str);
        let input = record.input.as_ref().map_or("", |input| input.as_str());
        let texts = [record.command.as_str(), digest, input, &answer];
        let length = texts.iter().map(|text| text.len()).sum::<usize>();
        if length > LONGEST || texts.iter().any(|text| text.contains(BETWEEN)) {
            return None;
        }
        let number = self.number(shape);
        let [command, digest, input, answer] = texts;
        let mut text = String::with_capacity(length + digits(number) + 4);
        // Writing to a string does not fail.
        let _written =
            write!(text, "{command}{BETWEEN}{number}{BETWEEN}{digest}{BETWEEN}{input}{BETWEEN}{answer}");
        Some(Closed(text.into_boxed_str()))
    }

    /// The run and the attempt from which the names of an invocation follow, where it has no more than these.
    fn derivable(&mut self, invocation: &Invocation, command: &CommandId) -> Option<(RunId, u32)> {
        let Invocation { id, key, attempt, finished: None, decision: None, resend: None, refused: false } =
            invocation
        else {
            return None;
        };
        let number = match attempt {
            0 => Cow::Borrowed("0"),
            more => more.to_string().into(),
        };
        if id.as_str().strip_suffix(&*number)?.strip_suffix('#')? != command.as_str() {
            return None;
        }
        let of_run = key.as_str().strip_suffix(&*number)?.strip_suffix(':')?;
        let run = of_run.strip_suffix(command.as_str())?.strip_suffix(':')?.strip_prefix("aether:")?;
        // Almost always there is one run, and its keys hold the command's name as it is.
        if self.run.as_ref().is_none_or(|known| known.as_str() != run) {
            self.run = Some(RunId::new(run).ok()?);
        }
        let run = self.run.clone()?;
        let as_it_is =
            !command.name().contains([':', '%']) || IdempotencyKey::new(&run, command, *attempt) == *key;
        as_it_is.then_some((run, *attempt))
    }

    fn number(&mut self, shape: Shape) -> usize {
        if let Some(known) = self.numbers.get(&shape) {
            return *known;
        }
        let (shape, number) = (Arc::new(shape), self.all.len());
        self.all.push(Arc::clone(&shape));
        self.numbers.insert(shape, number);
        number
    }

    /// The record as it was.
    pub(super) fn open(&self, closed: &Closed) -> CommandRecord {
        let mut parts = closed.0.splitn(5, BETWEEN);
        let mut part = || parts.next().unwrap_or_default();
        let (command, number, digest, input, answer) = (part(), part(), part(), part(), part());
        let mut record = CommandRecord::new(CommandId::stored(command));
        let shape = number.parse().ok().and_then(|number: usize| self.all.get(number));
        // What `close` wrote is read here. An answer of a kind that nothing asks for stops the run, where no answer would let
        // it go on.
        let Some(shape) = shape else {
            record.answer = Some(unreadable());
            return record;
        };
        record.class = shape.class;
        record.outcome = shape.outcome;
        record.site.clone_from(&shape.site);
        record.path.clone_from(&shape.path);
        [record.started, record.finished, record.committed, record.emitted, record.kept] = shape.marks;
        record.failed_attempts = shape.failed_attempts;
        record.invocation = shape.invocation.as_ref().map(|(run, attempt)| {
            let id = InvocationId::new(&record.command, *attempt);
            let key = IdempotencyKey::new(run, &record.command, *attempt);
            Box::new(Invocation::new(id, key, *attempt, false))
        });
        record.digest = shape.has_digest.then(|| Digest::stored(digest));
        record.input = if shape.has_input { serde_json::from_str(input).ok() } else { None };
        record.answer = Some(answer_of(shape.kind, answer).unwrap_or_else(unreadable));
        record
    }
}

/// How many digits a number is written with.
fn digits(number: usize) -> usize {
    number.checked_ilog10().map_or(1, |tens| tens as usize + 1)
}

fn text_of(answer: &RecordedResult) -> Option<(Kind, Cow<'_, str>)> {
    Some(match answer {
        RecordedResult::Step(Ok(value)) => (Kind::Value, value.as_str().into()),
        RecordedResult::Step(Err(error)) => (Kind::Error, error.as_str().into()),
        RecordedResult::Time(time) => (Kind::Time, time.to_string().into()),
        RecordedResult::Uuid(uuid) => (Kind::Uuid, uuid.to_string().into()),
        RecordedResult::Random(value) => (Kind::Random, value.as_str().into()),
        RecordedResult::Length { .. }
        | RecordedResult::Timer
        | RecordedResult::Race(_)
        | RecordedResult::Wait(_) => return None,
    })
}

fn answer_of(kind: Kind, text: &str) -> Option<RecordedResult> {
    Some(match kind {
        Kind::Value => RecordedResult::Step(Ok(serde_json::from_str(text).ok()?)),
        Kind::Error => RecordedResult::Step(Err(serde_json::from_str(text).ok()?)),
        Kind::Time => RecordedResult::Time(text.parse().ok()?),
        Kind::Uuid => RecordedResult::Uuid(text.parse().ok()?),
        Kind::Random => RecordedResult::Random(serde_json::from_str(text).ok()?),
    })
}

fn unreadable() -> RecordedResult {
    RecordedResult::Race(String::new())
}

#[cfg(test)]
mod tests;
