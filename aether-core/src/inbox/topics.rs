//! The topics of a run's inbox: the name under which each kind of message is sent and received.
//!
//! Promise: sender and receiver take a topic from here, so that they cannot disagree.

use sha2::{Digest as _, Sha256};

use crate::store::append::END_REQUESTS;
use crate::vocabulary::id::{CommandId, InvocationId};
use crate::vocabulary::payload::hex;

const CALLBACK: &str = "callback:";
const CONFIRM: &str = "confirm:";
const RESOLVE: &str = "resolve:";

/// Topic of the inbox under which the outcome of `invocation` is reported.
pub(crate) fn callback_topic(invocation: &InvocationId) -> String {
    format!("{CALLBACK}{invocation}")
}

/// Whether messages of a topic answer what `command` waits for. Signals do not: their topics name no command.
pub(crate) fn replies_to(topic: &str, command: &CommandId) -> bool {
    let of_invocation = topic.strip_prefix(RESOLVE).or_else(|| topic.strip_prefix(CALLBACK));
    topic == answer_topic(command)
        || topic == approval_topic(command)
        || topic.strip_prefix(CONFIRM).is_some_and(|rest| rest.starts_with(&format!("{command}:")))
        || of_invocation.is_some_and(|id| InvocationId::from(id.to_owned()).command() == *command)
}

/// Name of the command that `cx.approval` issues.
pub(crate) const APPROVAL: &str = crate::store::open_waits::APPROVAL;

/// Topic of the inbox under which a question is answered.
pub(crate) fn answer_topic(command: &CommandId) -> String {
    format!("answer:{command}")
}

/// Topic of the inbox under which an approval is decided.
pub(crate) fn approval_topic(command: &CommandId) -> String {
    format!("decide:{command}")
}

/// Topic of the inbox under which a signal is sent.
pub(crate) fn signal_topic(name: &str) -> String {
    format!("signal:{name}")
}

/// Topic of the inbox under which a resolution of `invocation` is sent.
pub(crate) fn resolution_topic(invocation: &InvocationId) -> String {
    format!("{RESOLVE}{invocation}")
}

/// Topic of the inbox under which the question about a resource is answered. Kinds and ids of resources hold anything
/// at any length, so a hash names them. It has no key and topics stand in the open, also where there is a payload codec: who
/// guesses a resource can see that it was decided about.
pub(crate) fn confirm_topic(command: &CommandId, resource: &str, id: &str) -> String {
    let mut hash = Sha256::new();
    hash.update((resource.len() as u64).to_be_bytes());
    hash.update(resource.as_bytes());
    hash.update(id.as_bytes());
    format!("{CONFIRM}{command}:{}", hex(&hash.finalize()))
}

/// Topic of the inbox under which a run is cancelled.
pub(crate) const CANCEL: &str = END_REQUESTS[0];
/// Topic of the inbox under which a run is terminated.
pub(crate) const TERMINATE: &str = END_REQUESTS[1];
