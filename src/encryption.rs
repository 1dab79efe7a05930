//! Encryption of everything that is recorded, with keys that rotate, and erasure of one person's data by destroying a key.
//! The guide is `docs/encryption.md`.

pub use aether_core::codec::{
    CodecError, CodedStore, EncodedPayload, PayloadCodec, PayloadOwner, PayloadPlace,
};
pub use aether_encryption::{
    Encryption, FolderError, KeyError, Keys, SecretKey, SubjectKey, SubjectKeyFolder, SubjectKeys,
};
