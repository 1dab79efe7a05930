//! Arguments that code asks for, held against recorded ones: the same value may be encoded in another way since.
//!
//! Promise: recorded arguments are the same ones if today's types read them and write what is asked for now; nothing of
//! the recorded value is replaced.

use crate::run::changes::ValueChanges;
use crate::vocabulary::net::in_net;
use crate::vocabulary::payload::{Digest, Payload, PayloadError};

/// Reads recorded arguments as today's types, and encodes them again.
pub(crate) type Normalize<'a> = dyn Fn(&Payload) -> Result<Payload, PayloadError> + Send + Sync + 'a;

/// The arguments of a command as the code passes them now.
pub(crate) struct Requested<'a> {
    /// The arguments.
    pub(crate) args: &'a Payload,
    /// Their digest.
    pub(crate) digest: &'a Digest,
    /// Path of the step, or of the workflow of the child run.
    pub(crate) path: &'a str,
    /// How recorded arguments are brought to today's encoding.
    pub(crate) normalize: &'a Normalize<'a>,
}

impl Requested<'_> {
    /// Whether `recorded` are these arguments in an older encoding.
    pub(crate) fn are(&self, recorded: &Payload) -> bool {
        is_same(recorded, self.digest, self.normalize)
    }

    /// Where `recorded` differ from these arguments. Compared in today's encoding where they have one, so that a member
    /// that was only added is not named beside the one that differs.
    pub(crate) fn changes(&self, recorded: &Payload) -> ValueChanges {
        let normal = in_net(|| (self.normalize)(recorded)).ok().and_then(Result::ok);
        ValueChanges::between(normal.as_ref().unwrap_or(recorded), self.args)
    }
}

/// Whether `recorded`, brought to today's encoding, has this digest.
pub(crate) fn is_same(recorded: &Payload, digest: &Digest, normalize: &Normalize<'_>) -> bool {
    let normal = in_net(|| normalize(recorded)).ok().and_then(Result::ok);
    normal.and_then(|normal| Digest::of(&normal).ok()).is_some_and(|normal| normal == *digest)
}
