//! Redaction: what must not be recorded is replaced before it is hashed, stored or handed on.
//!
//! Promise: a rule of the program that panics hides the whole value. What was redacted stays as it is when it is redacted
//! again.

use std::sync::Arc;

use crate::vocabulary::masking::{MASK, Masking};
use crate::vocabulary::net::in_net;
use crate::vocabulary::payload::Payload;

/// What an engine replaces, if anything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Redaction(Option<Arc<Masking>>);

impl Redaction {
    pub(crate) fn by(masking: Masking) -> Self {
        Self(Some(Arc::new(masking)))
    }

    /// Whether anything is replaced.
    pub(crate) fn is_on(&self) -> bool {
        self.0.as_ref().is_some_and(|masking| !masking.is_off())
    }

    /// A value as it may be recorded.
    pub(crate) fn value(&self, value: Payload) -> Payload {
        let Some(masking) = &self.0 else { return value };
        let redacted = in_net(|| masking.redact(value.as_str()));
        match redacted {
            Ok(text) if text == value.as_str() => value,
            Ok(text) => Payload::from_text(text).unwrap_or_else(|_| hidden()),
            Err(_panic) => hidden(),
        }
    }

    /// A text as it may be recorded.
    pub(crate) fn text(&self, text: String) -> String {
        match &self.0 {
            Some(masking) => in_net(|| masking.redact(&text)).unwrap_or_else(|_| MASK.to_owned()),
            None => text,
        }
    }
}

fn hidden() -> Payload {
    Payload::encode(MASK).unwrap_or_else(|_| Payload::null())
}
