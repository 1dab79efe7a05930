//! What a journal says of the calls in the ledger, so that rows can be compared with it.
//!
//! Promise: of rows that engines wrote nothing is said, whatever their run went through. Each call of the journal has its
//! row and each row its call; what is encoded and cannot be read is not compared.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use crate::journal::event::InvocationDecision;
use crate::journal::generation::Generation;
use crate::journal::large_values::BlobRef;
use crate::store::ledger::{LedgerEntry, LedgerStatus};
use crate::vocabulary::codec::SEALED;
use crate::vocabulary::id::{CommandId, IdempotencyKey, RunId};
use crate::vocabulary::outcome::Outcome;
use crate::vocabulary::payload::{Digest, Payload, hex};

/// An event as it stands in a frame, whether or not all of it can be read.
pub(crate) struct RawEvent<'t> {
    pub(crate) kind: String,
    fields: BTreeMap<String, &'t RawValue>,
}

/// The events of a frame's text. What a newer build wrote in another form has no fields.
pub(crate) fn raw_events(text: &str) -> Result<Vec<RawEvent<'_>>, String> {
    let events: Vec<BTreeMap<String, &RawValue>> =
        serde_json::from_str(text).map_err(|error| error.to_string())?;
    Ok(events.into_iter().filter_map(RawEvent::of).collect())
}

impl<'t> RawEvent<'t> {
    fn of(event: BTreeMap<String, &'t RawValue>) -> Option<Self> {
        let (kind, fields) = event.into_iter().next()?;
        Some(Self { kind, fields: serde_json::from_str(fields.get()).unwrap_or_default() })
    }

    /// A field that is there and can be read.
    pub(crate) fn read<T: serde::de::DeserializeOwned>(&self, field: &str) -> Option<T> {
        serde_json::from_str(self.fields.get(field)?.get()).ok()
    }

    /// Where the value of a field is, if it stands apart from the journal.
    fn reference(&self, field: &str) -> Option<BlobRef> {
        self.read::<BTreeMap<String, BlobRef>>("stored")?.remove(field)
    }

    fn answer(&self, field: &str) -> Answer {
        if self.fields.contains_key("encoded") {
            return Answer::Unreadable;
        }
        match (self.reference(field), self.fields.get(field)) {
            (Some(at), _) => Answer::Apart(at),
            (None, Some(value)) => Answer::Value(sha256(value.get())),
            (None, None) => Answer::Nothing,
        }
    }
}

/// The arguments with which a person replaced those of a call, in a decision as it is recorded.
pub(crate) fn approved_with(decision: &Payload) -> Option<Payload> {
    decision.decode::<BTreeMap<String, Payload>>().ok()?.remove("approved_with")
}

/// A value that a call came back with.
#[derive(Clone, Debug, PartialEq)]
enum Answer {
    /// It is encoded.
    Unreadable,
    /// None is recorded.
    Nothing,
    /// The one with this SHA-256.
    Value(String),
    /// One that stands apart from the journal.
    Apart(BlobRef),
}

impl Answer {
    /// Whether a row may hold `value`. With `complete`, one that stands apart from the journal is in the row, too.
    fn allows(&self, value: Option<&Payload>, complete: bool) -> bool {
        let found = value.map(|value| sha256(value.as_str()));
        match self {
            Self::Unreadable => true,
            Self::Nothing => found.is_none(),
            Self::Value(known) => found.unwrap_or_else(|| sha256("null")) == *known,
            Self::Apart(at) => found.map_or(!complete, |found| found == at.sha256),
        }
    }
}

fn sha256(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

/// How a call stands.
#[derive(Clone, Debug, PartialEq)]
enum State {
    /// It was begun.
    Begun,
    /// Its outcome is unknown.
    InDoubt,
    /// It did not happen.
    NotExecuted,
    /// It came back.
    Finished { is_success: bool, answer: Answer },
    /// What was decided about it is encoded; or its key was taken, and a row may be there or not.
    Anything,
}

impl State {
    const fn allows(&self, status: LedgerStatus) -> bool {
        use LedgerStatus::{Confirmed, Failed, InDoubt, Started, Succeeded};
        match self {
            Self::Begun => matches!(status, Started),
            Self::InDoubt => matches!(status, InDoubt),
            Self::NotExecuted => matches!(status, Failed),
            Self::Finished { is_success: true, .. } => matches!(status, Succeeded | Confirmed),
            // In doubt where the body panicked.
            Self::Finished { is_success: false, .. } => matches!(status, Failed | InDoubt),
            Self::Anything => true,
        }
    }
}

#[derive(Clone, Debug)]
struct Call {
    command: String,
    invocation: String,
    /// Not recorded where the key was taken.
    tool: Option<String>,
    state: State,
    is_refused: bool,
}

/// What a run's journal says of its calls, from the frames up to here.
pub(crate) struct RecordedCalls {
    run: RunId,
    generation: u32,
    is_first: bool,
    /// Calls of the run itself, by their keys.
    own: BTreeMap<String, Call>,
    /// Calls of the run that this one is a fork of, by their keys.
    copied: BTreeMap<String, Call>,
    /// Commands of other calls that a fork takes over.
    kept: BTreeSet<String>,
    /// Keys by invocation.
    keys: BTreeMap<String, String>,
    /// Digests of the arguments of commands; `None` where they cannot be known.
    digests: BTreeMap<String, Option<Digest>>,
    /// What the newest HTTP exchange of the frame answered, and its command.
    exchange: Option<(String, Answer)>,
}

impl RecordedCalls {
    pub(crate) fn of(run: RunId) -> Self {
        Self {
            run,
            generation: 0,
            is_first: true,
            own: BTreeMap::new(),
            copied: BTreeMap::new(),
            kept: BTreeSet::new(),
            keys: BTreeMap::new(),
            digests: BTreeMap::new(),
            exchange: None,
        }
    }

    /// Ends a frame.
    pub(crate) fn end_frame(&mut self) {
        (self.is_first, self.exchange) = (false, None);
    }

    /// Digest of the arguments with which a command is to be called, as far as the events say it.
    pub(crate) fn digest(&self, command: &str) -> Option<&Digest> {
        self.digests.get(command)?.as_ref()
    }

    /// The references to the values that rows lack because they stand apart from the journal, by key: whether it is the
    /// error, and where.
    pub(crate) fn apart(&self) -> impl Iterator<Item = (&str, bool, &BlobRef)> {
        self.own.iter().filter_map(|(key, call)| match &call.state {
            State::Finished { is_success, answer: Answer::Apart(at) } => Some((&**key, !is_success, at)),
            _ => None,
        })
    }

    /// Takes the next event. `value` finds a value that stands apart from the journal.
    pub(crate) fn apply(&mut self, event: &RawEvent<'_>, value: impl Fn(&BlobRef) -> Option<Payload>) {
        let command = event.read::<String>("command").unwrap_or_default();
        match &*event.kind {
            "run_continued" => self.generation = event.read("generation").unwrap_or(u32::MAX),
            "fork_decided" | "outcome_kept" => self.kept.extend(event.read::<String>("origin")),
            "node_started" => drop(self.digests.entry(command).or_insert_with(|| event.read("digest"))),
            "approval_decided" => self.decided(command, event, value),
            "http_recorded" => self.exchange = Some((command, event.answer("response"))),
            "tool_invocation_started" | "tool_invocation_refused" => self.begun(command, event),
            "tool_invocation_finished" => self.finished(&command, event),
            "invocation_resolved" => match event.read::<InvocationDecision>("decision") {
                None => self.put(event, State::Anything),
                Some(InvocationDecision::InDoubt | InvocationDecision::Ask) => {
                    self.put(event, State::InDoubt)
                }
                Some(InvocationDecision::DidNotHappen) => self.put(event, State::NotExecuted),
                // The outcome follows.
                Some(InvocationDecision::Happened | InvocationDecision::Retry) => {}
            },
            "invocation_abandoned" => self.put(event, State::InDoubt),
            _ => {}
        }
    }

    /// A person may have replaced the arguments.
    fn decided(
        &mut self,
        command: String,
        event: &RawEvent<'_>,
        value: impl Fn(&BlobRef) -> Option<Payload>,
    ) {
        let decision: Option<Payload> = match event.reference("decision") {
            Some(at) => value(&at),
            None => event.read("decision"),
        };
        let Some(decision) = decision else {
            // Nobody knows of which arguments the call is.
            self.digests.insert(command, None);
            return;
        };
        if let Some(edited) = approved_with(&decision) {
            self.digests.insert(command, Digest::of(&edited).ok());
        }
    }

    fn begun(&mut self, command: String, event: &RawEvent<'_>) {
        let (Some(key), Some(invocation)) = (event.read::<String>("key"), event.read::<String>("invocation"))
        else {
            return;
        };
        let is_refused = event.kind == "tool_invocation_refused";
        let attempt = invocation.rsplit_once('#').and_then(|(_, attempt)| attempt.parse().ok());
        let named = IdempotencyKey::new(&self.run, &CommandId::from(command.clone()), attempt.unwrap_or(0));
        let state = if is_refused { State::Anything } else { State::Begun };
        let call =
            Call { command, invocation: invocation.clone(), tool: event.read("tool"), state, is_refused };
        self.keys.insert(invocation, key.clone());
        // Only a fork begins with calls, and these have the keys that they had.
        let is_copied = self.is_first && named.as_str() != key;
        let calls = if is_copied { &mut self.copied } else { &mut self.own };
        calls.insert(key, call);
    }

    fn finished(&mut self, command: &str, event: &RawEvent<'_>) {
        let is_success = event.read::<Outcome>("outcome").is_some_and(Outcome::is_complete);
        let mut answer = event.answer(if is_success { "result" } else { "error" });
        // An exchange that is the whole value is not repeated.
        if is_success
            && answer == Answer::Nothing
            && let Some((of, response)) = &self.exchange
            && of == command
        {
            answer = response.clone();
        }
        self.put(event, State::Finished { is_success, answer });
    }

    fn put(&mut self, event: &RawEvent<'_>, state: State) {
        let key = event.read::<String>("invocation").and_then(|invocation| self.keys.get(&invocation));
        let Some(key) = key else { return };
        for calls in [&mut self.own, &mut self.copied] {
            if let Some(call) = calls.get_mut(key).filter(|call| !call.is_refused) {
                call.state = state.clone();
            }
        }
    }

    /// What is wrong with the rows of the ledger. With `complete`, all of it was decoded, and rows
    /// hold the values that stand apart from the journal, too.
    pub(crate) fn compare(&self, rows: &[LedgerEntry], complete: bool) -> Vec<String> {
        let (mut wrong, mut seen) = (Vec::new(), BTreeSet::new());
        for row in rows {
            let key = row.key.as_str();
            if !seen.insert(key) {
                wrong.push(format!("ledger row `{key}` is there twice"));
            } else if let Some(reason) = self.differs(row, complete) {
                wrong.push(format!("ledger row `{key}` {reason}"));
            }
        }
        let prefix = format!("aether:{}:", self.run);
        for (key, call) in &self.own {
            if !key.starts_with(&prefix) {
                wrong.push(format!("the history holds the call `{key}`, which is none of this run"));
            } else if !call.is_refused && !seen.contains(&**key) && !self.may_be_dropped(call) {
                wrong.push(format!("the history holds the call `{key}`, and the ledger has no row of it"));
            }
        }
        wrong
    }

    /// Whether the row of a call went with an earlier generation, whose events of it were carried over: of those of which
    /// the outcome is known, only the ones with a business key stay.
    fn may_be_dropped(&self, call: &Call) -> bool {
        let is_earlier =
            Generation::of_command(&CommandId::from(call.command.clone())) != Some(self.generation);
        self.generation > 0 && is_earlier && !matches!(call.state, State::Begun | State::InDoubt)
    }

    fn differs(&self, row: &LedgerEntry, complete: bool) -> Option<String> {
        let key = row.key.as_str();
        let copied = format!("aether:{}:copied:", self.run);
        if let Some(call) = self.own.get(key) {
            return self.differs_from(call, row, complete).or_else(|| stands_otherwise(call, row, complete));
        }
        if self.generation > 0 && Generation::of_command(&row.command) != Some(self.generation) {
            // Its events went with the generation that it is of.
            return None;
        }
        if key.starts_with(&copied) {
            if let Some((_, call)) = self.copied.iter().find(|(of, _)| key.ends_with(&***of)) {
                return self.differs_from(call, row, complete);
            }
            if self.kept.contains(row.command.as_str()) {
                return None;
            }
        }
        Some("is not in the history".into())
    }

    /// Whether a row is of another call.
    fn differs_from(&self, call: &Call, row: &LedgerEntry, complete: bool) -> Option<String> {
        if row.command.as_str() != call.command || row.invocation.as_str() != call.invocation {
            return Some(format!(
                "is of `{}`, and the history says `{}`",
                row.invocation.as_str(),
                call.invocation
            ));
        }
        if let Some(tool) = call.tool.as_ref().filter(|tool| **tool != row.tool) {
            return Some(format!("is of tool {:?}, and the history says {tool:?}", row.tool));
        }
        let digest = self.digest(&call.command).filter(|_| complete || !is_sealed(row.digest.as_str()));
        digest.filter(|digest| **digest != row.digest).map(|digest| {
            format!("is of arguments with digest {}, and the history says {digest}", row.digest.as_str())
        })
    }
}

/// Whether a row has another outcome than its call.
fn stands_otherwise(call: &Call, row: &LedgerEntry, complete: bool) -> Option<String> {
    use LedgerStatus::{Confirmed, Failed, Succeeded};
    let status = row.status.as_str();
    if !call.state.allows(row.status) {
        return Some(format!("is `{status}`, and its call in the history is not"));
    }
    if row.committed != matches!(row.status, Succeeded | Failed | Confirmed) {
        let says = if row.committed { "final" } else { "open" };
        return Some(format!("is `{status}` and says that this is {says}"));
    }
    let (answer, is_success) = match &call.state {
        State::Finished { is_success, answer } => (answer, *is_success),
        State::Begun => (&Answer::Nothing, true),
        State::InDoubt | State::NotExecuted | State::Anything => return None,
    };
    let (value, other, name) =
        if is_success { (&row.result, &row.error, "result") } else { (&row.error, &row.result, "error") };
    let is_hidden = !complete && value.as_ref().is_some_and(|value| is_sealed(value.as_str()));
    if is_hidden || answer.allows(value.as_ref(), complete) && other.is_none() {
        return None;
    }
    Some(format!("has another {name} than its call in the history"))
}

/// Whether a value went through a payload codec, and was read without it.
fn is_sealed(text: &str) -> bool {
    text.starts_with(SEALED)
}
