//! The effect store: where large values live, and how a journal refers to them.
//!
//! Promise: a value over [`Limits::inline`](crate::host::Limits::inline) is durable here, under its SHA-256, before
//! the event that refers to it is appended (first the effect, then the event); equal values are kept once; an outcome
//! that got as far as this store is taken over after a crash without running its body; a missing or altered value is
//! [`StoreError::Corrupt`] and never another value.
//!
//! A reference stands beside the fields of its event, where no user's value can stand:
//! `{"command_committed":{…,"result":null,"stored":{"result":{"sha256":"…","bytes":70000}}}}`. So a value that looks
//! like a reference is a value.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::event::Event;
use crate::id::{IdempotencyKey, RunId};
use crate::journal::{Frame, JournalError, StoredFrame};
use crate::ledger::{LedgerEntry, LedgerStatus};
use crate::payload::{Payload, PayloadError, hex};

use crate::payload::Answered;
use crate::store::{Store, StoreError};

/// Name of a value in the effect store.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BlobRef {
    /// SHA-256 of its JSON text, 64 hexadecimal digits.
    pub sha256: String,
    /// Length of that text in bytes.
    pub bytes: u64,
}

impl BlobRef {
    /// The name of `value`.
    pub fn of(value: &Payload) -> Self {
        let text = value.as_str().as_bytes();
        Self { sha256: hex(&Sha256::digest(text)), bytes: text.len() as u64 }
    }
}

/// A large value together with its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// The value.
    pub value: Payload,
    /// Its name.
    pub at: BlobRef,
}

/// An outcome on its way into the journal: what makes a crash between the two writes harmless.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredEffect {
    /// The run.
    pub run: RunId,
    /// Key of the attempt; attempts without a ledger row have one too: run, command and attempt.
    pub key: IdempotencyKey,
    /// The events that are about to be appended.
    pub frame: Frame,
    /// What the ledger row, if there is one, is about to become.
    pub status: Option<LedgerStatus>,
}

/// The values of an event that may be large, with the names of their fields.
fn values(event: &Event) -> [Option<(&'static str, &Payload)>; 2] {
    fn perhaps<'e>(name: &'static str, value: &'e Option<Payload>) -> Option<(&'static str, &'e Payload)> {
        value.as_ref().map(|value| (name, value))
    }
    let one = |name, value| [Some((name, value)), None];
    match event {
        Event::RunCreated(e) => one("input", &e.input),
        Event::RunCompleted(e) => one("result", &e.result),
        Event::RunFailed(e) => one("error", &e.error),
        Event::PlanGenerated(e) => one("plan", &e.plan),
        Event::NodeStarted(e) => [perhaps("input", &e.input), None],
        Event::CommandEmitted(e) => one("input", &e.input),
        Event::CommandCommitted(e) => [perhaps("result", &e.result), perhaps("error", &e.error)],
        Event::ToolInvocationFinished(e) => [perhaps("result", &e.result), perhaps("error", &e.error)],
        Event::StepRetried(e) => one("error", &e.error),
        Event::HttpRecorded(e) => [Some(("request", &e.request)), Some(("response", &e.response))],
        Event::WaitCompleted(e) => [perhaps("value", &e.value), None],
        Event::SignalReceived(e) => one("value", &e.value),
        Event::ApprovalRequested(e) => one("request", &e.request),
        Event::ApprovalDecided(e) => one("decision", &e.decision),
        Event::CompensationRecorded(e) => [perhaps("args", &e.args), None],
        _ => [None, None],
    }
}

/// Puts `value` into the field of this name; says whether the event has one.
fn put(event: &mut Event, field: &str, value: Payload) -> bool {
    match (event, field) {
        (Event::RunCreated(e), "input") => e.input = value,
        (Event::RunCompleted(e), "result") => e.result = value,
        (Event::RunFailed(e), "error") => e.error = value,
        (Event::PlanGenerated(e), "plan") => e.plan = value,
        (Event::NodeStarted(e), "input") => e.input = Some(value),
        (Event::CommandEmitted(e), "input") => e.input = value,
        (Event::CommandCommitted(e), "result") => e.result = Some(value),
        (Event::CommandCommitted(e), "error") => e.error = Some(value),
        (Event::ToolInvocationFinished(e), "result") => e.result = Some(value),
        (Event::ToolInvocationFinished(e), "error") => e.error = Some(value),
        (Event::StepRetried(e), "error") => e.error = value,
        (Event::HttpRecorded(e), "request") => e.request = value,
        (Event::HttpRecorded(e), "response") => e.response = value,
        (Event::WaitCompleted(e), "value") => e.value = Some(value),
        (Event::SignalReceived(e), "value") => e.value = value,
        (Event::ApprovalRequested(e), "request") => e.request = value,
        (Event::ApprovalDecided(e), "decision") => e.decision = value,
        (Event::CompensationRecorded(e), "args") => e.args = Some(value),
        _ => return false,
    }
    true
}

/// Whether a value of these events is over `inline` bytes.
pub(crate) fn has_large(events: &[Event], inline: usize) -> bool {
    events.iter().flat_map(values).flatten().any(|(_, value)| value.as_str().len() > inline)
}

/// The values of these events that are over `inline` bytes, each once.
pub(crate) fn large(events: &[Event], inline: usize) -> Vec<Kept> {
    let mut kept: Vec<Kept> = Vec::new();
    for (_, value) in events.iter().flat_map(values).flatten() {
        if value.as_str().len() > inline && kept.iter().all(|known| known.value != *value) {
            kept.push(Kept { value: value.clone(), at: BlobRef::of(value) });
        }
    }
    kept
}

impl Frame {
    /// Encodes `events` with references in place of the values that are `kept`.
    ///
    /// # Errors
    /// [`PayloadError::Encode`] when an event does not serialize.
    pub fn referring(events: &[Event], kept: &[Kept]) -> Result<Self, PayloadError> {
        if kept.is_empty() {
            return Self::encode(events);
        }
        let texts = events.iter().map(|event| refer(event, kept)).collect::<Result<Vec<_>, _>>()?;
        let count = u32::try_from(events.len()).unwrap_or(u32::MAX);
        Ok(Self { count, text: format!("[{}]", texts.join(",")) })
    }
}

/// One event as JSON, with references in place of the values that are `kept`.
fn refer(event: &Event, kept: &[Kept]) -> Result<String, PayloadError> {
    let encode = |ty, error: serde_json::Error| PayloadError::Encode { ty, reason: error.to_string() };
    let mut stored = BTreeMap::new();
    let mut light = event.clone();
    for (field, value) in values(event).into_iter().flatten() {
        if let Some(known) = kept.iter().find(|known| known.value == *value) {
            stored.insert(field, &known.at);
            put(&mut light, field, Payload::null());
        }
    }
    let mut text = serde_json::to_string(&light).map_err(|e| encode("a journal event", e))?;
    if !stored.is_empty() && text.ends_with("}}") {
        let stored = serde_json::to_string(&stored).map_err(|e| encode("references", e))?;
        text.truncate(text.len() - 2);
        text.push_str(",\"stored\":");
        text.push_str(&stored);
        text.push_str("}}");
    }
    Ok(text)
}

/// The references that each event of a frame's text holds.
fn references(text: &str) -> Result<Vec<BTreeMap<String, BlobRef>>, String> {
    #[derive(Deserialize)]
    struct Fields {
        #[serde(default)]
        stored: BTreeMap<String, BlobRef>,
    }
    // No frame without a reference holds this; a frame with it need not hold a reference.
    if !text.contains("\"stored\":{") {
        return Ok(Vec::new());
    }
    let events: Vec<BTreeMap<String, Fields>> = serde_json::from_str(text).map_err(|e| e.to_string())?;
    Ok(events
        .into_iter()
        .map(|event| event.into_values().flat_map(|fields| fields.stored).collect())
        .collect())
}

/// Reads values from the effect store, each once.
struct Reader<'a> {
    store: &'a dyn Store,
    run: &'a RunId,
    known: HashMap<BlobRef, Payload>,
}

impl Reader<'_> {
    fn corrupt(&self, reason: impl std::fmt::Display) -> StoreError {
        StoreError::Corrupt { store: self.store.describe(), reason: format!("run `{}`: {reason}", self.run) }
    }

    /// Puts the values of `text`'s references into its `events`.
    async fn fill(&mut self, text: &str, events: &mut [Event]) -> Result<(), StoreError> {
        let references =
            references(text).map_err(|e| self.corrupt(format_args!("unreadable references: {e}")))?;
        for (event, references) in events.iter_mut().zip(references) {
            for (field, at) in references {
                let value = self.value(event, at).await?;
                // A field of a kind that only a newer build knows is none of ours.
                let _known = put(event, &field, value);
            }
        }
        Ok(())
    }

    async fn value(&mut self, event: &Event, at: BlobRef) -> Result<Payload, StoreError> {
        if let Some(value) = self.known.get(&at) {
            return Ok(value.clone());
        }
        let about = || {
            let of = event.command().map_or_else(|| event.kind(), |command| format!("command `{command}`"));
            format!("the value {} ({} bytes) of {of}", at.sha256, at.bytes)
        };
        let Some(bytes) = self.store.blob(&at.sha256).await? else {
            return Err(self.corrupt(format_args!("{} is missing from the effect store", about())));
        };
        if bytes.len() as u64 != at.bytes || hex(&Sha256::digest(&bytes)) != at.sha256 {
            return Err(self.corrupt(format_args!("{} was altered in the effect store", about())));
        }
        let value = String::from_utf8(bytes).ok().and_then(|text| Payload::from_text(text).ok());
        let Some(value) = value else {
            return Err(self.corrupt(format_args!("{} is not JSON", about())));
        };
        self.known.insert(at, value.clone());
        Ok(value)
    }
}

/// Puts values of the effect store in place of the references to them. `events` are those of `frames`, in order.
///
/// # Errors
/// [`StoreError::Corrupt`] naming run, command and hash where a value is missing or was altered.
pub async fn fill(
    store: &dyn Store,
    run: &RunId,
    frames: &[StoredFrame],
    events: &mut [Event],
) -> Result<(), StoreError> {
    let mut reader = Reader { store, run, known: HashMap::new() };
    let first = frames.first().map_or(0, |frame| frame.position);
    for frame in frames {
        let from = usize::try_from(frame.position.saturating_sub(first)).unwrap_or(usize::MAX);
        reader.fill(&frame.text, events.get_mut(from..).unwrap_or_default()).await?;
    }
    Ok(())
}

/// Writes values of the effect store into those of a frame's events that refer to some; the others stay as they were
/// written. `events` are the frame's, as JSON.
///
/// # Errors
/// [`StoreError::Corrupt`] when the frame is unreadable, or a value is missing or was altered.
pub(crate) async fn inline(
    store: &dyn Store,
    run: &RunId,
    frame: &StoredFrame,
    events: &mut [Payload],
) -> Result<(), StoreError> {
    let mut reader = Reader { store, run, known: HashMap::new() };
    let references = references(&frame.text).map_err(|e| reader.corrupt(e))?;
    if references.iter().all(BTreeMap::is_empty) {
        return Ok(());
    }
    let mut whole = frame.events().map_err(|e| reader.corrupt(e))?;
    reader.fill(&frame.text, &mut whole).await?;
    for ((text, event), references) in events.iter_mut().zip(&whole).zip(references) {
        if !references.is_empty() {
            *text = Payload::encode(event).map_err(|e| reader.corrupt(e))?;
        }
    }
    Ok(())
}

/// The events of `frames`, whole: with the values that the effect store keeps.
///
/// # Errors
/// [`StoreError::Corrupt`] when a frame is unreadable, or a value is missing or was altered.
pub async fn events(
    store: &dyn Store,
    run: &RunId,
    frames: &[StoredFrame],
) -> Result<Vec<Event>, StoreError> {
    let corrupt = |error: JournalError| StoreError::Corrupt {
        store: store.describe(),
        reason: format!("run `{run}`: {error}"),
    };
    let mut events = Vec::new();
    for frame in frames {
        events.append(&mut frame.events().map_err(corrupt)?);
    }
    fill(store, run, frames, &mut events).await?;
    Ok(events)
}

/// Fills in the results and errors of ledger rows of `run` that stand in the effect store alone, where they are large.
///
/// # Errors
/// [`StoreError::Corrupt`] naming run, command and hash where a value is missing or was altered.
pub async fn complete(store: &dyn Store, run: &RunId, rows: &mut [LedgerEntry]) -> Result<(), StoreError> {
    let bare = |row: &LedgerEntry| row.committed && row.result.is_none() && row.error.is_none();
    if !rows.iter().any(bare) {
        return Ok(());
    }
    let effects = store.effects(run).await?;
    for row in rows.iter_mut().filter(|row| bare(row)) {
        let Some(effect) = effects.iter().find(|effect| effect.key == row.key) else { continue };
        let (events, _) = effect_events(store, effect).await?;
        match returned(&events) {
            Some(Ok(value)) => row.result = Some(value),
            Some(Err(error)) => row.error = Some(error),
            None => {}
        }
    }
    Ok(())
}

/// The events of an outcome that the effect store holds, and the large values among theirs.
pub(crate) async fn effect_events(
    store: &dyn Store,
    effect: &StoredEffect,
) -> Result<(Vec<Event>, Vec<Kept>), StoreError> {
    let mut reader = Reader { store, run: &effect.run, known: HashMap::new() };
    let mut events: Vec<Event> = serde_json::from_str(&effect.frame.text).map_err(|e| {
        reader.corrupt(format_args!("the effect stored under `{}` is unreadable: {e}", effect.key))
    })?;
    reader.fill(&effect.frame.text, &mut events).await?;
    Ok((events, reader.known.into_iter().map(|(at, value)| Kept { value, at }).collect()))
}

/// What the body came back with, as the events of its append tell: an HTTP exchange may be the whole value.
pub(crate) fn returned(events: &[Event]) -> Option<Answered> {
    let told = events.iter().find_map(|event| match event {
        Event::ToolInvocationFinished(e) => one_of(&e.result, &e.error),
        Event::CommandCommitted(e) => one_of(&e.result, &e.error),
        _ => None,
    });
    let exchanged = || {
        events.iter().rev().find_map(|event| match event {
            Event::HttpRecorded(e) => Some(Ok(e.response.clone())),
            _ => None,
        })
    };
    told.or_else(exchanged)
}

fn one_of(result: &Option<Payload>, error: &Option<Payload>) -> Option<Answered> {
    error.clone().map(Err).or(result.clone().map(Ok))
}

/// The final outcome, if these events hold one.
pub(crate) fn final_outcome(events: &[Event]) -> Option<Answered> {
    events
        .iter()
        .any(|event| matches!(event, Event::CommandCommitted(_)))
        .then(|| returned(events).unwrap_or(Ok(Payload::null())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::CommandCommitted;
    use crate::id::CommandId;
    use crate::outcome::Outcome;

    fn committed(result: &str) -> Event {
        CommandCommitted {
            command: CommandId::new("0", "look"),
            outcome: Outcome::Success,
            result: Some(Payload::from_text(result.into()).unwrap()),
            error: None,
            caught_up: false,
        }
        .into()
    }

    #[test]
    fn a_value_that_looks_like_a_reference_is_a_value() {
        let lookalike = r#"{"stored":{"result":{"sha256":"00","bytes":1}}}"#;
        let frame = Frame::encode(&[committed(lookalike)]).unwrap();
        assert!(frame.text.contains("\"stored\":{"));
        assert_eq!(references(&frame.text), Ok(vec![BTreeMap::new()]));
    }

    #[test]
    fn a_large_value_is_replaced_by_its_name() {
        let events = [committed("[1,2,3,4,5,6,7,8,9]"), committed("1")];
        let kept = large(&events, 10);
        let frame = Frame::referring(&events, &kept).unwrap();
        assert!(!frame.text.contains("[1,2,3"), "{}", frame.text);
        let found = references(&frame.text).unwrap();
        assert_eq!((found[0].get("result"), found[1].len()), (Some(&kept[0].at), 0));
        assert_eq!(kept[0].at.bytes, 19);
        assert_eq!(Frame::referring(&events, &[]).unwrap(), Frame::encode(&events).unwrap());
    }
}
