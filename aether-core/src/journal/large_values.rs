//! Large values: which values of an event go to the effect store, and how a journal refers to them.
//!
//! Promise: a value over `Limits::inline` is durable in the effect store, under its SHA-256, before the event that refers
//! to it is appended (first the effect, then the event); equal values are stored once; an outcome that reached the effect
//! store is committed after a crash without calling its body; a missing or altered value is an error and never another
//! value.
//!
//! A reference is a sibling of the event's fields, where no user's value can be:
//! `{"command_committed":{…,"result":null,"stored":{"result":{"sha256":"…","bytes":70000}}}}`. So a value that looks
//! like a reference is a value.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::journal::event::Event;
use crate::journal::frame::Frame;
use crate::vocabulary::payload::{Answered, Payload, PayloadError, hex};

/// Reference to a value in the effect store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BlobRef {
    /// SHA-256 of its JSON text, 64 hexadecimal digits.
    pub sha256: String,
    /// Length of that text in bytes.
    pub bytes: u64,
}

impl BlobRef {
    /// The reference to `value`.
    pub fn of(value: &Payload) -> Self {
        let text = value.as_str().as_bytes();
        Self { sha256: hex(&Sha256::digest(text)), bytes: text.len() as u64 }
    }
}

/// A large value and the reference that replaces it in the journal.
#[derive(Clone, Debug, PartialEq)]
pub struct LargeValue {
    /// The value itself.
    pub value: Payload,
    /// The reference to it.
    pub at: BlobRef,
}

/// Whether a value of these events is over `inline` bytes.
pub(crate) fn has_large(events: &[Event], inline: usize) -> bool {
    let mut found = false;
    events
        .iter()
        .for_each(|event| event.for_each_large(&mut |_, value| found |= value.as_str().len() > inline));
    found
}

/// The values of these events that are over `inline` bytes, each once.
pub(crate) fn large(events: &[Event], inline: usize) -> Vec<LargeValue> {
    let mut found: Vec<LargeValue> = Vec::new();
    let mut add = |_: &str, value: &Payload| {
        if value.as_str().len() > inline && found.iter().all(|known| known.value != *value) {
            found.push(LargeValue { value: value.clone(), at: BlobRef::of(value) });
        }
    };
    events.iter().for_each(|event| event.for_each_large(&mut add));
    found
}

impl Frame {
    /// Encodes `events` with references in place of the values in `stored`.
    ///
    /// # Errors
    /// [`PayloadError::Encode`] when an event does not serialize.
    pub fn referring(events: &[Event], stored: &[LargeValue]) -> Result<Self, PayloadError> {
        if stored.is_empty() {
            return Self::encode(events);
        }
        let texts = events.iter().map(|event| refer(event, stored)).collect::<Result<Vec<_>, _>>()?;
        let count = u32::try_from(events.len()).unwrap_or(u32::MAX);
        Ok(Self { count, text: format!("[{}]", texts.join(",")) })
    }
}

impl Frame {
    /// As [`Frame::either`], with references in place of the values in `stored`.
    pub(crate) fn referring_either(
        events: &[Event],
        otherwise: &Event,
        stored: &[LargeValue],
    ) -> Result<(Self, Self), PayloadError> {
        if stored.is_empty() {
            return Self::either(events, otherwise);
        }
        let before = events.len().saturating_sub(1);
        let others: Vec<_> = events.iter().take(before).chain([otherwise]).cloned().collect();
        Ok((Self::referring(events, stored)?, Self::referring(&others, stored)?))
    }
}

/// One event as JSON, with references in place of the values in `stored`.
pub(crate) fn refer(event: &Event, stored: &[LargeValue]) -> Result<String, PayloadError> {
    let encode = |ty, error: serde_json::Error| PayloadError::Encode { ty, reason: error.to_string() };
    let mut references = BTreeMap::new();
    let mut light = event.clone();
    event.for_each_large(&mut |field, value| {
        if let Some(known) = stored.iter().find(|known| known.value == *value) {
            references.insert(field, &known.at);
            light.put_large(field, Payload::null());
        }
    });
    let mut text = serde_json::to_string(&light).map_err(|e| encode("a journal event", e))?;
    if !references.is_empty() && text.ends_with("}}") {
        let references = serde_json::to_string(&references).map_err(|e| encode("references", e))?;
        text.truncate(text.len() - 2);
        text.push_str(",\"stored\":");
        text.push_str(&references);
        text.push_str("}}");
    }
    Ok(text)
}

/// The references in each event of a frame's text, by field.
pub(crate) fn references(text: &str) -> Result<Vec<BTreeMap<String, BlobRef>>, String> {
    #[derive(Deserialize)]
    struct Fields {
        #[serde(default)]
        stored: BTreeMap<String, BlobRef>,
    }
    // Every frame with a reference contains this text; a frame that contains it need not have a reference.
    if !text.contains("\"stored\":{") {
        return Ok(Vec::new());
    }
    let events: Vec<BTreeMap<String, Fields>> = serde_json::from_str(text).map_err(|e| e.to_string())?;
    Ok(events
        .into_iter()
        .map(|event| event.into_values().flat_map(|fields| fields.stored).collect())
        .collect())
}

/// What may be names of contents in a text: 64 hexadecimal digits each, in a list that is called `contents`. So a run that
/// takes values over finds the contents that they name.
pub(crate) fn named_contents(text: &str) -> impl Iterator<Item = &str> {
    let mut in_list = false;
    text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).filter(move |word| {
        let is_name = word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        in_list = *word == "contents" || in_list && is_name;
        in_list && is_name
    })
}

/// The result of the body, from the events of its append: an HTTP exchange may be the whole value.
pub(crate) fn returned(events: &[Event]) -> Option<Answered> {
    let result = events.iter().find_map(|event| match event {
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
    result.or_else(exchanged)
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
    use crate::journal::event::CommandCommitted;
    use crate::vocabulary::id::CommandId;
    use crate::vocabulary::outcome::Outcome;

    fn committed(result: &str) -> Event {
        CommandCommitted {
            command: CommandId::new("0", "look"),
            outcome: Outcome::Success,
            result: Some(Payload::from_text(result.into()).unwrap()),
            error: None,
            caught_up: false,
            spent: None,
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
    fn contents_are_found_by_the_list_that_names_them() {
        let (a, b, c) = ("a".repeat(64), "B0".repeat(32), "c".repeat(64));
        let list = format!(r#"{{"contents":["{a}","{b}"],"sha256":"{c}","contents":[]}}"#);
        for text in [list.clone(), serde_json::to_string(&list).unwrap()] {
            assert_eq!(named_contents(&text).collect::<Vec<_>>(), [&*a, &*b], "{text}");
        }
        assert_eq!(named_contents(&format!(r#""contents of {a}""#)).count(), 0);
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
