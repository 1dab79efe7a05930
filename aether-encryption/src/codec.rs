//! The payload codec that encrypts.

use aether_core::codec::{CodecError, EncodedPayload, PayloadCodec, PayloadPlace};

use crate::key::{KeyError, SecretKey};
use crate::keys::{Keys, SUBJECT, SubjectKey};

/// A payload codec that encrypts, for `EngineBuilder::payload_codec`.
///
/// What stays visible to who reads the store: ids and names (of runs, workflows, commands, steps, signals, schedules, queues
/// and their keys), labels, statuses, times, and how long values are.
///
/// ```
/// use aether_core::engine::Engine;
/// use aether_encryption::{Encryption, Keys, SecretKey};
///
/// # fn secret(_: &str) -> Result<SecretKey, aether_encryption::KeyError> { SecretKey::generate() }
/// let keys = Keys::new("2026", secret("AETHER_KEY")?, secret("AETHER_NAMES_KEY")?);
/// let builder = Engine::builder().payload_codec(Encryption::new(keys));
/// # Ok::<(), aether_encryption::KeyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Encryption {
    keys: Keys,
    encrypts: bool,
}

impl Encryption {
    /// Encrypts with the current key of `keys`, and decrypts with any of them.
    pub fn new(keys: Keys) -> Self {
        Self { keys, encrypts: true }
    }

    /// Only decrypts: what is recorded from now on stays in the open. The way to turn encryption off while runs have
    /// encrypted values. Business keys stay digests, so that they are still found.
    #[must_use]
    pub fn reading_only(self) -> Self {
        Self { encrypts: false, ..self }
    }

    /// The key that encrypts a value of this place, and its id.
    fn key_for(&self, place: &PayloadPlace<'_>) -> Result<(String, SecretKey), CodecError> {
        let chosen = match (&self.keys.subjects, place.labels) {
            (Some((keys, choose)), Some(_)) => choose(place).map(|subject| (keys, subject)),
            _ => None,
        };
        let Some((keys, subject)) = chosen else {
            let key = self.keys.ring.get(&self.keys.current);
            let unknown = || CodecError::UnknownKey { key: self.keys.current.clone() };
            return Ok((self.keys.current.clone(), key.cloned().ok_or_else(unknown)?));
        };
        let key = format!("{SUBJECT}{subject}");
        match keys.find_or_make(&subject) {
            Ok(SubjectKey::Known(secret)) => Ok((key, secret)),
            Ok(SubjectKey::Destroyed) => Err(CodecError::DestroyedKey { key }),
            Ok(SubjectKey::Unknown) => Err(CodecError::UnknownKey { key }),
            Err(reason) => Err(CodecError::Failed { reason }),
        }
    }

    /// The key with this id.
    fn find(&self, id: &str) -> Result<SecretKey, CodecError> {
        if let Some(key) = self.keys.ring.get(id) {
            return Ok(key.clone());
        }
        let key = id.to_owned();
        if self.keys.destroyed.contains(id) {
            return Err(CodecError::DestroyedKey { key });
        }
        match (id.strip_prefix(SUBJECT), &self.keys.subjects) {
            (Some(subject), Some((keys, _))) => match keys.find(subject) {
                Ok(SubjectKey::Known(secret)) => Ok(secret),
                Ok(SubjectKey::Destroyed) => Err(CodecError::DestroyedKey { key }),
                Ok(SubjectKey::Unknown) => Err(CodecError::UnknownKey { key }),
                Err(reason) => Err(CodecError::Failed { reason }),
            },
            _ => Err(CodecError::UnknownKey { key }),
        }
    }
}

/// What a value is bound to: its place, and the id of its key.
fn about(place: &PayloadPlace<'_>, key: &str) -> Vec<u8> {
    let mut about = place.associated_data();
    about.extend_from_slice(key.as_bytes());
    about
}

impl PayloadCodec for Encryption {
    fn encode(&self, plain: &[u8], place: &PayloadPlace<'_>) -> Result<Option<EncodedPayload>, CodecError> {
        if !self.encrypts {
            return Ok(None);
        }
        let (key, secret) = self.key_for(place)?;
        let failed = |error: KeyError| CodecError::Failed { reason: error.to_string() };
        let bytes = secret.encrypt(plain, &about(place, &key)).map_err(failed)?;
        Ok(Some(EncodedPayload { key, bytes }))
    }

    fn decode(&self, encoded: &EncodedPayload, place: &PayloadPlace<'_>) -> Result<Vec<u8>, CodecError> {
        let secret = self.find(&encoded.key)?;
        let plain = secret.decrypt(&encoded.bytes, &about(place, &encoded.key));
        plain.ok_or_else(|| CodecError::Altered { key: encoded.key.clone() })
    }

    fn keyed_digest(&self, value: &[u8]) -> Result<Option<[u8; 32]>, CodecError> {
        let failed = || CodecError::Failed { reason: "the names key cannot make digests".into() };
        self.keys.names.digest(value).map(Some).ok_or_else(failed)
    }

    fn needs_labels(&self) -> bool {
        self.keys.subjects.is_some()
    }
}
