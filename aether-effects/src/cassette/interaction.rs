//! One call and its answer, as they stand on a cassette.

use aether_core::payload::Payload;
use serde::{Deserialize, Serialize};

/// What kind of traffic an interaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallKind {
    /// One exchange of `cx.http()`.
    Http,
    /// One question of `cx.llm(..)` or of an agent.
    Model,
}

/// One call and its answer, both masked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Interaction {
    pub(crate) kind: CallKind,
    pub(crate) request: Payload,
    pub(crate) response: Payload,
}
