//! Encoded events: how a frame says what stands in the open and what went through a payload codec.
//!
//! Promise: what is not on the list of open fields is encoded, also a field that a later build adds; decoding gives back the
//! event byte for byte, and refuses one whose kind or open fields are not those that were encoded.
//!
//! An encoded event has its open fields and, beside them, `encoded`, where no user's value can be:
//! `{"command_committed":{"command":"0:look","outcome":"success","encoded":{"key":"2026","data":"…"}}}`. The data is the
//! whole event.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::vocabulary::codec::{CodecError, EncodedPayload};

/// The field of an event that holds the rest of it, encoded.
const FIELD: &str = "encoded";
/// Every frame with an encoded event contains this text; a frame that contains it need not have one.
const TRACE: &str = "\"encoded\":{\"key\":";

/// Fields of events that stay in the open: ids, names and places in the program, times, and how things stand. `version`, too,
/// in events of [`VERSIONED`].
const OPEN: &[&str] = &[
    "asks",
    "attempt",
    "caught_up",
    "change",
    "child",
    "class",
    "command",
    "detached",
    "due",
    "events",
    "exchange",
    "expired_at",
    "fingerprint",
    "generation",
    "half_way",
    "invocation",
    "irreversible",
    "key",
    "labels",
    "limit",
    "limit_ms",
    "module",
    "name",
    "next",
    "on",
    "origin",
    "outcome",
    "parent",
    "path",
    "position",
    "previous",
    "resource",
    "site",
    "spent_ms",
    "started_as",
    "started_at",
    "step",
    "terms",
    "tool",
    "unawaited",
    "unclassified",
    "undo",
    "undoes",
    "until",
    "verdict",
    "verifier",
    "winner",
    "worker",
    "workflow",
];

/// Kinds of events whose `version` is a number of the program. A resource's is a digest of what it holds.
const VERSIONED: &[&str] = &["run_created", "version_marked"];

/// Whether this field of an event of this kind stays in the open.
fn is_open(kind: &str, name: &str) -> bool {
    OPEN.contains(&name) || name == "version" && VERSIONED.contains(&kind)
}

/// The value of [`FIELD`].
#[derive(Serialize, Deserialize)]
struct Encoded {
    key: String,
    data: String,
}

/// The text form of encoded bytes.
pub(crate) fn to_base64(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

/// The bytes of that text form.
pub(crate) fn from_base64(text: &str) -> Option<Vec<u8>> {
    BASE64.decode(text).ok()
}

type Fields<'t> = BTreeMap<String, &'t RawValue>;

fn failed(error: impl std::fmt::Display) -> CodecError {
    CodecError::Failed { reason: format!("a frame is not a list of events: {error}") }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The key of the first encoded event of a frame's text; `None` where no event is encoded.
pub(crate) fn key_of(text: &str) -> Option<String> {
    if !text.contains(TRACE) {
        return None;
    }
    let events: Vec<BTreeMap<String, Fields<'_>>> = serde_json::from_str(text).ok()?;
    let fields = events.iter().flat_map(BTreeMap::values).find_map(|fields| fields.get(FIELD))?;
    Some(serde_json::from_str::<Encoded>(fields.get()).map_or_else(|_| String::new(), |encoded| encoded.key))
}

/// The text of a frame whose events `encode` encodes, each by its number in the frame and its kind; `None` where it leaves
/// all as they are.
pub(crate) fn encode_events(
    text: &str,
    mut encode: impl FnMut(usize, &str, &str) -> Result<Option<EncodedPayload>, CodecError>,
) -> Result<Option<String>, CodecError> {
    let events: Vec<Fields<'_>> = serde_json::from_str(text).map_err(failed)?;
    let mut changed = false;
    let mut encoded = Vec::with_capacity(events.len());
    for (number, event) in events.iter().enumerate() {
        let mut kinds = Vec::with_capacity(1);
        for (kind, whole) in event {
            let fields: Fields<'_> = serde_json::from_str(whole.get()).map_err(failed)?;
            let is_open = fields.keys().all(|name| is_open(kind, name));
            let value = if is_open { None } else { encode(number, kind, whole.get())? };
            changed |= value.is_some();
            let text = match value {
                Some(value) => in_part(kind, &fields, &value)?,
                None => whole.get().to_owned(),
            };
            kinds.push(format!("{}:{text}", quoted(kind)));
        }
        encoded.push(format!("{{{}}}", kinds.join(",")));
    }
    Ok(changed.then(|| format!("[{}]", encoded.join(","))))
}

/// The open fields of an event, with the whole of it encoded.
fn in_part(kind: &str, fields: &Fields<'_>, value: &EncodedPayload) -> Result<String, CodecError> {
    let open = fields.iter().filter(|(name, _)| is_open(kind, name));
    let mut parts: Vec<_> = open.map(|(name, value)| format!("{}:{}", quoted(name), value.get())).collect();
    let encoded = Encoded { key: value.key.clone(), data: to_base64(&value.bytes) };
    let encoded = serde_json::to_string(&encoded).map_err(failed)?;
    parts.push(format!("\"{FIELD}\":{encoded}"));
    Ok(format!("{{{}}}", parts.join(",")))
}

/// The text of a frame as it was before it was encoded; `None` where no event is encoded. `decode` decodes each by its
/// number in the frame and its kind.
pub(crate) fn decode_events(
    text: &str,
    mut decode: impl FnMut(usize, &str, &EncodedPayload) -> Result<String, CodecError>,
) -> Result<Option<String>, CodecError> {
    if !text.contains(TRACE) {
        return Ok(None);
    }
    let events: Vec<Fields<'_>> = serde_json::from_str(text).map_err(failed)?;
    let mut changed = false;
    let mut decoded = Vec::with_capacity(events.len());
    for (number, event) in events.iter().enumerate() {
        let mut kinds = Vec::with_capacity(1);
        for (kind, whole) in event {
            let fields: Fields<'_> = serde_json::from_str(whole.get()).map_err(failed)?;
            let text = match fields.get(FIELD) {
                Some(encoded) => {
                    changed = true;
                    let Encoded { key, data } = serde_json::from_str(encoded.get()).map_err(failed)?;
                    let altered = || CodecError::Altered { key: key.clone() };
                    let bytes = from_base64(&data).ok_or_else(altered)?;
                    let plain = decode(number, kind, &EncodedPayload { key: key.clone(), bytes })?;
                    if !agrees(kind, &fields, &plain) {
                        return Err(altered());
                    }
                    plain
                }
                None => whole.get().to_owned(),
            };
            kinds.push(format!("{}:{text}", quoted(kind)));
        }
        decoded.push(format!("{{{}}}", kinds.join(",")));
    }
    Ok(changed.then(|| format!("[{}]", decoded.join(","))))
}

/// Whether `plain` can be what `text` is without its codec: its open fields, its kinds and what is not encoded are the same.
/// What is encoded, nobody without the keys can compare.
pub(crate) fn may_decode_to(text: &str, plain: &str) -> bool {
    let Ok(events) = serde_json::from_str::<Vec<Fields<'_>>>(plain) else { return false };
    let claimed = |number: usize, kind: &str, value: &EncodedPayload| {
        let event = events.get(number).and_then(|event| event.get(kind));
        let altered = || CodecError::Altered { key: value.key.clone() };
        event.map(|event| event.get().to_owned()).ok_or_else(altered)
    };
    decode_events(text, claimed).is_ok_and(|decoded| decoded.as_deref() == Some(plain))
}

/// Whether the open fields of an event are those of the event that was encoded.
fn agrees(kind: &str, fields: &Fields<'_>, plain: &str) -> bool {
    let Ok(whole) = serde_json::from_str::<Fields<'_>>(plain) else { return false };
    let open = whole.keys().filter(|name| is_open(kind, name)).count();
    open + 1 == fields.len()
        && fields
            .iter()
            .filter(|(name, _)| *name != FIELD)
            .all(|(name, value)| whole.get(name).is_some_and(|known| known.get() == value.get()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turned(bytes: &[u8]) -> Vec<u8> {
        bytes.iter().map(|byte| !byte).collect()
    }

    fn encode(_: usize, _: &str, text: &str) -> Result<Option<EncodedPayload>, CodecError> {
        Ok(Some(EncodedPayload { key: "k".into(), bytes: turned(text.as_bytes()) }))
    }

    fn decode(_: usize, _: &str, value: &EncodedPayload) -> Result<String, CodecError> {
        String::from_utf8(turned(&value.bytes)).map_err(failed)
    }

    const FRAME: &str = r#"[{"node_finished":{"command":"0:x"}},{"command_committed":{"command":"0:x","outcome":"success","result":{"a": "needle"}}},{"moon_landed":{"who":"needle"}}]"#;

    #[test]
    fn what_is_not_open_is_encoded_and_comes_back_byte_for_byte() {
        let text = encode_events(FRAME, encode).unwrap().unwrap();
        assert!(!text.contains("needle"), "{text}");
        assert!(text.contains(r#"{"node_finished":{"command":"0:x"}}"#), "{text}");
        assert!(text.contains(r#"{"command":"0:x","outcome":"success","encoded":{"key":"k","#), "{text}");
        assert_eq!(key_of(&text).as_deref(), Some("k"));
        assert_eq!(decode_events(&text, decode).unwrap().as_deref(), Some(FRAME));
    }

    #[test]
    fn an_open_field_that_was_changed_is_noticed() {
        let text = encode_events(FRAME, encode).unwrap().unwrap();
        for (from, to) in
            [("\"success\"", "\"pure\""), ("\"outcome\":\"success\",", ""), ("\"0:x\",", "\"1:x\",")]
        {
            let altered = text.replace(from, to);
            assert_ne!(altered, text);
            assert_eq!(
                decode_events(&altered, decode),
                Err(CodecError::Altered { key: "k".into() }),
                "{from}"
            );
        }
    }

    #[test]
    fn a_claim_of_what_was_encoded_agrees_with_all_that_is_open() {
        let text = encode_events(FRAME, encode).unwrap().unwrap();
        assert!(may_decode_to(&text, FRAME));
        assert!(
            may_decode_to(&text, &FRAME.replace("needle", "straw")),
            "nobody can see that without the key"
        );
        for (from, to) in [
            ("\"0:x\"}}", "\"0:y\"}}"),
            ("\"success\"", "\"pure\""),
            ("moon_landed", "sun_landed"),
            ("[{\"node_finished\":{\"command\":\"0:x\"}},", "["),
            ("]", ",{\"moon_landed\":{}}]"),
        ] {
            let claimed = FRAME.replace(from, to);
            assert_ne!(claimed, FRAME);
            assert!(!may_decode_to(&text, &claimed), "{claimed}");
        }
        assert!(!may_decode_to(FRAME, FRAME), "nothing of it is encoded");
    }

    #[test]
    fn the_version_of_a_resource_is_not_open_and_the_program_s_is() {
        let text = r#"[{"state_changed":{"command":"0:x","resource":"file","id":"a","version":"d1gest"}},{"run_created":{"version":3,"input":"x"}}]"#;
        let encoded = encode_events(text, encode).unwrap().unwrap();
        assert!(!encoded.contains("d1gest") && encoded.contains("\"version\":3"), "{encoded}");
        assert_eq!(decode_events(&encoded, decode).unwrap().as_deref(), Some(text));
    }

    #[test]
    fn a_value_that_looks_like_an_encoded_event_is_a_value() {
        let text = r#"[{"command_committed":{"command":"0:x","outcome":"success","result":{"encoded":{"key":"k","data":""}}}}]"#;
        assert_eq!(key_of(text), None);
        assert_eq!(decode_events(text, decode), Ok(None));
        let encoded = encode_events(text, encode).unwrap().unwrap();
        assert_eq!(decode_events(&encoded, decode).unwrap().as_deref(), Some(text));
        assert_eq!(encode_events(text, |_, _, _| Ok(None)), Ok(None));
    }
}
