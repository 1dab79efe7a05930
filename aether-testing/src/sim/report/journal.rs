//! A journal as text for people and snapshots.
//!
//! Promise: the text of one journal does not depend on the build, the machine, or the order of keys; that of a snapshot
//! not on when the run began or which UUIDs it drew either.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use aether_core::id::CommandId;
use aether_core::journal::event::Event;
use aether_core::payload::Payload;
use aether_effects::http::sort_body;
use jiff::Timestamp;
use serde_json::Value;

/// Fields that change from build to build.
const VOLATILE: [&str; 5] = ["digest", "fingerprint", "seed", "site", "worker"];

/// One event a line: position, kind, and fields in alphabetical order.
pub(crate) fn journal_text(events: &[Event]) -> String {
    let mut text = String::new();
    for (position, event) in events.iter().enumerate() {
        let _writing_to_a_string = writeln!(text, "{position:>3} {}", event_text(event));
    }
    text
}

/// The text of a journal for snapshots: times from `begun` on, UUIDs numbered as they first appear.
pub(super) fn journal_snapshot(events: &[Event], begun: Timestamp) -> String {
    let mut neutral = Neutral { begun, uuids: BTreeMap::new() };
    let mut text = String::new();
    for (position, event) in events.iter().enumerate() {
        let mut fields = fields(event);
        fields.values_mut().for_each(|value| neutral.value(value));
        let _writing_to_a_string = writeln!(text, "{position:>3} {}", line(&event.kind(), fields));
    }
    text
}

/// Kind, command, and the other fields in alphabetical order.
pub(super) fn event_text(event: &Event) -> String {
    line(&event.kind(), fields(event))
}

fn line(kind: &str, mut fields: BTreeMap<String, Value>) -> String {
    let mut text = kind.to_owned();
    if let Some(Value::String(command)) = fields.remove("command") {
        let _writing_to_a_string = write!(text, " {command}");
    }
    for (field, value) in fields {
        let _writing_to_a_string = write!(text, " {field}={}", sorted(&value));
    }
    text
}

/// Takes out of values what differs from run to run and means the same.
struct Neutral {
    begun: Timestamp,
    uuids: BTreeMap<String, usize>,
}

impl Neutral {
    fn value(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.value(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// A text with its times and UUIDs replaced, wherever they stand in it.
    fn text(&mut self, text: &str) -> String {
        let (mut neutral, mut rest) = (String::with_capacity(text.len()), text);
        while let Some(first) = rest.chars().next() {
            let taken = if let Some(uuid) = rest.get(..UUID).filter(|start| is_uuid(start)) {
                let next = self.uuids.len() + 1;
                let number = *self.uuids.entry(uuid.into()).or_insert(next);
                let _writing_to_a_string = write!(neutral, "uuid#{number}");
                UUID
            } else if let Some((length, at)) = time(rest) {
                neutral.push_str(&since(self.begun, at));
                length
            } else {
                neutral.push(first);
                first.len_utf8()
            };
            rest = rest.get(taken..).unwrap_or_default();
        }
        neutral
    }
}

/// The time at the start of `text`, and the length of its text.
fn time(text: &str) -> Option<(usize, Timestamp)> {
    let date = text.as_bytes().get(..11)?;
    if date[4] != b'-' || date[7] != b'-' || date[10] != b'T' {
        return None;
    }
    let length = text.find('Z')? + 1;
    Some((length, text.get(..length)?.parse().ok()?))
}

/// Length of a UUID in hyphenated form.
const UUID: usize = 36;

fn is_uuid(text: &str) -> bool {
    text.as_bytes().get(8) == Some(&b'-') && uuid::Uuid::try_parse(text).is_ok()
}

/// A time as the time passed since `begun`, for example `+30d2h1.5s`.
fn since(begun: Timestamp, at: Timestamp) -> String {
    let passed = at.duration_since(begun);
    let (sign, passed) = (if passed.is_negative() { '-' } else { '+' }, passed.unsigned_abs());
    let (days, seconds) = (passed.as_secs() / 86_400, passed.as_secs() % 86_400);
    let parts = [(days, 'd'), (seconds / 3600, 'h'), (seconds / 60 % 60, 'm')];
    let mut text = String::from(sign);
    for (count, unit) in parts.into_iter().filter(|(count, _)| *count > 0) {
        let _writing_to_a_string = write!(text, "{count}{unit}");
    }
    let (whole, fraction) = (seconds % 60, passed.subsec_nanos());
    if whole > 0 || fraction > 0 || text.len() == 1 {
        let decimals = format!("{fraction:09}");
        let decimals = decimals.trim_end_matches('0');
        let point = if decimals.is_empty() { "" } else { "." };
        let _writing_to_a_string = write!(text, "{whole}{point}{decimals}s");
    }
    text
}

fn fields(event: &Event) -> BTreeMap<String, Value> {
    let json = serde_json::to_string(event).unwrap_or_default();
    let mut by_kind: BTreeMap<String, BTreeMap<String, Value>> =
        serde_json::from_str(&json).unwrap_or_default();
    let mut fields = by_kind.pop_first().map(|(_, fields)| fields).unwrap_or_default();
    fields.retain(|name, _| !VOLATILE.contains(&name.as_str()));
    if let (Some(command), Some(input)) = (event.command(), fields.get_mut("input")) {
        sort_request(command, input);
    }
    if let (Event::HttpRecorded(_), Some(request)) = (event, fields.get_mut("request")) {
        sort_body(request);
    }
    fields
}

/// Sorts the members of the JSON body that the arguments of a command hold, where it is a request of a workflow: their order
/// does not count.
pub(crate) fn sort_request(command: &CommandId, args: &mut Value) {
    if is_request(command) {
        sort_body(args);
    }
}

/// Whether both are the arguments of one request of a workflow, whose body may have its members in another order.
pub(crate) fn is_same_request(command: &CommandId, one: &Payload, other: &Payload) -> bool {
    let sorted = |args: &Payload| {
        let mut args: Value = args.decode().ok()?;
        sort_body(&mut args);
        Some(args)
    };
    is_request(command) && sorted(one).is_some_and(|one| sorted(other) == Some(one))
}

fn is_request(command: &CommandId) -> bool {
    command.name().starts_with("http.")
}

/// JSON with the keys of every object in alphabetical order.
fn sorted(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields: BTreeMap<_, _> = fields.iter().collect();
            let fields: Vec<_> = fields
                .into_iter()
                .map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), sorted(value)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(sorted).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_from_the_beginning_and_uuids_by_number() {
        let begun: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut neutral = Neutral { begun, uuids: BTreeMap::new() };
        let (a, b) = ("67e55044-10b1-426f-9247-bb680e5fe0c8", "67e55044-10b1-426f-9247-bb680e5fe0c9");
        for (text, expected) in [
            ("2026-01-01T00:00:00Z", "+0s"),
            ("2026-01-31T02:00:01.5Z", "+30d2h1.5s"),
            ("2025-12-31T23:59:00Z", "-1m"),
            ("Z", "Z"),
            (a, "uuid#1"),
            ("at 2026-01-02T00:00:00Z, Zoe", "at +1d, Zoe"),
            (&format!("ü{b}/{a}-x"), "üuuid#2/uuid#1-x"),
        ] {
            assert_eq!(neutral.text(text), expected);
        }
    }
}
