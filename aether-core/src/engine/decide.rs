//! What somebody outside says to a run that waits: approvals, answers, callbacks; and the list of what waits.
//!
//! Promise: a word to something that does not wait is a typed error and changes nothing; of two words to one wait
//! exactly one is taken, across processes; a word that was taken survives a crash at any instant.

use serde::{Deserialize, Serialize};

use crate::engine::inner::{Engine, notify_run, now};
use crate::inbox::decisions::{ApprovalOutcome, ConfirmationReply, Resolution, Resolved};
use crate::inbox::error::SendError;
use crate::inbox::replies::{ExternalReply, Reply, round_id};
use crate::inbox::topics::{answer_topic, approval_topic, callback_topic, confirm_topic, resolution_topic};
use crate::journal::event::{ConfirmationDecision, StateConfirmed};
use crate::step::body::Body;
use crate::store::api::{Message, RunFilter, RunRecord, Sent};
use crate::store::error::StoreError;
use crate::view::pending::{Pending, WaitState, WaitStates, Waiting};
use crate::vocabulary::callback_token::CallbackToken;
use crate::vocabulary::contract::Status;
use crate::vocabulary::id::{CommandId, InvocationId, RunId};
use crate::vocabulary::outcome::EffectClass;
use crate::vocabulary::payload::{Payload, PayloadError};

/// Why a word to a run was not taken. Nothing was changed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DecideError {
    /// Nobody said it.
    #[error("run `{run}`, command `{command}`: say who decides; the actor is recorded and must not be empty")]
    NoActor {
        /// The run.
        run: RunId,
        /// The command.
        command: CommandId,
    },
    /// The run has no such command yet, or never.
    #[error("run `{run}` has no command `{command}`; `Engine::pending` lists what waits")]
    UnknownCommand {
        /// The run.
        run: RunId,
        /// The command.
        command: CommandId,
    },
    /// The command does not wait, or for something else.
    #[error(
        "run `{run}`: command `{command}` does not wait for {wanted}, {found}; `Engine::pending` lists what waits"
    )]
    NotWaiting {
        /// The run.
        run: RunId,
        /// The command.
        command: CommandId,
        /// What it would have had to wait for.
        wanted: Waiting,
        /// What it does instead.
        found: String,
    },
    /// Somebody else was first.
    #[error("run `{run}`: command `{command}` was decided already, by {by}")]
    AlreadyDecided {
        /// The run.
        run: RunId,
        /// The command.
        command: CommandId,
        /// By whom.
        by: String,
    },
    /// The time limit of the wait is over.
    #[error("run `{run}`: command `{command}` waited until {until}; it is too late")]
    Expired {
        /// The run.
        run: RunId,
        /// The command.
        command: CommandId,
        /// The limit.
        until: jiff::Timestamp,
    },
    /// The run is over.
    #[error("run `{run}` is {status}; nothing of it waits any more")]
    RunEnded {
        /// The run.
        run: RunId,
        /// Its terminal status.
        status: Status,
    },
    /// The value does not fit the step; the wait goes on.
    #[error(
        "run `{run}`: what was given for command `{command}` does not fit its step, which goes on waiting: {error}"
    )]
    Misfit {
        /// The run.
        run: RunId,
        /// The command.
        command: CommandId,
        /// What the decoder said.
        error: PayloadError,
    },
    /// The approval is not about a call, so there are no arguments to edit.
    #[error(
        "run `{run}`: command `{command}` asks for a decision and makes no call, so it has no arguments to edit: use `approve`"
    )]
    NothingToEdit {
        /// The run.
        run: RunId,
        /// The command.
        command: CommandId,
    },
    /// The token is none of this store's.
    #[error(
        "this is no callback token of a run in this store (it starts {start:?}); give the token as `Callback::token` gave it"
    )]
    UnknownToken {
        /// First characters of what was given.
        start: String,
    },
    /// The value cannot be recorded.
    #[error("what was given cannot be recorded: {0}")]
    Unrecordable(#[from] PayloadError),
    /// It is over a limit of the engine, or could not be sent.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The store failed, or has no such run.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A word to one wait.
struct OperatorReply<'a> {
    run: &'a RunId,
    command: &'a CommandId,
    waiting: Waiting,
    topic: String,
    actor: &'a str,
    payload: Payload,
}

/// What every word in an inbox tells: who said it, and whether the time limit did.
#[derive(Deserialize)]
struct Said {
    actor: String,
    #[serde(default)]
    reply: Option<Reply>,
}

impl Engine {
    /// What waits for somebody outside in `run`, oldest first.
    ///
    /// # Errors
    /// [`StoreError`] when there is no such run or its journal is unreadable.
    pub async fn pending(&self, run: &RunId) -> Result<Vec<Pending>, StoreError> {
        let (record, counters) = self.counters(run).await?;
        Ok(if record.status.is_terminal() { Vec::new() } else { counters.into_open() })
    }

    /// What waits for somebody outside in any run of the store, oldest first. Reads the journal of every open run; one
    /// that is damaged is left out with a warning, so that it does not hide what waits in the others.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub async fn all_pending(&self) -> Result<Vec<Pending>, StoreError> {
        let mut all = Vec::new();
        for status in [Status::Pending, Status::Running, Status::Waiting] {
            for run in self.runs(RunFilter { status: Some(status), ..RunFilter::default() }).await? {
                match self.pending(&run.id).await {
                    Ok(mut pending) => all.append(&mut pending),
                    // It ended and was deleted since it was listed.
                    Err(StoreError::UnknownRun { .. }) => {}
                    Err(error @ StoreError::Corrupt { .. }) => {
                        tracing::warn!(run = %run.id, %error, "what waits in a damaged run cannot be listed");
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        // A run that moved on between two listings is in both.
        all.sort_by(|a, b| (a.since, &a.run, &a.command).cmp(&(b.since, &b.run, &b.command)));
        all.dedup_by(|a, b| (&a.run, &a.command) == (&b.run, &b.command));
        Ok(all)
    }

    /// Says yes to what `command` of `run` asks a person for. `actor` is recorded.
    ///
    /// # Errors
    /// [`DecideError`]: nobody said it, there is no such run or command, it does not wait for an approval (or not yet),
    /// somebody else was first, the time limit is over, or the run is.
    pub async fn approve(&self, run: &RunId, command: &CommandId, actor: &str) -> Result<(), DecideError> {
        self.rule(run, command, ApprovalOutcome::Approved, actor).await
    }

    /// Says yes to a step's call with other arguments, an object with one field per argument. The recorded ones stay
    /// in the journal beside them, and the body gets the edited ones.
    ///
    /// # Errors
    /// Those of [`Engine::approve`]; and [`DecideError::Misfit`] when the arguments do not fit the step, which goes on
    /// waiting. Where this program does not hold the step, the process that advances the run refuses them on the record
    /// ([`Pending::refused`]).
    pub async fn approve_with(
        &self,
        run: &RunId,
        command: &CommandId,
        edited: &(impl Serialize + ?Sized),
        actor: &str,
    ) -> Result<(), DecideError> {
        self.rule(run, command, ApprovalOutcome::ApprovedWith(Payload::encode(edited)?), actor).await
    }

    /// Says no. The call is not made: its step error is [`StepError::Rejected`](crate::vocabulary::failure::StepError::Rejected).
    ///
    /// # Errors
    /// Those of [`Engine::approve`].
    pub async fn reject(
        &self,
        run: &RunId,
        command: &CommandId,
        reason: &str,
        actor: &str,
    ) -> Result<(), DecideError> {
        self.inner.shared.limits.check_text("reason", reason).map_err(SendError::from)?;
        self.rule(run, command, ApprovalOutcome::Rejected(reason.into()), actor).await
    }

    /// Answers a question that `cx.ask` put to a person. `actor` is recorded. An answer of another type than the
    /// workflow asked for is refused on the record ([`Pending::refused`]), and the question stays open.
    ///
    /// # Errors
    /// [`DecideError`] as for [`Engine::approve`].
    pub async fn answer<T: Serialize + ?Sized>(
        &self,
        run: &RunId,
        question: &CommandId,
        value: &T,
        actor: &str,
    ) -> Result<(), DecideError> {
        let letter = ExternalReply { reply: Reply::Value(Payload::encode(value)?), actor: actor.into() };
        let (payload, topic) = (Payload::encode(&letter)?, answer_topic(question));
        let word =
            OperatorReply { run, command: question, waiting: Waiting::Question, topic, actor, payload };
        self.submit(&word, |_| Ok(())).await
    }

    /// Says what became of an invocation in doubt, where the step declares `on_unknown = "ask"` and the run waits for
    /// it. `actor` is recorded. Where this program does not hold the step, a value of another type is refused by the
    /// process that advances the run, on the record ([`Pending::refused`]), and the run goes on waiting.
    ///
    /// # Errors
    /// [`DecideError`] as for [`Engine::approve`]; and [`DecideError::Misfit`] when the value is not one of the step's.
    pub async fn resolve(
        &self,
        run: &RunId,
        invocation: &InvocationId,
        resolution: Resolution,
        actor: &str,
    ) -> Result<(), DecideError> {
        let resolved = Resolved { resolution, actor: actor.into() };
        let (payload, topic) = (Payload::encode(&resolved)?, resolution_topic(invocation));
        let command = &invocation.command();
        let word = OperatorReply { run, command, waiting: Waiting::Resolution, topic, actor, payload };
        self.submit(&word, |open| match (&open.invocation, &resolved.resolution) {
            (Some(asked), _) if asked != invocation => {
                Err(word.about_another(format_args!("invocation `{asked}`")))
            }
            (_, Resolution::Happened(value)) => self.fits(run, command, |body| body.accepts(value)),
            _ => Ok(()),
        })
        .await
    }

    /// Decides about a resource that is not as step `command` left it, where the step declares `confirm = "ask"` and
    /// the run waits for it. `actor` is recorded.
    ///
    /// # Errors
    /// [`DecideError`] as for [`Engine::approve`].
    pub async fn confirm(
        &self,
        run: &RunId,
        command: &CommandId,
        resource: &str,
        id: &str,
        decision: ConfirmationDecision,
        actor: &str,
    ) -> Result<(), DecideError> {
        let payload = Payload::encode(&ConfirmationReply { decision, actor: actor.into() })?;
        let topic = confirm_topic(command, resource, id);
        let word = OperatorReply { run, command, waiting: Waiting::Confirmation, topic, actor, payload };
        self.submit(&word, |open| {
            let asked = open.question.as_ref().and_then(|question| question.decode::<StateConfirmed>().ok());
            match asked {
                Some(asked) if asked.resource != resource || asked.id != id => {
                    Err(word.about_another(format_args!("{} `{}`", asked.resource, asked.id)))
                }
                _ => Ok(()),
            }
        })
        .await
    }

    /// Reports the value of an attempt whose body handed its completion over with
    /// [`StepCx::callback`](crate::step::context::StepCx::callback); `token` is what it gave. The report may come before the
    /// body has returned. A second report is dropped and answered with [`Sent::Duplicate`].
    ///
    /// # Errors
    /// [`DecideError`]: the token is none of this store's, the attempt has another outcome or waited no longer, the run
    /// is over, or the value does not fit the step, which then goes on waiting.
    pub async fn complete_callback<T: Serialize + ?Sized>(
        &self,
        token: &str,
        value: &T,
    ) -> Result<Sent, DecideError> {
        self.report(token, Reply::Value(Payload::encode(value)?)).await
    }

    /// Reports that an attempt failed; `error` is one of the step's error type, a
    /// [`Failure`](crate::vocabulary::failure::Failure) for most. The step treats it as if its body had returned it.
    ///
    /// # Errors
    /// Those of [`Engine::complete_callback`].
    pub async fn fail_callback<E: Serialize + ?Sized>(
        &self,
        token: &str,
        error: &E,
    ) -> Result<Sent, DecideError> {
        self.report(token, Reply::Error(Payload::encode(error)?)).await
    }

    async fn rule(
        &self,
        run: &RunId,
        command: &CommandId,
        ruling: ApprovalOutcome,
        actor: &str,
    ) -> Result<(), DecideError> {
        let letter = ExternalReply { reply: Reply::Value(Payload::encode(&ruling)?), actor: actor.into() };
        let (payload, topic) = (Payload::encode(&letter)?, approval_topic(command));
        let word = OperatorReply { run, command, waiting: Waiting::Approval, topic, actor, payload };
        self.submit(&word, |open| match &ruling {
            ApprovalOutcome::ApprovedWith(_) if open.class == EffectClass::Human => {
                Err(DecideError::NothingToEdit { run: run.clone(), command: command.clone() })
            }
            ApprovalOutcome::ApprovedWith(edited) => self.fits(run, command, |body| body.check(edited)),
            _ => Ok(()),
        })
        .await
    }

    /// Sends a word to a wait that is open.
    async fn submit(
        &self,
        word: &OperatorReply<'_>,
        check: impl Fn(&Pending) -> Result<(), DecideError>,
    ) -> Result<(), DecideError> {
        let (run, command) = (word.run.clone(), word.command.clone());
        self.inner.shared.limits.check_text("actor", word.actor).map_err(SendError::from)?;
        if word.actor.trim().is_empty() {
            return Err(DecideError::NoActor { run, command });
        }
        let (record, counters) = self.counters(&run).await?;
        if record.status.is_terminal() {
            return Err(DecideError::RunEnded { run, status: record.status });
        }
        let Some(counter) = counters.commands.get(&command) else {
            return Err(DecideError::UnknownCommand { run, command });
        };
        let open = word.open(counter)?;
        self.in_time(open)?;
        check(open)?;
        let (id, topic) = (round_id(&word.topic, counter.round), word.topic.clone());
        let message =
            Message { seq: 0, id: id.clone(), topic, payload: word.payload.clone(), at: now(&self.inner) };
        match self.inner.shared.send(&run, message).await? {
            Sent::Delivered => {
                notify_run(&self.inner, &run).await;
                Ok(())
            }
            Sent::Duplicate => Err(self.too_late(word, &id, open.until).await?),
            Sent::RunEnded(status) => Err(DecideError::RunEnded { run, status }),
        }
    }

    /// Who was first.
    async fn too_late(
        &self,
        word: &OperatorReply<'_>,
        message: &str,
        until: Option<jiff::Timestamp>,
    ) -> Result<DecideError, DecideError> {
        let (run, command) = (word.run.clone(), word.command.clone());
        let inbox = self.inner.shared.store.inbox(&run).await?;
        let first = inbox.iter().find(|known| known.id == message);
        let said = first.and_then(|known| known.payload.decode::<Said>().ok());
        let by = match (said, until) {
            (Some(Said { reply: Some(Reply::Expired), .. }), Some(until)) => {
                return Ok(DecideError::Expired { run, command, until });
            }
            (Some(said), _) => said.actor,
            (None, _) => {
                let (_, counters) = self.counters(&run).await?;
                let decided = counters.commands.get(&command).and_then(|counter| word.decided(counter));
                decided.unwrap_or_else(|| "somebody".into())
            }
        };
        Ok(DecideError::AlreadyDecided { run, command, by })
    }

    async fn report(&self, token: &str, reply: Reply) -> Result<Sent, DecideError> {
        let unknown = || DecideError::UnknownToken { start: token.chars().take(24).collect() };
        let named = CallbackToken::parse(token).ok_or_else(unknown)?;
        let (run, command) = (named.run.clone(), named.command.clone());
        let (record, counters) = match self.counters(&run).await {
            Err(StoreError::UnknownRun { .. }) => return Err(unknown()),
            found => found?,
        };
        if named.signed(&counters.seed) != token {
            return Err(unknown());
        }
        let Some(counter) = counters.commands.get(&command) else {
            return Err(DecideError::UnknownCommand { run, command });
        };
        let invocation = named.invocation();
        match &counter.invocation {
            Some((newest, false)) if *newest == invocation && counter.called_back => {
                return Ok(Sent::Duplicate);
            }
            _ if record.status.is_terminal() => {
                return Err(DecideError::RunEnded { run, status: record.status });
            }
            Some((newest, true)) if *newest == invocation => {}
            _ => {
                let found = format!("attempt {} of it has another outcome", named.attempt);
                return Err(DecideError::NotWaiting { run, command, wanted: Waiting::Callback, found });
            }
        }
        counter.open.as_ref().map_or(Ok(()), |open| self.in_time(open))?;
        if let Reply::Error(error) = &reply {
            self.inner
                .shared
                .limits
                .check_error(error.as_str(), error.as_str().len())
                .map_err(SendError::from)?;
        }
        self.fits(&run, &command, |body| match &reply {
            Reply::Value(value) => body.accepts(value),
            Reply::Error(error) => body.failure(error).map(drop),
            Reply::Expired => Ok(()),
        })?;
        let letter = ExternalReply { reply, actor: "callback".into() };
        let mut message = letter.message(&callback_topic(&invocation), counter.round, now(&self.inner))?;
        if counter.open.as_ref().is_some_and(|open| open.waiting == Waiting::Resolution) {
            // The time limit may have taken the first id; an operator is asked now, and a report still helps.
            message.id.push('+');
        }
        let sent = self.inner.shared.send(&run, message).await?;
        notify_run(&self.inner, &run).await;
        match sent {
            Sent::RunEnded(status) => Err(DecideError::RunEnded { run, status }),
            sent => Ok(sent),
        }
    }

    fn in_time(&self, open: &Pending) -> Result<(), DecideError> {
        match open.until {
            Some(until) if until <= now(&self.inner) => {
                let (run, command) = (open.run.clone(), open.command.clone());
                Err(DecideError::Expired { run, command, until })
            }
            _ => Ok(()),
        }
    }

    /// Whether one of the steps of this name in this program takes what was given. A program without such a step cannot
    /// tell; then the process that advances the run judges.
    fn fits(
        &self,
        run: &RunId,
        command: &CommandId,
        check: impl Fn(&dyn Body) -> Result<(), PayloadError>,
    ) -> Result<(), DecideError> {
        let mut misfit = Ok(());
        let named = self.inner.shared.steps.values().filter(|step| step.def.name == command.name());
        for step in named {
            match check(&*step.body()) {
                Ok(()) => return Ok(()),
                Err(error) => {
                    misfit = Err(DecideError::Misfit { run: run.clone(), command: command.clone(), error });
                }
            }
        }
        misfit
    }

    async fn counters(&self, run: &RunId) -> Result<(RunRecord, WaitStates), StoreError> {
        let store = &self.inner.shared.store;
        let Some(record) = store.run(run).await? else {
            return Err(StoreError::UnknownRun { run: run.clone() });
        };
        let counters = WaitStates::load(&**store, run).await?;
        Ok((record, counters))
    }
}

impl OperatorReply<'_> {
    /// The wait that this word is for.
    fn open<'c>(&self, counter: &'c WaitState) -> Result<&'c Pending, DecideError> {
        let (run, command, wanted) = (self.run.clone(), self.command.clone(), self.waiting);
        match (&counter.open, self.decided(counter)) {
            (Some(open), _) if open.waiting == wanted => Ok(open),
            (Some(open), _) => {
                let found = format!("but for {}", open.waiting);
                Err(DecideError::NotWaiting { run, command, wanted, found })
            }
            (None, Some(by)) => Err(DecideError::AlreadyDecided { run, command, by }),
            (None, None) => {
                let found = "nor for anything else".into();
                Err(DecideError::NotWaiting { run, command, wanted, found })
            }
        }
    }

    /// Who decided, where somebody did.
    fn decided(&self, counter: &WaitState) -> Option<String> {
        match self.waiting {
            Waiting::Resolution | Waiting::Confirmation => counter.settled.get(&self.waiting).cloned(),
            Waiting::Approval | Waiting::Question | Waiting::Callback => counter.decided.clone(),
        }
    }

    /// The command waits for the same kind of word, about something else.
    fn about_another(&self, what: std::fmt::Arguments<'_>) -> DecideError {
        let found = format!("but for one about {what}");
        let (run, command) = (self.run.clone(), self.command.clone());
        DecideError::NotWaiting { run, command, wanted: self.waiting, found }
    }
}
