//! How an error of a peer is told, and how it stands in the journal.

use std::error::Error;

use aether_core::failure::Failure;
use aether_core::outcome::Classify;
use aether_core::payload::{Payload, PayloadError};
use aether_core::step::{BodyError, redacted_here};

/// The recorded form of an error, with its class.
///
/// # Errors
/// [`PayloadError`] where it cannot be written as JSON.
pub fn body_error<E>(error: E) -> Result<BodyError, PayloadError>
where
    E: Error + Classify + Send + Sync + 'static,
{
    let (message, class, retry_after) = (error.to_string(), error.class(), error.retry_after());
    let error = Payload::encode(&Failure::from(error).classified(class))?;
    Ok(BodyError { error, message, class, retry_after })
}

/// What an error of the transport says, with its causes.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let said = source.to_string();
        if !text.ends_with(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        next = source.source();
    }
    text
}

/// First characters of a text, for messages. Redacted as a whole: what was cut does not show any more what is in it.
pub(crate) fn start_of(text: &str) -> String {
    redacted_here(text).chars().take(200).collect()
}
