//! Callbacks: a body hands its completion to somebody outside, who reports the outcome later.
//!
//! Promise: a token names one attempt at one command and is the same whenever that attempt's body runs; the first
//! report that fits completes the attempt, durably and once; a report that came before the body returned, or while no
//! process ran, counts before the step's `on_unknown` policy decides.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::ended::Ended;
use crate::event::{CallbackAwaited, CallbackReceived};
use crate::id::{CommandId, InvocationId, RunId};
use crate::outcome::EffectClass;
use crate::payload::hex;
use crate::perform::{Next, Performance};
use crate::replay::Invocation;
use crate::step_cx::StepCx;
use crate::store::Message;
use crate::wait::{Letter, Letterbox, Received, Reply};
use crate::world::later;

/// What every token begins with.
const PREFIX: &str = "cb1";

/// Topic of the inbox under which the outcome of `invocation` is reported.
pub(crate) fn callback_topic(invocation: &InvocationId) -> String {
    format!("callback:{invocation}")
}

/// Why a body gets no callback.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "step `{command}` has effect class `{class}`, and only a world-changing step (`tool`, `external`, `http`) can hand its completion to somebody outside"
)]
pub struct CallbackError {
    /// The command.
    pub command: CommandId,
    /// Its class.
    pub class: EffectClass,
}

/// A body said that its outcome will be reported from outside. Return it as the body's error, as it is or as the
/// cause of one of your own: which type it has does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the outcome will be reported by a callback")]
#[non_exhaustive]
pub struct CallbackPending;

/// The right to report the outcome of one attempt, to be sent to somebody outside.
///
/// ```
/// # use aether_core::failure::Result;
/// # use aether_core::step_cx::StepCx;
/// # async fn enqueue(_: &str) -> Result<()> { Ok(()) }
/// async fn render(cx: &mut StepCx) -> Result<String> {
///     let callback = cx.callback()?;
///     enqueue(callback.token()).await?;
///     Err(callback.pending().into())
/// }
/// ```
#[must_use = "the outcome is waited for when the body ends with `.pending()`"]
#[derive(Debug)]
pub struct Callback {
    cx: StepCx,
    token: String,
    limit: Option<Duration>,
}

impl Callback {
    /// What whoever reports the outcome must show, see `Engine::complete_callback`: printable ASCII that is safe in a
    /// URL. It is the same each time this attempt's body runs. Guessing it takes knowing the run's seed.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// How long the report is waited for. When that is over nobody knows the outcome, and the step's `on_unknown`
    /// policy decides. Without it there is no limit: the step's timeout is for the body alone.
    pub fn expires(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Says that the outcome will be reported. Return the answer as the body's error; a body that returns a value all
    /// the same has completed the step itself.
    pub fn pending(self) -> CallbackPending {
        self.cx.hand_over(self.limit);
        CallbackPending
    }
}

impl StepCx {
    /// A callback for this attempt.
    ///
    /// # Errors
    /// [`CallbackError`] when this step does not change the world.
    pub fn callback(&self) -> Result<Callback, CallbackError> {
        if !self.class().changes_world() {
            return Err(CallbackError { command: self.command_id().clone(), class: self.class() });
        }
        let token = CallbackToken {
            run: self.run_id().clone(),
            command: self.command_id().clone(),
            attempt: self.attempt(),
        };
        Ok(Callback { cx: self.clone(), token: token.signed(self.seed()), limit: None })
    }
}

/// What a token names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallbackToken {
    pub(crate) run: RunId,
    pub(crate) command: CommandId,
    pub(crate) attempt: u32,
}

impl CallbackToken {
    /// The token as text. `seed` is that of the run.
    pub(crate) fn signed(&self, seed: &str) -> String {
        let names = format!(
            "{PREFIX}.{}.{}.{}",
            hex(self.run.as_str().as_bytes()),
            hex(self.command.as_str().as_bytes()),
            self.attempt
        );
        let mut hash = Sha256::new();
        hash.update(b"aether callback\n");
        hash.update(seed.as_bytes());
        hash.update(names.as_bytes());
        let proof = hex(&hash.finalize());
        format!("{names}.{}", proof.get(..32).unwrap_or(&proof))
    }

    /// Reads the names in a token. Whether it is genuine only [`CallbackToken::signed`] with the run's seed can tell.
    pub(crate) fn parse(token: &str) -> Option<Self> {
        let parts: Vec<_> = token.split('.').collect();
        let [PREFIX, run, command, attempt, _proof] = parts.as_slice() else { return None };
        Some(Self {
            run: RunId::new(text_of(run)?).ok()?,
            command: CommandId::from(text_of(command)?),
            attempt: attempt.parse().ok()?,
        })
    }

    pub(crate) fn invocation(&self) -> InvocationId {
        InvocationId::new(&self.command, self.attempt)
    }
}

/// Reads hexadecimal digits.
fn text_of(digits: &str) -> Option<String> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    String::from_utf8(pairs.map(byte).collect::<Option<_>>()?).ok()
}

impl Performance {
    /// An invocation that was started and has no outcome: somebody may report it, or may have done so.
    pub(crate) async fn left_open(
        &mut self,
        invocation: &Invocation,
        callback: Option<(InvocationId, Option<Timestamp>)>,
    ) -> Next {
        if let Some(next) = self.early_callback(&invocation.id).await {
            return next;
        }
        match callback {
            Some((awaited, until)) if awaited == invocation.id && invocation.decision.is_none() => {
                self.await_callback(until).await
            }
            _ => Next::Unknown(invocation.id.clone(), invocation.key.clone(), invocation.decision),
        }
    }

    /// The body came back without an outcome.
    pub(crate) async fn hand_over(&mut self, limit: Option<Duration>) -> Next {
        let until = limit.map(|limit| later(self.run.now(), limit));
        let (command, invocation) = (self.command.clone(), self.invocation());
        let mut events = self.start_events();
        events.push(CallbackAwaited { command, invocation, until }.into());
        self.run.append_large_durably(events).await;
        self.round += u32::from(std::mem::replace(&mut self.handed_over, true));
        self.await_callback(until).await
    }

    /// Waits for the report of this attempt's outcome.
    async fn await_callback(&mut self, until: Option<Timestamp>) -> Next {
        let invocation = self.invocation();
        let mut letters = self.callbacks(&invocation, until);
        loop {
            let received = letters.letter().await;
            if received.letter.reply == Reply::Expired {
                self.round = letters.round;
                self.consumed.extend(received.consumed);
                self.lost = Some("the callback it waits for did not come in time".into());
                return Next::Unknown(invocation, self.key(), None);
            }
            if let Some(next) = self.reported(received, &mut letters).await {
                return next;
            }
        }
    }

    /// A report that came before a crash, or before the body returned, if there is one that fits.
    async fn early_callback(&mut self, invocation: &InvocationId) -> Option<Next> {
        let mut letters = self.callbacks(invocation, None);
        while let Some(message) = self.run.take_message(&letters.topic) {
            if let Some(next) = self.late_callback(&message, &mut letters).await {
                return Some(next);
            }
        }
        None
    }

    /// Takes in a message that reports the outcome; `None` when it was refused.
    async fn late_callback(&mut self, message: &Message, letters: &mut Letterbox) -> Option<Next> {
        match Received::read(message) {
            Ok(received) => self.reported(received, letters).await,
            Err(reason) => {
                letters.refuse("unknown", reason, vec![message.seq]);
                self.round = letters.round;
                None
            }
        }
    }

    /// A report that arrived while an operator is asked about the invocation; `None` when it was refused.
    pub(crate) async fn reported_meanwhile(
        &mut self,
        invocation: &InvocationId,
        message: &Message,
    ) -> Option<Next> {
        let mut letters = self.callbacks(invocation, None);
        self.late_callback(message, &mut letters).await
    }

    fn callbacks(&self, invocation: &InvocationId, until: Option<Timestamp>) -> Letterbox {
        Letterbox {
            run: Arc::clone(&self.run),
            command: self.command.clone(),
            topic: callback_topic(invocation),
            until,
            round: self.round,
        }
    }

    /// Takes a report in; `None` when it was refused.
    async fn reported(&mut self, received: Received, letters: &mut Letterbox) -> Option<Next> {
        let Received { letter: Letter { reply, actor }, consumed } = received;
        let ended = match reply {
            Reply::Value(value) => self.body.accepts(&value).map(|()| Ended::Value(value)),
            Reply::Error(error) => self.body.failure(&error).map(Ended::Error),
            Reply::Expired => return None,
        };
        let too_large = match &ended {
            Ok(Ended::Value(value)) => self.run.too_large(value),
            Ok(Ended::Error(error)) => self.run.error_too_large(error),
            _ => None,
        };
        match (ended, too_large) {
            (Ok(ended), None) => {
                let (command, invocation) = (self.command.clone(), self.invocation());
                self.notes.push(CallbackReceived { command, invocation }.into());
                self.consumed.extend(consumed);
                self.round = letters.round;
                Some(Next::Settle(ended))
            }
            (Ok(_), Some(reason)) => self.refuse_report(letters, &actor, reason, consumed),
            (Err(error), _) => self.refuse_report(letters, &actor, error.to_string(), consumed),
        }
    }

    fn refuse_report(
        &mut self,
        letters: &mut Letterbox,
        actor: &str,
        reason: String,
        consumed: Vec<u64>,
    ) -> Option<Next> {
        letters.refuse(actor, reason, consumed);
        self.round = letters.round;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_its_attempt_and_nothing_else_reads_as_one() {
        let token = CallbackToken {
            run: RunId::new("ticket 42/ü").unwrap(),
            command: CommandId::new("3.b0.1", "render"),
            attempt: 2,
        };
        let text = token.signed("5eed");
        assert_eq!(CallbackToken::parse(&text), Some(token.clone()));
        assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.'), "{text}");
        assert_ne!(text, token.signed("another"));
        for wrong in
            ["", "cb1", "cb1.zz.zz.0.aa", "cb1.61.62.x.aa", "cb2.61.62.0.aa", "cb1.6.62.0.é", &text[1..]]
        {
            assert_eq!(CallbackToken::parse(wrong), None, "{wrong:?}");
        }
    }
}
