//! Recorded values: JSON text that is stored once and decoded every time it is delivered.
//!
//! Promise: what a workflow sees on its first run is decoded from the same bytes that a replay decodes.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use crate::vocabulary::shared_text::shared_text;

/// A value, or a step error, both as recorded.
pub(crate) type Answered = Result<Payload, Payload>;

/// Deepest nesting of arrays and objects in a recorded value: what `serde_json` reads without risk for the stack.
pub const NESTING: usize = 127;

/// One recorded value as JSON text, byte for byte as it was written.
///
/// ```
/// use aether_core::payload::Payload;
/// let payload = Payload::encode(&("ticket", 42))?;
/// assert_eq!(payload.as_str(), r#"["ticket",42]"#);
/// assert_eq!(payload.decode::<(String, u32)>()?, ("ticket".to_owned(), 42));
/// assert!(payload.decode::<u32>().is_err());
/// # Ok::<(), aether_core::payload::PayloadError>(())
/// ```
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Payload(Box<RawValue>);

/// A value that JSON cannot hold, or text that does not decode into the wanted type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PayloadError {
    /// The value does not serialize.
    #[error("value of type `{ty}` does not serialize to JSON: {reason}")]
    Encode {
        /// Rust type of the value.
        ty: &'static str,
        /// The serializer's error.
        reason: String,
    },
    /// The value is nested too deep to be read back.
    #[error(
        "value of type `{ty}` is nested deeper than the limit of {NESTING} arrays and objects: flatten it"
    )]
    TooDeep {
        /// Rust type of the value.
        ty: &'static str,
    },
    /// Code that reads, writes or judges values of a step panicked.
    #[error("code that reads or judges the values of step `{step}` panicked: {message}")]
    Panicked {
        /// Unique name of the step.
        step: String,
        /// What it panicked with.
        message: String,
    },
    /// An answer that is of the right type is none that the workflow takes.
    #[error("{reason}")]
    Refused {
        /// What is wrong with it.
        reason: String,
    },
    /// The text does not decode.
    #[error("recorded JSON does not decode into `{ty}`: {reason}; the text starts {start:?}")]
    Decode {
        /// Rust type that was wanted.
        ty: &'static str,
        /// The deserializer's error.
        reason: String,
        /// First characters of the text.
        start: String,
    },
}

impl Payload {
    /// Encodes `value`.
    ///
    /// # Errors
    /// [`PayloadError::Encode`] when serde refuses the value (for example a map with non-string keys), and
    /// [`PayloadError::TooDeep`].
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Self, PayloadError> {
        shallow_json(value)
    }

    /// Decodes the text into `T`.
    ///
    /// # Errors
    /// [`PayloadError::Decode`] when the text is not a `T`.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, PayloadError> {
        serde_json::from_str(self.0.get()).map_err(|e| PayloadError::Decode {
            ty: std::any::type_name::<T>(),
            reason: e.to_string(),
            start: self.0.get().chars().take(120).collect(),
        })
    }

    /// Makes a payload of JSON text, byte for byte.
    ///
    /// # Errors
    /// [`PayloadError::Decode`] when `text` is not JSON, and [`PayloadError::TooDeep`].
    pub fn from_text(text: String) -> Result<Self, PayloadError> {
        if nesting(&text) > NESTING {
            return Err(PayloadError::TooDeep { ty: "JSON" });
        }
        let read: Result<&RawValue, _> = serde_json::from_str(&text);
        read.map(|raw| Self(raw.to_owned())).map_err(|e| PayloadError::Decode {
            ty: "JSON",
            reason: e.to_string(),
            start: text.chars().take(120).collect(),
        })
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// The value `null`.
    pub fn null() -> Self {
        Self(RawValue::NULL.to_owned())
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Payload {}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// SHA-256 over the RFC 8785 canonical form of a value: equal for equal arguments, whatever the key order.
///
/// ```
/// use aether_core::payload::{Digest, Payload};
/// let one = Payload::from_text(r#"{"a":1,"b":2}"#.to_owned())?;
/// let two = Payload::from_text(r#"{"b": 2, "a": 1}"#.to_owned())?;
/// assert_eq!(Digest::of(&one)?, Digest::of(&two)?);
/// # Ok::<(), aether_core::payload::PayloadError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Digest(#[serde(deserialize_with = "shared_text")] Arc<str>);

impl Digest {
    /// Digest of recorded JSON text.
    ///
    /// Integers that a double cannot hold exactly are tagged first, so that two of them never share a digest
    /// (RFC 8785 alone would merge `9007199254740992` and `9007199254740993`).
    ///
    /// # Errors
    /// [`PayloadError`] when the text is not JSON or has no canonical form.
    pub fn of(payload: &Payload) -> Result<Self, PayloadError> {
        if is_plainly_canonical(payload.as_str()) {
            return Ok(Self::over(payload.as_str().as_bytes()));
        }
        let mut value: serde_json::Value = payload.decode()?;
        tag_wide_integers(&mut value);
        let canonical = serde_json_canonicalizer::to_vec(&value)
            .map_err(|e| PayloadError::Encode { ty: "canonical JSON", reason: e.to_string() })?;
        Ok(Self::over(&canonical))
    }

    /// The digest of a text in canonical form.
    fn over(canonical: &[u8]) -> Self {
        let mut text = [0; 64];
        for (digits, byte) in text.chunks_exact_mut(2).zip(Sha256::digest(canonical)) {
            digits.copy_from_slice(&digits_of(byte));
        }
        Self(String::from_utf8_lossy(&text).into())
    }

    /// What a store has in the place of a digest.
    pub(crate) fn stored(text: &str) -> Self {
        Self(text.into())
    }

    /// The digest as 64 hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({})", &self.0)
    }
}

/// Lower-case hexadecimal text of `bytes`.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    text.extend(bytes.iter().flat_map(|byte| digits_of(*byte)).map(char::from));
    text
}

/// The two digits of a byte.
fn digits_of(byte: u8) -> [u8; 2] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
}

thread_local! {
    /// Memory to write JSON into, before it is known how long that is.
    static TEXT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Longest text whose memory a thread keeps.
const KEPT: usize = 16 * 1024;

/// JSON text of `value`. Stops with an error at [`NESTING`] levels, before deep nesting can overflow the stack.
fn shallow_json<T: Serialize + ?Sized>(value: &T) -> Result<Payload, PayloadError> {
    // Taken, and not borrowed: `value` may encode another payload while it is serialized.
    let mut text = TEXT.take();
    text.clear();
    let encoded = put_shallow(&mut text, value).and_then(|()| {
        let raw: Result<&RawValue, _> = serde_json::from_slice(&text);
        let ty = std::any::type_name::<T>();
        raw.map(|raw| Payload(raw.to_owned()))
            .map_err(|error| PayloadError::Encode { ty, reason: error.to_string() })
    });
    if text.capacity() <= KEPT {
        TEXT.set(text);
    }
    encoded
}

/// Appends the JSON text of `value` to `text`, and stops likewise; what was written up to an error stays there.
pub(crate) fn put_shallow<T: Serialize + ?Sized>(text: &mut Vec<u8>, value: &T) -> Result<(), PayloadError> {
    let ty = std::any::type_name::<T>();
    let mut serializer = serde_json::Serializer::with_formatter(text, Shallow::default());
    value.serialize(&mut serializer).map_err(|error| match error.io_error_kind() {
        Some(io::ErrorKind::FileTooLarge) => PayloadError::TooDeep { ty },
        _ => PayloadError::Encode { ty, reason: error.to_string() },
    })
}

/// Writes compact JSON and refuses to go deeper than [`NESTING`].
#[derive(Default)]
struct Shallow {
    depth: usize,
}

impl Shallow {
    fn deeper(&mut self) -> io::Result<()> {
        self.depth += 1;
        self.holds(0)
    }

    /// Whether what nests `below` here is within the limit.
    fn holds(&self, below: usize) -> io::Result<()> {
        if self.depth + below > NESTING { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(()) }
    }
}

impl serde_json::ser::Formatter for Shallow {
    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.deeper()?;
        writer.write_all(b"[")
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth -= 1;
        writer.write_all(b"]")
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.deeper()?;
        writer.write_all(b"{")
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth -= 1;
        writer.write_all(b"}")
    }

    /// Recorded JSON inside of the value: written as it is.
    fn write_raw_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, text: &str) -> io::Result<()> {
        self.holds(nesting(text))?;
        writer.write_all(text.as_bytes())
    }
}

/// How deep JSON text nests arrays and objects; the text need not be JSON.
fn nesting(text: &str) -> usize {
    let (mut depth, mut deepest, mut quoted, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Whether JSON text is its own canonical form, as far as a look at its bytes tells: the arguments of most steps. Sure only
/// of plain strings, of whole numbers that are short, and of members in the order of their names.
fn is_plainly_canonical(text: &str) -> bool {
    plain_value(text.as_bytes(), NESTING).is_some_and(<[u8]>::is_empty)
}

/// What follows a value; `None` where it is not plain, or nested deeper than `levels`.
fn plain_value(text: &[u8], levels: usize) -> Option<&[u8]> {
    match *text.first()? {
        b'"' => plain_string(text).map(|(_, rest)| rest),
        b'{' => plain_object(text, levels.checked_sub(1)?),
        b'[' => plain_array(text, levels.checked_sub(1)?),
        b'0' => text.get(1..).filter(|rest| !rest.first().is_some_and(u8::is_ascii_digit)),
        b'1'..=b'9' => {
            let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
            text.get(digits..).filter(|_| digits <= SHORT)
        }
        _ => [&b"true"[..], b"false", b"null"].iter().find_map(|word| text.strip_prefix(*word)),
    }
}

/// A string without escapes, and what follows it.
fn plain_string(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.strip_prefix(b"\"")?;
    let end = text.iter().position(|byte| !matches!(byte, b' '..=b'~') || matches!(byte, b'"' | b'\\'))?;
    let (string, rest) = text.split_at(end);
    Some((string, rest.strip_prefix(b"\"")?))
}

fn plain_array(text: &[u8], levels: usize) -> Option<&[u8]> {
    let mut rest = text.strip_prefix(b"[")?;
    if let Some(rest) = rest.strip_prefix(b"]") {
        return Some(rest);
    }
    loop {
        rest = plain_value(rest, levels)?;
        match rest.split_first()? {
            (b',', next) => rest = next,
            (b']', behind) => return Some(behind),
            _ => return None,
        }
    }
}

fn plain_object(text: &[u8], levels: usize) -> Option<&[u8]> {
    let mut rest = text.strip_prefix(b"{")?;
    if let Some(rest) = rest.strip_prefix(b"}") {
        return Some(rest);
    }
    let mut last: Option<&[u8]> = None;
    loop {
        let (name, value) = plain_string(rest)?;
        if last.is_some_and(|last| last >= name) {
            return None;
        }
        last = Some(name);
        rest = plain_value(value.strip_prefix(b":")?, levels)?;
        match rest.split_first()? {
            (b',', next) => rest = next,
            (b'}', behind) => return Some(behind),
            _ => return None,
        }
    }
}

/// Whole numbers of so many digits are written in full, and are exact as doubles.
const SHORT: usize = 15;

const EXACT: u64 = 1 << 53;

fn tag_wide_integers(value: &mut serde_json::Value) {
    use serde_json::Value;
    match value {
        Value::Number(n) => {
            let wide =
                n.as_u64().is_some_and(|u| u > EXACT) || n.as_i64().is_some_and(|i| i.unsigned_abs() > EXACT);
            if wide {
                *value = Value::String(format!("\u{0}integer {n}"));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(tag_wide_integers),
        Value::Object(fields) => fields.values_mut().for_each(tag_wide_integers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(text: &str) -> Digest {
        Digest::of(&Payload::from_text(text.into()).unwrap()).unwrap()
    }

    #[test]
    fn key_order_does_not_change_a_digest_and_wide_integers_do() {
        assert_eq!(digest(r#"{"a":1,"b":{"d":2,"c":[3]}}"#), digest(r#"{"b":{"c":[3],"d":2},"a":1}"#));
        assert_ne!(digest("9007199254740992"), digest("9007199254740993"));
        assert_ne!(digest("[9007199254740993]"), digest("[9007199254740993.0]"));
        assert_eq!(digest("1.0"), digest("1"));
    }

    /// What a digest is defined by.
    fn canonical(text: &str) -> Option<Vec<u8>> {
        let mut value = serde_json::from_str(text).ok()?;
        tag_wide_integers(&mut value);
        serde_json_canonicalizer::to_vec(&value).ok()
    }

    proptest::proptest! {
        #[test]
        fn what_is_plainly_canonical_is_its_own_canonical_form(
            text in r#"[\[{]?("[a-c"\\é ~]{0,3}"|-?[0-9]{1,17}|true|null|[\[\]{}:, .eE-]){0,9}[\]}]?"#,
            members in proptest::collection::vec(("[a-cA-C_é]{0,2}", 0..4_u32, "[a-c\"\u{7f}é/]{0,2}"), 0..4),
        ) {
            let object = members.iter().fold(serde_json::Map::new(), |mut object, (name, kind, text)| {
                let value = match kind {
                    0 => serde_json::json!({ name.clone(): text.len(), "a": [text, -1] }),
                    1 => serde_json::json!([text, { "b": 9_007_199_254_740_993_u64 }]),
                    2 => serde_json::json!(1e300),
                    _ => serde_json::json!(text),
                };
                object.insert(name.clone(), value);
                object
            });
            let object = serde_json::Value::Object(object).to_string();
            let joined: Vec<_> = members.iter().map(|(name, number, _)| format!("\"{name}\":{number}")).collect();
            let unsorted = format!("{{{}}}", joined.join(","));
            for text in [&text, &object, &unsorted] {
                if is_plainly_canonical(text) {
                    proptest::prop_assert_eq!(canonical(text), Some(text.as_bytes().to_vec()), "{}", text);
                }
            }
        }
    }

    #[test]
    fn the_arguments_of_most_steps_are_plainly_canonical() {
        for text in
            [r#"{"number":7}"#, r#"{"a":[{},[],"x y",0,123456789012345],"b":{"c":true,"d":null}}"#, "[]"]
        {
            assert!(is_plainly_canonical(text), "{text}");
            assert_eq!(canonical(text), Some(text.as_bytes().to_vec()));
        }
        for text in [
            "-1",
            "01",
            "1.0",
            "1e3",
            "1234567890123456",
            r#""\n""#,
            r#""é""#,
            r#"{"b":1,"a":1}"#,
            r#"{"a":1,"a":1}"#,
        ] {
            assert!(!is_plainly_canonical(text), "{text}");
        }
        for text in ["[1,]", "{\"a\":1", "[1]]", " 1", "{,}", "tru", ""] {
            assert!(!is_plainly_canonical(text), "{text}");
        }
    }

    #[test]
    fn a_value_that_is_nested_too_deep_is_refused_and_never_overflows_the_stack() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(Payload::from_text(nested(NESTING)).unwrap().decode::<serde_json::Value>().is_ok());
        assert_eq!(Payload::from_text(nested(NESTING + 1)), Err(PayloadError::TooDeep { ty: "JSON" }));
        assert!(Payload::from_text(nested(1_000_000)).is_err());
        assert!(Payload::from_text(format!("\"{}\\\"[\"", "[".repeat(500))).is_ok(), "text is not nesting");
        // A journal that somebody made may hold one: the digest is refused, too.
        assert!(is_plainly_canonical(&nested(NESTING)) && !is_plainly_canonical(&nested(NESTING + 1)));
        assert!(!is_plainly_canonical(&nested(1_000_000)));
        #[derive(Serialize)]
        struct Chain<'a>(Option<&'a Chain<'a>>, [u8; 0]);
        fn chain(left: usize, inner: &Chain<'_>) -> Result<Payload, PayloadError> {
            match left {
                0 => Payload::encode(inner),
                _ => chain(left - 1, &Chain(Some(inner), [])),
            }
        }
        assert!(chain(NESTING - 2, &Chain(None, [])).is_ok());
        assert!(matches!(chain(NESTING - 1, &Chain(None, [])), Err(PayloadError::TooDeep { .. })));
        let inner = Payload::from_text(nested(NESTING)).unwrap();
        assert!(matches!(Payload::encode(&[inner]), Err(PayloadError::TooDeep { .. })));
    }

    #[test]
    fn a_value_json_cannot_hold_is_an_error() {
        let map = std::collections::BTreeMap::from([((1, 2), 3)]);
        assert!(matches!(Payload::encode(&map), Err(PayloadError::Encode { .. })));
        let nan = Payload::encode(&f64::NAN).unwrap();
        assert!(matches!(nan.decode::<f64>(), Err(PayloadError::Decode { .. })));
    }
}
