//! Messages of the inbox that answer a wait: replies and signals.
//!
//! Promise: all replies to one round of one wait have the same message id, so that a store accepts the first of them and
//! no other.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::inbox::topics::signal_topic;
use crate::store::records::Message;
use crate::vocabulary::payload::Payload;

/// The message that a signal travels as.
pub(crate) fn signal(name: &str, id: &str, payload: Payload, now: Timestamp) -> Message {
    Message { seq: 0, id: format!("signal:{id}"), topic: signal_topic(name), payload, at: now }
}

/// The actor of reports from outside.
pub(crate) const CALLBACK: &str = "callback";

/// What a reply says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    /// The value that the wait asked for, as JSON.
    Value(Payload),
    /// An error in place of the value, or the reason of a rejection, as JSON.
    Error(Payload),
    /// No one replied before the time limit.
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
    /// The message that carries this reply. All replies to one round of one wait have the same id, so that the first one
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
