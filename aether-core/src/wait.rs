//! Durable waits for messages: signals, and questions to people.
//!
//! Promise: a message that was sent before its wait is kept; a message ends one wait; a run that only waits lives in
//! the store alone.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::cx::{Cx, Ticket};
use crate::event::{ApprovalDecided, ApprovalRequested, Event, SignalReceived, WaitCompleted, WaitStarted};
use crate::failure::{Failure, StepError};
use crate::gate::BoxEffect;
use crate::id::CommandId;
use crate::outcome::EffectClass;
use crate::payload::Payload;
use crate::perform::at;
use crate::replay::Answer;
use crate::run::{Matched, Riders, Run};
use crate::step::Recordable;
use crate::store::Message;

/// Topic of the inbox under which a signal is sent.
pub(crate) fn signal_topic(name: &str) -> String {
    format!("signal:{name}")
}

/// Topic of the inbox under which a question is answered.
pub(crate) fn answer_topic(command: &CommandId) -> String {
    format!("answer:{command}")
}

/// A person's answer, as it travels through the inbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Answered {
    pub(crate) value: Payload,
    pub(crate) actor: String,
}

impl Cx {
    /// Waits for a signal of this name, durably. Signals that were sent before are kept and taken in the order in
    /// which they were sent; each ends one wait. For a time limit use `cx.race` with `cx.sleep`.
    ///
    /// The step error is `Unrecordable` when the signal's value is not a `T`.
    pub fn signal<T: Recordable>(&mut self, name: &str) -> BoxEffect<'_, Result<T, StepError<Failure>>> {
        let ticket = self.ticket("signal");
        let name = name.to_owned();
        let begin = |command: &CommandId| -> Vec<Event> {
            vec![WaitStarted { command: command.clone(), name: name.clone(), until: None }.into()]
        };
        let started = begin(&ticket.command);
        let topic = signal_topic(&name);
        BoxEffect::boxed(wait(ticket, topic, started, move |message| {
            let Message { id, payload, .. } = message;
            Ok((payload.clone(), SignalReceived { id, name, value: payload }.into()))
        }))
    }

    /// Asks a person, and waits durably for the answer. `question` is recorded and shown to whoever answers.
    ///
    /// The step error is `Unrecordable` when the answer is not a `T`.
    pub fn ask<T: Recordable>(
        &mut self,
        question: impl Serialize,
    ) -> BoxEffect<'_, Result<T, StepError<Failure>>> {
        let ticket = self.ticket("ask");
        let command = ticket.command.clone();
        let request = Payload::encode(&question);
        BoxEffect::boxed(async move {
            let request = match request {
                Ok(request) => request,
                Err(error) => return Err(StepError::Unrecordable(at(&ticket.run, &command, error))),
            };
            let started = vec![ApprovalRequested { command: command.clone(), request }.into()];
            let topic = answer_topic(&command);
            wait(ticket, topic, started, move |message| {
                let Answered { value, actor } = message.payload.decode().map_err(|e| e.to_string())?;
                Ok((value.clone(), ApprovalDecided { command, decision: value, actor }.into()))
            })
            .await
        })
    }
}

/// Waits for a message of `topic`; `read` makes the recorded value and its event of it.
async fn wait<T: Recordable>(
    mut ticket: Ticket<'_>,
    topic: String,
    started: Vec<Event>,
    read: impl FnOnce(Message) -> Result<(Payload, Event), String>,
) -> Result<T, StepError<Failure>> {
    let site = ticket.enter().await;
    let (run, command) = (Arc::clone(&ticket.run), ticket.command.clone());
    let class = EffectClass::Human;
    let value = match run.request(&command, class, None, site).await {
        Matched::Answered => match run.turn(&command).await.answer {
            Some(Answer::Wait(Some(value))) => value,
            answer => return run.mismatched(&command, class, answer).await,
        },
        Matched::Begun(_) => {
            run.frontier(&command).await;
            receive(&run, &command, &topic, read).await?
        }
        Matched::New => {
            run.frontier(&command).await;
            run.append_large(started, Riders::default()).await;
            receive(&run, &command, &topic, read).await?
        }
    };
    value.decode().map_err(|error| StepError::Unrecordable(at(&run, &command, error)))
}

async fn receive(
    run: &Arc<Run>,
    command: &CommandId,
    topic: &str,
    read: impl FnOnce(Message) -> Result<(Payload, Event), String>,
) -> Result<Payload, StepError<Failure>> {
    let message = {
        let _waiting = run.wait(command.clone(), None);
        run.message(topic).await
    };
    let consumed = vec![message.seq];
    let (value, event) = read(message).map_err(|error| StepError::Unrecordable(at(run, command, error)))?;
    let completed = WaitCompleted { command: command.clone(), value: Some(value.clone()) };
    run.append_large(vec![event, completed.into()], Riders { consumed, ..Riders::default() }).await;
    Ok(value)
}
