//! Receiving messages: a durable wait for the first valid reply.
//!
//! Promise: a message that was sent before its wait is kept; a message ends one wait; the refusal of an invalid reply is
//! recorded, and the wait continues; of two replies, or of a reply and the time limit, one wins, across processes too.

use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{Either, select};
use jiff::Timestamp;

use crate::inbox::replies::{ExternalReply, Reply};
use crate::journal::event::AnswerRefused;
use crate::run::append::AppendExtras;
use crate::run::claim::Run;
use crate::run::taken::Taken;
use crate::vocabulary::id::CommandId;

/// A reply that was received, and the messages to consume in the append of its effect.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) reply: ExternalReply,
    pub(crate) consumed: Vec<Taken>,
}

impl Received {
    /// Reads a message; an unreadable one is returned with the reason.
    pub(crate) fn read(message: Taken) -> Result<Self, (String, Taken)> {
        match message.payload.decode() {
            Ok(reply) => Ok(Self { reply, consumed: vec![message] }),
            Err(error) => Err((error.to_string(), message)),
        }
    }
}

/// Receives the replies to one wait.
pub(crate) struct ReplyReceiver {
    pub(crate) run: Arc<Run>,
    /// The command that waits.
    pub(crate) command: CommandId,
    /// Topic of the inbox under which replies are sent.
    pub(crate) topic: String,
    /// The time limit; `None` for none.
    pub(crate) until: Option<Timestamp>,
    /// Number of the round. Each refusal begins a new one, because the message id of the old round is used up.
    pub(crate) round: u32,
}

impl ReplyReceiver {
    /// Waits durably for the next reply. The expiry of the time limit is a reply, too.
    pub(crate) async fn next_reply(&mut self) -> Received {
        loop {
            let message = match message_before(&self.run, &self.command, &self.topic, self.until).await {
                Some(message) => Some(message),
                None => self.expire().await,
            };
            let Some(message) = message else {
                return Received { reply: expired(), consumed: Vec::new() };
            };
            match Received::read(message) {
                Ok(received) => return received,
                Err((reason, message)) => self.refuse("unknown", reason, vec![message]),
            }
        }
    }

    /// Records that a reply is not valid. The wait continues, in a new round.
    pub(crate) fn refuse(&mut self, actor: &str, reason: impl std::fmt::Display, consumed: Vec<Taken>) {
        refuse(&self.run, &self.command, actor, reason, consumed);
        self.round += 1;
    }

    /// The time limit has passed.
    async fn expire(&self) -> Option<Taken> {
        // Between the end of the wait and the message nothing else keeps the run from being suspended.
        let _in_flight = self.run.in_flight();
        self.close(TIME_LIMIT).await?;
        self.run.take_message(&self.topic)
    }

    /// Ends this round for `actor`. It is decided by the store, and not by this process: the end is sent as a message with the
    /// same id as every reply of this round, so that the store keeps only the first of them. If a reply came first, the end
    /// is dropped as a duplicate. Either is in the inbox when this returns.
    pub(crate) async fn close(&self, actor: &str) -> Option<()> {
        let closing = ExternalReply { reply: Reply::Expired, actor: actor.into() };
        let message = closing.message(&self.topic, self.round, self.run.now()).ok()?;
        self.run.insist(|| self.run.shared.store.send(&self.run.id, message.clone())).await;
        // Read from the store, whichever was first: the other one may have been sent by another process.
        self.run.look_into_inbox().await;
        Some(())
    }
}

/// Records that a reply from outside is not valid. The caller must begin a new round.
pub(crate) fn refuse(
    run: &Run,
    command: &CommandId,
    actor: &str,
    reason: impl std::fmt::Display,
    consumed: Vec<Taken>,
) {
    tracing::warn!(target: "aether::run", run = %run.id, %command, actor, %reason, "a reply was refused; the wait continues");
    let (command, reason) = (command.clone(), reason.to_string());
    let refused = AnswerRefused { command, reason, actor: actor.into() };
    run.append(vec![refused.into()], AppendExtras { consumed, ..AppendExtras::default() });
}

/// Who sends the expiry of a time limit.
pub(crate) const TIME_LIMIT: &str = "time limit";

fn expired() -> ExternalReply {
    ExternalReply { reply: Reply::Expired, actor: TIME_LIMIT.into() }
}

/// Waits durably for the first message of `topic`; `None` when `until` came first.
pub(crate) async fn message_before(
    run: &Arc<Run>,
    command: &CommandId,
    topic: &str,
    until: Option<Timestamp>,
) -> Option<Taken> {
    // Before the first look into the inbox, so that the run counts as waiting while the wait is polled.
    let _waiting = run.wait(command.clone(), until);
    // `message` is polled first: a message that is there wins against a time limit that has passed as well.
    let message = pin!(run.message(topic));
    let Some(until) = until else { return Some(message.await) };
    match select(message, run.shared.environment.sleep_until(until)).await {
        Either::Left((message, _)) => Some(message),
        Either::Right(((), _)) => None,
    }
}
