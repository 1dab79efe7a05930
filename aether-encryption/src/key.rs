//! One key, and what is done with it: encrypting, decrypting, and digests of names.
//!
//! Promise: a key is never printed, and overwritten when it is dropped.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use chacha20poly1305::aead::{Aead as _, Payload};
use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use zeroize::{Zeroize as _, Zeroizing};

/// Length of a key in bytes.
const LENGTH: usize = 32;
/// Length of a nonce in bytes.
const NONCE: usize = 24;
/// How the bytes of an encrypted value begin: the number of this format.
const FORMAT: u8 = 1;

/// 32 secret bytes.
///
/// ```
/// use aether_encryption::SecretKey;
/// let key = SecretKey::generate()?;
/// assert_eq!(format!("{key:?}"), "SecretKey(***)");
/// let same = SecretKey::from_base64(&key.to_base64())?;
/// assert_eq!(same.to_base64(), key.to_base64());
/// assert!(SecretKey::from_base64("c2hvcnQ=").is_err());
/// # Ok::<(), aether_encryption::KeyError>(())
/// ```
#[derive(Clone)]
pub struct SecretKey(Box<[u8; LENGTH]>);

/// Why there is no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The text is not base64.
    #[error("a key is 32 bytes in base64, as `openssl rand -base64 32` prints them: this is no base64")]
    NotBase64,
    /// It has another length.
    #[error("a key has {LENGTH} bytes, and this has {length}: make one with `openssl rand -base64 32`")]
    Length {
        /// How many bytes it has.
        length: usize,
    },
    /// The operating system gave no random bytes.
    #[error("the operating system gives no random bytes: {reason}")]
    NoEntropy {
        /// What it said.
        reason: String,
    },
}

/// Fills an array with random bytes of the operating system.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], KeyError> {
    let mut bytes = [0; N];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(error) => Err(KeyError::NoEntropy { reason: error.to_string() }),
    }
}

impl SecretKey {
    /// A new key from the operating system's entropy.
    ///
    /// # Errors
    /// [`KeyError::NoEntropy`].
    pub fn generate() -> Result<Self, KeyError> {
        random().map(Self::from)
    }

    /// Reads a key from its 32 bytes in base64.
    ///
    /// # Errors
    /// [`KeyError`] when it is not that.
    pub fn from_base64(text: &str) -> Result<Self, KeyError> {
        let bytes = Zeroizing::new(BASE64.decode(text.trim()).map_err(|_| KeyError::NotBase64)?);
        Self::from_slice(&bytes)
    }

    pub(crate) fn from_slice(bytes: &[u8]) -> Result<Self, KeyError> {
        let mut key = Self(Box::new([0; LENGTH]));
        if bytes.len() != LENGTH {
            return Err(KeyError::Length { length: bytes.len() });
        }
        key.0.copy_from_slice(bytes);
        Ok(key)
    }

    /// The key in base64, in the open: to keep it where secrets are kept.
    pub fn to_base64(&self) -> String {
        BASE64.encode(*self.0)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &*self.0
    }

    /// Encrypts `plain`, bound to `about`.
    pub(crate) fn encrypt(&self, plain: &[u8], about: &[u8]) -> Result<Vec<u8>, KeyError> {
        let nonce = XNonce::from(random::<NONCE>()?);
        let too_long = |_| KeyError::Length { length: plain.len() };
        let cipher = XChaCha20Poly1305::new_from_slice(self.bytes())
            .map_err(|_| KeyError::Length { length: self.bytes().len() })?;
        let encrypted = cipher.encrypt(&nonce, Payload { msg: plain, aad: about }).map_err(too_long)?;
        let mut bytes = Vec::with_capacity(1 + NONCE + encrypted.len());
        bytes.push(FORMAT);
        bytes.extend_from_slice(&nonce);
        bytes.extend_from_slice(&encrypted);
        Ok(bytes)
    }

    /// Decrypts what [`SecretKey::encrypt`] made of a value with the same `about`; `None` for anything else.
    pub(crate) fn decrypt(&self, encrypted: &[u8], about: &[u8]) -> Option<Vec<u8>> {
        let (format, rest) = encrypted.split_first()?;
        let (nonce, sealed) = rest.split_at_checked(NONCE)?;
        let nonce = XNonce::try_from(nonce).ok()?;
        let cipher = XChaCha20Poly1305::new_from_slice(self.bytes()).ok()?;
        (*format == FORMAT).then(|| cipher.decrypt(&nonce, Payload { msg: sealed, aad: about }).ok())?
    }

    /// HMAC-SHA-256 of `value`.
    pub(crate) fn digest(&self, value: &[u8]) -> Option<[u8; 32]> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.bytes()).ok()?;
        mac.update(value);
        Some(mac.finalize().into_bytes().into())
    }
}

impl From<[u8; LENGTH]> for SecretKey {
    fn from(mut bytes: [u8; LENGTH]) -> Self {
        let key = Self(Box::new(bytes));
        bytes.zeroize();
        key
    }
}

impl Drop for SecretKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(***)")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_is_altered_or_moved_is_refused() {
        let key = SecretKey::generate().unwrap();
        let encrypted = key.encrypt(b"hello", b"here").unwrap();
        assert_eq!(key.decrypt(&encrypted, b"here").as_deref(), Some(&b"hello"[..]));
        assert_eq!(key.decrypt(&encrypted, b"there"), None);
        assert_eq!(SecretKey::generate().unwrap().decrypt(&encrypted, b"here"), None);
        for at in 0..encrypted.len() {
            let mut altered = encrypted.clone();
            altered[at] ^= 1;
            assert_eq!(key.decrypt(&altered, b"here"), None, "byte {at}");
            assert_eq!(key.decrypt(&encrypted[..at], b"here"), None, "{at} bytes");
        }
        assert_ne!(key.encrypt(b"hello", b"here").unwrap(), encrypted, "a nonce was used twice");
    }

    #[test]
    fn the_digest_is_hmac_sha_256() {
        // RFC 4231, test case 6 has a longer key; this is HMAC(32 bytes of 0x0b, "Hi There").
        let key = SecretKey::from([0x0b; 32]);
        let hex: String = key.digest(b"Hi There").unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "198a607eb44bfbc69903a0f1cf2bbdc5ba0aa3f3d9ae3c1c7a3b1696a0b68cf7");
    }
}
