//! Messages of the inbox that answer a wait: replies, signals, and what becomes of two replies to one wait.
//!
//! Promise: all replies to one round of one wait have one message id, so that a store lets the first one through and no
//! other.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::inbox::topics::signal_topic;
use crate::store::api::Message;
use crate::vocabulary::payload::Payload;

/// The message that a signal travels as.
pub(crate) fn signal(name: &str, id: &str, payload: Payload, now: Timestamp) -> Message {
    Message { seq: 0, id: format!("signal:{id}"), topic: signal_topic(name), payload, at: now }
}

/// What somebody outside says to a wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    /// A value.
    Value(Payload),
    /// An error in place of a value.
    Error(Payload),
    /// Nothing: the time limit is over.
    Expired,
}

/// A reply as it travels through the inbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ExternalReply {
    pub(crate) reply: Reply,
    pub(crate) actor: String,
}

/// The id of every message to one round of one wait.
pub(crate) fn round_id(topic: &str, round: u32) -> String {
    format!("{topic}#{round}")
}

impl ExternalReply {
    /// The message that this letter travels as. All letters to one round of one wait have one id, so that the first one
    /// wins; a refusal begins a new round.
    pub(crate) fn message(
        &self,
        topic: &str,
        round: u32,
        now: Timestamp,
    ) -> Result<Message, crate::vocabulary::payload::PayloadError> {
        let payload = Payload::encode(self)?;
        Ok(Message { seq: 0, id: round_id(topic, round), topic: topic.into(), payload, at: now })
    }
}
