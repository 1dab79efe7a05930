//! Receiving messages: a durable wait for the first reply that fits.
//!
//! Promise: a message that was sent before its wait is kept; a message ends one wait; a reply that does not fit is
//! refused on the record, and the wait continues; of two replies, or of a reply and the time limit, one wins, across
//! processes too.

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

/// A letter that was received, and the messages that are to be taken in with its effect.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) letter: ExternalReply,
    pub(crate) consumed: Vec<Taken>,
}

impl Received {
    /// Reads a message; one that cannot be read comes back with the reason.
    pub(crate) fn read(message: Taken) -> Result<Self, (String, Taken)> {
        match message.payload.decode() {
            Ok(letter) => Ok(Self { letter, consumed: vec![message] }),
            Err(error) => Err((error.to_string(), message)),
        }
    }
}

/// Where the letters to one wait arrive.
pub(crate) struct ReplyReceiver {
    pub(crate) run: Arc<Run>,
    pub(crate) command: CommandId,
    pub(crate) topic: String,
    pub(crate) until: Option<Timestamp>,
    pub(crate) round: u32,
}

impl ReplyReceiver {
    /// Waits durably for the next letter. The time limit sends one too.
    pub(crate) async fn letter(&mut self) -> Received {
        loop {
            let message = match message_before(&self.run, &self.command, &self.topic, self.until).await {
                Some(message) => Some(message),
                None => self.expire().await,
            };
            let Some(message) = message else {
                return Received { letter: expired(), consumed: Vec::new() };
            };
            match Received::read(message) {
                Ok(received) => return received,
                Err((reason, message)) => self.refuse("unknown", reason, vec![message]),
            }
        }
    }

    /// Records that a letter does not fit. The wait goes on.
    pub(crate) fn refuse(&mut self, actor: &str, reason: impl std::fmt::Display, consumed: Vec<Taken>) {
        refuse(&self.run, &self.command, actor, reason, consumed);
        self.round += 1;
    }

    /// The time is over: whose letter is there first, the limit's or a person's, decides.
    async fn expire(&self) -> Option<Taken> {
        let _in_flight = self.run.in_flight();
        let sent = match expired().message(&self.topic, self.round, self.run.now()) {
            Ok(message) => self.run.shared.store.send(&self.run.id, message).await,
            Err(_) => return None,
        };
        if let Err(error) = sent {
            return self.run.stop(error).await;
        }
        self.run.look_into_inbox().await;
        self.run.take_message(&self.topic)
    }
}

/// Records that a word from outside does not fit. Whoever waits for it begins a new round.
pub(crate) fn refuse(
    run: &Run,
    command: &CommandId,
    actor: &str,
    reason: impl std::fmt::Display,
    consumed: Vec<Taken>,
) {
    tracing::warn!(run = %run.id, %command, actor, %reason, "an answer was refused; the wait goes on");
    let (command, reason) = (command.clone(), reason.to_string());
    let refused = AnswerRefused { command, reason, actor: actor.into() };
    run.append(vec![refused.into()], AppendExtras { consumed, ..AppendExtras::default() });
}

fn expired() -> ExternalReply {
    ExternalReply { reply: Reply::Expired, actor: "time limit".into() }
}

/// Waits durably for the first message of `topic`; `None` when `until` came first.
pub(crate) async fn message_before(
    run: &Arc<Run>,
    command: &CommandId,
    topic: &str,
    until: Option<Timestamp>,
) -> Option<Taken> {
    let _waiting = run.wait(command.clone(), until);
    let message = pin!(run.message(topic));
    let Some(until) = until else { return Some(message.await) };
    match select(message, run.shared.environment.sleep_until(until)).await {
        Either::Left((message, _)) => Some(message),
        Either::Right(((), _)) => None,
    }
}
