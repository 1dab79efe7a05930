//! What a stub returned, in the form in which a body's own result is recorded.
//!
//! Promise: a stub's value or error reaches the journal as the body's own would.

use aether_core::failure::Failure;
use aether_core::outcome::Classify as _;
use aether_core::payload::Payload;
use aether_core::step::{BodyError, BodyResult};

/// Encodes the result of a stub of an effect that is no step.
pub(crate) fn effect_result<T: serde::Serialize>(result: Result<T, Failure>) -> BodyResult {
    Ok(match result {
        Ok(value) => Ok(Payload::encode(&value)?),
        Err(failure) => Err(BodyError {
            error: Payload::encode(&failure)?,
            message: failure.to_string(),
            class: failure.class(),
            retry_after: failure.retry_after(),
        }),
    })
}
