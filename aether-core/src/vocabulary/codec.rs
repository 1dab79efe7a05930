//! What turns recorded values into what a store keeps, and back: encryption, or any other reversible change.
//!
//! Promise: plain data and one trait. Which values go through it, and what stays in the open, is said by `codec/`.

use std::fmt::Debug;

use crate::vocabulary::id::RunId;
use crate::vocabulary::labels::Labels;

/// How every encoded value begins in a store.
pub(crate) const SEALED: &str = "{\"aether:encoded\":";

/// A value as a codec made it, with the name of the key that makes it readable again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedPayload {
    /// Id of the key. It stands in the open beside the value; never the key itself.
    pub key: String,
    /// The encoded bytes.
    pub bytes: Vec<u8>,
}

/// To what a value belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PayloadOwner<'a> {
    /// A run.
    Run(&'a RunId),
    /// A schedule, by its name.
    Schedule(&'a str),
    /// A start under a key that has no run yet, by the name of its record.
    KeyedStart(&'a str),
}

/// Where a value stands. Two values of one store never share a place, except chunks of a stream, and a value that replaces
/// another.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PayloadPlace<'a> {
    /// To what it belongs.
    pub owner: PayloadOwner<'a>,
    /// The labels of its owner. `None` when a value is decoded, where the codec does not ask for labels
    /// ([`PayloadCodec::needs_labels`]), and for the request of an operator to end a run whose own key is destroyed.
    pub labels: Option<&'a Labels>,
    /// Its place there, for example ``event 7 `run_completed` ``.
    pub name: &'a str,
}

impl<'a> PayloadPlace<'a> {
    /// The place `name` of `owner`.
    pub fn new(owner: PayloadOwner<'a>, name: &'a str) -> Self {
        Self { owner, labels: None, name }
    }

    /// Adds the labels of the owner.
    #[must_use]
    pub fn labels(self, labels: Option<&'a Labels>) -> Self {
        Self { labels, ..self }
    }

    /// The run that the value belongs to, if it belongs to one.
    pub fn run(&self) -> Option<&'a RunId> {
        match self.owner {
            PayloadOwner::Run(run) => Some(run),
            PayloadOwner::Schedule(_) | PayloadOwner::KeyedStart(_) => None,
        }
    }

    /// Owner and name as bytes, different for different places: what an authenticated cipher binds a value to, so that
    /// it cannot be moved.
    ///
    /// ```
    /// use aether_core::codec::{PayloadOwner, PayloadPlace};
    /// let place = |owner, name| PayloadPlace::new(PayloadOwner::Schedule(owner), name).associated_data();
    /// assert_ne!(place("ab", "c"), place("a", "bc"));
    /// ```
    pub fn associated_data(&self) -> Vec<u8> {
        let (sort, owner) = match self.owner {
            PayloadOwner::Run(run) => (0, run.as_str()),
            PayloadOwner::Schedule(name) => (1, name),
            PayloadOwner::KeyedStart(name) => (2, name),
        };
        let mut data = Vec::with_capacity(32 + owner.len() + self.name.len());
        data.extend_from_slice(b"aether payload 1");
        data.push(sort);
        for text in [owner, self.name] {
            data.extend_from_slice(&(text.len() as u64).to_be_bytes());
            data.extend_from_slice(text.as_bytes());
        }
        data
    }
}

impl std::fmt::Display for PayloadPlace<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.name;
        match self.owner {
            PayloadOwner::Run(run) => write!(f, "{name} of run `{run}`"),
            PayloadOwner::Schedule(schedule) => write!(f, "{name} of schedule `{schedule}`"),
            PayloadOwner::KeyedStart(start) => write!(f, "{name} of the keyed start `{start}`"),
        }
    }
}

/// Encodes what a store keeps of recorded values, for [`EngineBuilder::payload_codec`](crate::engine::EngineBuilder::payload_codec).
///
/// Each value is encoded on its own and says by which key, so that keys may change, and encoded and plain values may stand
/// beside each other. Methods are called on the threads of the engine and of the store, for every value: they should not
/// wait for a network. One that panics fails as if it had returned [`CodecError::Panicked`].
///
/// ```
/// use aether_core::codec::{CodecError, EncodedPayload, PayloadCodec, PayloadPlace};
///
/// /// Hides nothing; it shows what a codec is asked.
/// #[derive(Debug)]
/// struct Reversed;
///
/// impl PayloadCodec for Reversed {
///     fn encode(&self, plain: &[u8], _: &PayloadPlace<'_>) -> Result<Option<EncodedPayload>, CodecError> {
///         let bytes = plain.iter().rev().copied().collect();
///         Ok(Some(EncodedPayload { key: "reversed".to_owned(), bytes }))
///     }
///
///     fn decode(&self, encoded: &EncodedPayload, _: &PayloadPlace<'_>) -> Result<Vec<u8>, CodecError> {
///         match &*encoded.key {
///             "reversed" => Ok(encoded.bytes.iter().rev().copied().collect()),
///             key => Err(CodecError::UnknownKey { key: key.to_owned() }),
///         }
///     }
///
///     fn keyed_digest(&self, _: &[u8]) -> Result<Option<[u8; 32]>, CodecError> {
///         Ok(None)
///     }
/// }
/// ```
pub trait PayloadCodec: Send + Sync + Debug + 'static {
    /// Encodes a value. `None` leaves it as it is: a codec that only reads what was encoded before.
    ///
    /// # Errors
    /// [`CodecError`]; nothing is then written, and the run stops until a later try succeeds.
    fn encode(&self, plain: &[u8], place: &PayloadPlace<'_>) -> Result<Option<EncodedPayload>, CodecError>;

    /// Gives back what was encoded at this place, whatever the present key is.
    ///
    /// # Errors
    /// [`CodecError::UnknownKey`], [`CodecError::DestroyedKey`], and [`CodecError::Altered`] where the bytes are not what
    /// was encoded at this place.
    fn decode(&self, encoded: &EncodedPayload, place: &PayloadPlace<'_>) -> Result<Vec<u8>, CodecError>;

    /// A digest that nobody can compute without the codec's secret: what a store compares in the place of values that must
    /// be unique or found again, such as business keys. It must not change when keys are rotated. `None` where such values
    /// may stand in the open.
    ///
    /// # Errors
    /// [`CodecError`].
    fn keyed_digest(&self, value: &[u8]) -> Result<Option<[u8; 32]>, CodecError>;

    /// Whether [`PayloadCodec::encode`] looks at [`PayloadPlace::labels`]. Sending a message then costs a look at its run.
    fn needs_labels(&self) -> bool {
        false
    }
}

/// Why a value cannot be encoded or decoded. Nothing is lost by it: what is stored stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The engine has no codec.
    #[error(
        "it is encoded under key `{key}` and no payload codec is set: add `.payload_codec(..)` with that key; nothing was lost"
    )]
    NoCodec {
        /// Id of the key.
        key: String,
    },
    /// The engine has no codec, and was to write a value that would stand in the open beside encoded ones.
    #[error(
        "it would stand in the open beside values that are encoded, here under key `{key}`, and no payload codec is set: say \
         it with the program that has the codec (its own engine, command line or console), or add `.payload_codec(..)`; \
         nothing was written"
    )]
    WouldBeOpen {
        /// Id of a key that values beside it are encoded under.
        key: String,
    },
    /// The codec does not have the key.
    #[error(
        "it is encoded under key `{key}`, which the payload codec does not have: add the key; nothing was lost"
    )]
    UnknownKey {
        /// Id of the key.
        key: String,
    },
    /// The key was destroyed on purpose.
    #[error("its key `{key}` was destroyed: what was encoded under it is erased for good")]
    DestroyedKey {
        /// Id of the key.
        key: String,
    },
    /// The bytes are not what was encoded at this place.
    #[error("what was encoded under key `{key}` was altered, or belongs to another run or place")]
    Altered {
        /// Id of the key.
        key: String,
    },
    /// The codec failed for another reason.
    #[error("the payload codec failed: {reason}")]
    Failed {
        /// What it said.
        reason: String,
    },
    /// The codec panicked.
    #[error("the payload codec panicked: {message}")]
    Panicked {
        /// What it panicked with.
        message: String,
    },
}

impl CodecError {
    /// Id of the key, where the error is about one.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::NoCodec { key }
            | Self::WouldBeOpen { key }
            | Self::UnknownKey { key }
            | Self::DestroyedKey { key }
            | Self::Altered { key } => Some(key),
            Self::Failed { .. } | Self::Panicked { .. } => None,
        }
    }
}
