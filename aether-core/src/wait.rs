//! Durable waits for messages: the letterbox that a single answer ends, and signals.
//!
//! Promise: a message that was sent before its wait is kept; a message ends one wait; an answer that does not fit is
//! refused on the record, and the wait goes on; of two answers, or of an answer and the time limit, one wins, across
//! processes too. A run that only waits lives in the store alone.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cx::{Cx, Ticket};
use crate::event::{AnswerRefused, Event, SignalReceived, WaitCompleted, WaitStarted};
use crate::failure::{Failure, StepError};
use crate::human::{Wait, awaitable};
use crate::id::CommandId;
use crate::outcome::EffectClass;
use crate::payload::Payload;

use crate::replay::Answer;
use crate::run::{Matched, Riders, Run};
use crate::step::Recordable;
use crate::store::Message;
use crate::world::later;

/// Topic of the inbox under which a signal is sent.
fn signal_topic(name: &str) -> String {
    format!("signal:{name}")
}

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
pub(crate) struct Letter {
    pub(crate) reply: Reply,
    pub(crate) actor: String,
}

/// The id of every message to one round of one wait.
pub(crate) fn round_id(topic: &str, round: u32) -> String {
    format!("{topic}#{round}")
}

impl Letter {
    /// The message that this letter travels as. All letters to one round of one wait have one id, so that the first one
    /// wins; a refusal begins a new round.
    pub(crate) fn message(
        &self,
        topic: &str,
        round: u32,
        now: Timestamp,
    ) -> Result<Message, crate::payload::PayloadError> {
        let payload = Payload::encode(self)?;
        Ok(Message { seq: 0, id: round_id(topic, round), topic: topic.into(), payload, at: now })
    }
}

/// A letter that was received, and the messages that are to be taken in with its effect.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) letter: Letter,
    pub(crate) consumed: Vec<u64>,
}

impl Received {
    pub(crate) fn read(message: &Message) -> Result<Self, String> {
        let letter = message.payload.decode().map_err(|error| error.to_string())?;
        Ok(Self { letter, consumed: vec![message.seq] })
    }
}

/// Where the letters to one wait arrive.
pub(crate) struct Letterbox {
    pub(crate) run: Arc<Run>,
    pub(crate) command: CommandId,
    pub(crate) topic: String,
    pub(crate) until: Option<Timestamp>,
    pub(crate) round: u32,
}

impl Letterbox {
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
            match Received::read(&message) {
                Ok(received) => return received,
                Err(reason) => self.refuse("unknown", reason, vec![message.seq]),
            }
        }
    }

    /// Records that a letter does not fit. The wait goes on.
    pub(crate) fn refuse(&mut self, actor: &str, reason: impl std::fmt::Display, consumed: Vec<u64>) {
        refuse(&self.run, &self.command, actor, reason, consumed);
        self.round += 1;
    }

    /// The time is over: whose letter is there first, the limit's or a person's, decides.
    async fn expire(&self) -> Option<Message> {
        let _busy = self.run.busy();
        let sent = match expired().message(&self.topic, self.round, self.run.now()) {
            Ok(message) => self.run.host.store.send(&self.run.id, message).await,
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
    consumed: Vec<u64>,
) {
    tracing::warn!(run = %run.id, %command, actor, %reason, "an answer was refused; the wait goes on");
    let (command, reason) = (command.clone(), reason.to_string());
    let refused = AnswerRefused { command, reason, actor: actor.into() };
    run.append(vec![refused.into()], Riders { consumed, ..Riders::default() });
}

fn expired() -> Letter {
    Letter { reply: Reply::Expired, actor: "time limit".into() }
}

/// Waits durably for the first message of `topic`; `None` when `until` came first.
async fn message_before(
    run: &Arc<Run>,
    command: &CommandId,
    topic: &str,
    until: Option<Timestamp>,
) -> Option<Message> {
    let _waiting = run.wait(command.clone(), until);
    let message = pin!(run.message(topic));
    let Some(until) = until else { return Some(message.await) };
    match select(message, run.host.world.sleep_until(until)).await {
        Either::Left((message, _)) => Some(message),
        Either::Right(((), _)) => None,
    }
}

/// A signal that is waited for. Await it, with a time limit or without.
#[must_use = "a signal is waited for when this is awaited"]
#[derive(Debug)]
pub struct Signal<'c, T>(Wait<'c, Result<T, StepError<Failure>>>);

awaitable!(Signal<T>: Result<T, StepError<Failure>>);

impl<T> Signal<'_, T> {
    /// Gives up after `limit`, durably; the step error is then [`StepError::Cancelled`]. Without it the wait has no
    /// limit.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.0.terms.limit = Some(limit);
        self
    }
}

impl Cx {
    /// Waits for a signal of this name, durably. Signals that were sent before are kept and taken in the order in
    /// which they were sent; each ends one wait.
    ///
    /// The step error is `Unrecordable` when the signal's value is not a `T`, and `Cancelled` when the time limit is
    /// over.
    ///
    /// ```
    /// # use aether_core::cx::Cx;
    /// # async fn workflow(cx: &mut Cx) -> aether_core::failure::Result<()> {
    /// let amount: u32 = cx.signal("paid").timeout(std::time::Duration::from_secs(3600)).await?;
    /// # Ok(()) }
    /// ```
    pub fn signal<T: Recordable>(&mut self, name: &str) -> Signal<'_, T> {
        let ticket = self.ticket("signal");
        let name = name.to_owned();
        Signal(Wait::new(move |terms| Box::pin(receive(ticket, name, terms.limit))))
    }
}

async fn receive<T: Recordable>(
    mut ticket: Ticket<'_>,
    name: String,
    limit: Option<Duration>,
) -> Result<T, StepError<Failure>> {
    let site = ticket.enter().await;
    let (run, command) = (Arc::clone(&ticket.run), ticket.command.clone());
    if let Err(over) = run.host.limits.check_name("signal's name", &name) {
        return Err(StepError::Unrecordable(run.failure(&command, over)));
    }
    let class = EffectClass::Human;
    let value = match run.request(&command, class, None, site).await {
        Matched::Answered => match run.turn(&command).await.answer {
            Some(Answer::Wait(value)) => value,
            answer => return run.mismatched(&command, class, answer).await,
        },
        Matched::Begun(record) => {
            run.frontier(&command).await;
            take(&run, &command, &name, record.due).await
        }
        Matched::New => {
            run.frontier(&command).await;
            run.breathe().await;
            let until = limit.map(|limit| later(run.now(), limit));
            let started = WaitStarted { command: command.clone(), name: name.clone(), until };
            run.append(vec![started.into()], Riders::default());
            take(&run, &command, &name, until).await
        }
    };
    match value {
        Some(value) => value.decode().map_err(|error| StepError::Unrecordable(run.failure(&command, error))),
        None => {
            let why = format!("no signal `{name}` came in time");
            Err(StepError::Cancelled(run.failure(&command, why)))
        }
    }
}

/// Takes a signal in, or records that none came.
async fn take(run: &Arc<Run>, command: &CommandId, name: &str, until: Option<Timestamp>) -> Option<Payload> {
    let topic = signal_topic(name);
    let message = match message_before(run, command, &topic, until).await {
        Some(message) => Some(message),
        None => {
            let _busy = run.busy();
            run.look_into_inbox().await;
            run.take_message(&topic)
        }
    };
    let mut events: Vec<Event> = Vec::with_capacity(2);
    let mut riders = Riders::default();
    let value = message.map(|message| {
        riders.consumed.push(message.seq);
        let value = message.payload;
        events.push(SignalReceived { id: message.id, name: name.into(), value: value.clone() }.into());
        value
    });
    events.push(WaitCompleted { command: command.clone(), value: value.clone() }.into());
    run.append_large(events, riders).await;
    value
}
