//! Recorded values: JSON text that is stored once and decoded every time it is delivered.
//!
//! Promise: what a workflow sees on its first run is decoded from the same bytes that a replay decodes.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use crate::vocabulary::canonical;
use crate::vocabulary::outcome::FailureClass;
use crate::vocabulary::shared_text::shared_text;

pub use crate::vocabulary::without_values::{outline, without_values};

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

/// A value that JSON cannot hold, or text that does not decode into the wanted type. It shows names of members and kinds of
/// values, and no values: it is logged, and may be secret.
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
    /// The error of a body does not serialize.
    #[error("its error does not serialize to JSON: {reason}")]
    Error {
        /// The class of the error.
        class: FailureClass,
        /// The minimum wait before the next attempt, where the error gives one.
        retry_after: Option<Duration>,
        /// Why it does not serialize.
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
        /// The deserializer's error, without the values that it names.
        reason: String,
        /// First characters of the text, without its values: see [`outline`].
        start: String,
    },
}

/// The first characters of a text, without its values.
pub(crate) fn start_of(text: &str) -> String {
    outline(&text.chars().take(120).collect::<String>())
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
            reason: without_values(&e.to_string()),
            start: start_of(self.0.get()),
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
            reason: without_values(&e.to_string()),
            start: start_of(&text),
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
        if canonical::is_plain(payload.as_str(), NESTING) {
            return Ok(Self::over(payload.as_str().as_bytes()));
        }
        let canonical = canonical::form_of(payload.as_str())
            .map_err(|e| PayloadError::Encode { ty: "canonical JSON", reason: e.to_string() })?;
        Ok(Self::over(&canonical))
    }

    /// The digest that former builds made of the text, where it is another one.
    pub(crate) fn former(payload: &Payload) -> Option<Self> {
        canonical::former_form_of(payload.as_str()).map(|form| Self::over(&form))
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
        let (one, two) = (u128::MAX.to_string(), (u128::MAX - 1).to_string());
        assert_ne!(digest(&one), digest(&two));
        assert_ne!(digest(&format!("{{\"n\":[-{one}]}}")), digest(&format!("{{\"n\":[-{two}]}}")));
        assert_eq!(digest("1.0"), digest("1"));
    }

    #[test]
    fn a_value_that_is_nested_too_deep_is_refused_and_never_overflows_the_stack() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(Payload::from_text(nested(NESTING)).unwrap().decode::<serde_json::Value>().is_ok());
        assert_eq!(Payload::from_text(nested(NESTING + 1)), Err(PayloadError::TooDeep { ty: "JSON" }));
        assert!(Payload::from_text(nested(1_000_000)).is_err());
        assert!(Payload::from_text(format!("\"{}\\\"[\"", "[".repeat(500))).is_ok(), "text is not nesting");
        // A journal that somebody made may hold one: the digest is refused, too.
        assert!(
            canonical::is_plain(&nested(NESTING), NESTING)
                && !canonical::is_plain(&nested(NESTING + 1), NESTING)
        );
        assert!(!canonical::is_plain(&nested(1_000_000), NESTING));
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
