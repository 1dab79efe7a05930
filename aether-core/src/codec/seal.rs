//! One value through the codec and back: JSON texts, frames, and names that are compared.
//!
//! Promise: a codec that panics is an error of the value that it was asked about. What was encoded is told from what was not
//! by its form, and a user's value of that form is put into one that is not.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::journal::encoded::{decode_events, encode_events, from_base64, to_base64};
use crate::journal::frame::{Frame, StoredFrame};
use crate::store::error::StoreError;
use crate::vocabulary::codec::{
    CodecError, EncodedPayload, PayloadCodec, PayloadOwner, PayloadPlace, SEALED,
};
use crate::vocabulary::failure::panic_message;
use crate::vocabulary::id::{Position, RunId};
use crate::vocabulary::labels::Labels;
use crate::vocabulary::payload::{Payload, hex};

/// How a name begins that is the keyed digest of one.
pub(super) const DIGEST: &str = "keyed:";
/// An encoded value.
const ENCODED: u8 = 1;
/// A value that looks like an encoded one.
const ESCAPED: u8 = 0;

/// An encoded value as it stands in a store.
#[derive(Serialize, Deserialize)]
struct Envelope<'t> {
    #[serde(rename = "aether:encoded")]
    form: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    plain: Option<&'t RawValue>,
}

/// The codec of an engine, or that it has none.
#[derive(Clone, Debug)]
pub(super) struct Seal(pub(super) Option<Arc<dyn PayloadCodec>>);

/// The error for a value at this place.
pub(super) fn refused(place: &PayloadPlace<'_>, error: CodecError) -> StoreError {
    StoreError::Codec { what: place.to_string(), run: place.run().cloned(), error }
}

fn failed(error: impl std::fmt::Display) -> CodecError {
    CodecError::Failed { reason: error.to_string() }
}

/// Whether a text would be read as an encoded value, or as one that only looks so.
pub(super) fn reads_as_encoded(text: &str) -> bool {
    text.starts_with(SEALED) && serde_json::from_str::<Envelope<'_>>(text).is_ok()
}

/// Bytes in the open, byte for byte, in a form that is told from an encoded one.
pub(super) fn escaped_bytes(bytes: &[u8], place: &PayloadPlace<'_>) -> Result<String, StoreError> {
    let escaped = Envelope { form: ESCAPED, key: None, data: Some(to_base64(bytes)), plain: None };
    serde_json::to_string(&escaped).map_err(|error| refused(place, failed(error)))
}

/// Calls the codec and catches its panic.
fn safely<T>(call: impl FnOnce() -> Result<T, CodecError>) -> Result<T, CodecError> {
    catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|panic| Err(CodecError::Panicked { message: panic_message(&*panic) }))
}

impl Seal {
    pub(super) fn is_set(&self) -> bool {
        self.0.is_some()
    }

    pub(super) fn needs_labels(&self) -> bool {
        self.0.as_ref().is_some_and(|codec| codec.needs_labels())
    }

    /// Whether a value is stored as it is, wherever that is: most are, without a codec, and need no name of a place.
    pub(super) fn passes(&self, value: &Payload) -> bool {
        !self.is_set() && !value.as_str().contains(SEALED)
    }

    fn encode(&self, plain: &[u8], place: &PayloadPlace<'_>) -> Result<Option<EncodedPayload>, CodecError> {
        match &self.0 {
            Some(codec) => safely(|| codec.encode(plain, place)),
            None => Ok(None),
        }
    }

    fn decode_bytes(
        &self,
        encoded: &EncodedPayload,
        place: &PayloadPlace<'_>,
    ) -> Result<Vec<u8>, CodecError> {
        match &self.0 {
            Some(codec) => safely(|| codec.decode(encoded, place)),
            None => Err(CodecError::NoCodec { key: encoded.key.clone() }),
        }
    }

    fn decode(&self, encoded: &EncodedPayload, place: &PayloadPlace<'_>) -> Result<String, CodecError> {
        let bytes = self.decode_bytes(encoded, place)?;
        String::from_utf8(bytes).map_err(|_| CodecError::Altered { key: encoded.key.clone() })
    }

    /// JSON text as it is to be stored; `None` where it stays as it is.
    pub(super) fn seal_text(
        &self,
        text: &str,
        place: &PayloadPlace<'_>,
    ) -> Result<Option<String>, StoreError> {
        if let Some(sealed) = self.seal_bytes(text.as_bytes(), place)? {
            return Ok(Some(sealed));
        }
        if text.contains(SEALED) { self.escaped(text, place).map(Some) } else { Ok(None) }
    }

    /// JSON text in the open, in a form that is told from an encoded one.
    pub(super) fn escaped(&self, text: &str, place: &PayloadPlace<'_>) -> Result<String, StoreError> {
        let plain = serde_json::from_str(text).map_err(|error| refused(place, failed(error)))?;
        let escaped = Envelope { form: ESCAPED, key: None, data: None, plain: Some(plain) };
        serde_json::to_string(&escaped).map_err(|error| refused(place, failed(error)))
    }

    /// Bytes as JSON text that is to be stored; `None` where they stay as they are.
    pub(super) fn seal_bytes(
        &self,
        bytes: &[u8],
        place: &PayloadPlace<'_>,
    ) -> Result<Option<String>, StoreError> {
        let encoded = self.encode(bytes, place).map_err(|error| refused(place, error))?;
        let Some(EncodedPayload { key, bytes }) = encoded else { return Ok(None) };
        let data = Some(to_base64(&bytes));
        let envelope = Envelope { form: ENCODED, key: Some(key), data, plain: None };
        serde_json::to_string(&envelope).map(Some).map_err(|error| refused(place, failed(error)))
    }

    /// JSON text as it was before it was stored; `None` where that is what it is.
    pub(super) fn open_text(
        &self,
        text: &str,
        place: &PayloadPlace<'_>,
    ) -> Result<Option<String>, StoreError> {
        let Some((key, bytes)) = self.open_bytes(text, place)? else { return Ok(None) };
        String::from_utf8(bytes).map(Some).map_err(|_| refused(place, CodecError::Altered { key }))
    }

    /// The bytes that a stored text stands for, and the key that they were encoded with; `None` where they are the text's.
    pub(super) fn open_bytes(
        &self,
        text: &str,
        place: &PayloadPlace<'_>,
    ) -> Result<Option<(String, Vec<u8>)>, StoreError> {
        if !text.starts_with(SEALED) {
            return Ok(None);
        }
        // What does not read was written before values were told apart by their form.
        let Ok(envelope) = serde_json::from_str::<Envelope<'_>>(text) else { return Ok(None) };
        match envelope {
            Envelope { form: ESCAPED, plain: Some(plain), .. } => {
                Ok(Some((String::new(), plain.get().as_bytes().to_vec())))
            }
            Envelope { form: ESCAPED, data: Some(data), .. } => {
                let altered = || refused(place, CodecError::Altered { key: String::new() });
                Ok(Some((String::new(), from_base64(&data).ok_or_else(altered)?)))
            }
            Envelope { form: ENCODED, key: Some(key), data: Some(data), .. } => {
                let bytes = from_base64(&data)
                    .ok_or_else(|| refused(place, CodecError::Altered { key: key.clone() }))?;
                let encoded = EncodedPayload { key, bytes };
                let plain = self.decode_bytes(&encoded, place).map_err(|error| refused(place, error))?;
                Ok(Some((encoded.key, plain)))
            }
            _ => Ok(None),
        }
    }

    pub(super) fn seal(&self, value: &mut Payload, place: &PayloadPlace<'_>) -> Result<(), StoreError> {
        put(value, self.seal_text(value.as_str(), place)?, place)
    }

    pub(super) fn open(&self, value: &mut Payload, place: &PayloadPlace<'_>) -> Result<(), StoreError> {
        put(value, self.open_text(value.as_str(), place)?, place)
    }

    /// A text that is stored as such.
    pub(super) fn seal_string(&self, text: &mut String, place: &PayloadPlace<'_>) -> Result<(), StoreError> {
        if self.is_set()
            && let Some(sealed) = self.seal_text(&serde_json::Value::from(&**text).to_string(), place)?
        {
            *text = sealed;
        }
        Ok(())
    }

    pub(super) fn open_string(&self, text: &mut String, place: &PayloadPlace<'_>) -> Result<(), StoreError> {
        if let Some(opened) = self.open_text(text, place)? {
            *text = serde_json::from_str(&opened).map_err(|error| refused(place, failed(error)))?;
        }
        Ok(())
    }

    /// What stands in a store in the place of a name that is compared; `None` where the name itself does.
    pub(super) fn name(&self, sort: &str, name: &str) -> Result<Option<String>, CodecError> {
        let Some(codec) = &self.0 else { return Ok(None) };
        let digest = safely(|| codec.keyed_digest(format!("{sort}\0{name}").as_bytes()))?;
        Ok(digest.map(|digest| hex(&digest)))
    }

    /// Encodes the events of a frame of `run` that begins at `position`.
    pub(super) fn seal_frame(
        &self,
        frame: &mut Frame,
        run: &RunId,
        labels: Option<&Labels>,
        position: Position,
    ) -> Result<(), StoreError> {
        self.seal_events(frame, run, labels, |number, kind| event_place(position, number, kind))
    }

    /// As [`Seal::seal_frame`], with the place of each event by its number and kind.
    pub(super) fn seal_events(
        &self,
        frame: &mut Frame,
        run: &RunId,
        labels: Option<&Labels>,
        name: impl Fn(usize, &str) -> String,
    ) -> Result<(), StoreError> {
        if !self.is_set() || frame.count == 0 {
            return Ok(());
        }
        let mut at = String::from("events");
        let sealed = encode_events(&frame.text, |number, kind, text| {
            at = name(number, kind);
            let place = PayloadPlace::new(PayloadOwner::Run(run), &at).labels(labels);
            self.encode(text.as_bytes(), &place)
        });
        match sealed {
            Ok(Some(text)) => frame.text = text,
            Ok(None) => {}
            Err(error) => return Err(refused(&PayloadPlace::new(PayloadOwner::Run(run), &at), error)),
        }
        Ok(())
    }

    /// The text of encoded events as it was; `None` where none is encoded.
    pub(super) fn open_events(
        &self,
        text: &str,
        run: &RunId,
        name: impl Fn(usize, &str) -> String,
    ) -> Result<Option<String>, StoreError> {
        let mut at = String::from("events");
        decode_events(text, |number, kind, encoded| {
            at = name(number, kind);
            self.decode(encoded, &PayloadPlace::new(PayloadOwner::Run(run), &at))
        })
        .map_err(|error| refused(&PayloadPlace::new(PayloadOwner::Run(run), &at), error))
    }

    /// Decodes the frames of a run.
    pub(super) fn open_frames(&self, frames: &mut [StoredFrame], run: &RunId) -> Result<(), StoreError> {
        // A store behind this one may have decoded it: an engine puts one in front of whatever it is given.
        for frame in frames.iter_mut().filter(|frame| frame.decoded.is_none()) {
            let position = frame.position;
            let place = |number, kind: &str| event_place(position, number, kind);
            frame.decoded = self.open_events(&frame.text, run, place)?;
        }
        Ok(())
    }
}

/// The place of an event. Its kind is a part of it: an event is not read as one of another kind.
fn event_place(position: Position, number: usize, kind: &str) -> String {
    format!("event {} `{kind}`", position.saturating_add(number as Position))
}

/// Replaces a value, where there is something to replace it with.
fn put(value: &mut Payload, text: Option<String>, place: &PayloadPlace<'_>) -> Result<(), StoreError> {
    if let Some(text) = text {
        *value = Payload::from_text(text).map_err(|error| refused(place, failed(error)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_look_encoded_come_back_as_they_were() {
        let (seal, run) = (Seal(None), RunId::new("r").unwrap());
        let texts = [
            r#"{"aether:encoded":"#,
            r#"{"aether:encoded":1,"key":"k","data":"AA=="}"#,
            "{\"aether:encoded\":1,\"key\":\"k\",\"data\":\"AA==\"}\n",
            "{\"aether:encoded\":0,\"plain\":[1 ]} \n",
            r#"{"aether:encoded":0,"data":"AA=="}"#,
            r#"{"aether:encoded":"text"}"#,
            "{}\n",
        ];
        for text in texts {
            let sealed = seal.seal_blob(&run, "h", text.as_bytes(), None).unwrap();
            let stored = sealed.map_or_else(|| text.as_bytes().to_vec(), String::into_bytes);
            assert_eq!(seal.open_blob(&run, "h", stored).unwrap(), text.as_bytes(), "{text:?}");
        }
        // As it was written before.
        let before = br#"{"aether:encoded":0,"plain":{"aether:encoded":7}}"#.to_vec();
        assert_eq!(seal.open_blob(&run, "h", before).unwrap(), br#"{"aether:encoded":7}"#);
    }
}
