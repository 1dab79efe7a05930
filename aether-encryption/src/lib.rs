//! Encryption of everything that Aether records: a payload codec with a ring of keys, and keys for each data subject.
//!
//! Promise: XChaCha20-Poly1305 with a fresh nonce for each value, bound to its run and its place there, so that what is
//! altered or moved is refused. Keys never leave memory except, wrapped, in a `SubjectKeyFolder`, and are overwritten when they
//! are dropped.

mod codec;
mod folder;
mod key;
mod keys;

pub use codec::Encryption;
pub use folder::{FolderError, SubjectKeyFolder};
pub use key::{KeyError, SecretKey};
pub use keys::{Keys, SubjectKey, SubjectKeys};
