//! Replies to a run that waits: approvals, answers, callbacks, operators' decisions.
//!
//! Promise: a reply to something that does not wait is a typed error and changes nothing; of two replies to one wait
//! exactly one is accepted, across processes; an accepted reply survives a crash at any instant.

use serde::{Deserialize, Serialize};

use crate::engine::addressed::{Addressed, find};
use crate::engine::decide_error::DecideError;
use crate::engine::inner::{Engine, notify_run, now};
use crate::inbox::decisions::{ApprovalOutcome, ConfirmationReply, Resolution, Resolved};
use crate::inbox::error::SendError;
use crate::inbox::replies::{CALLBACK, ExternalReply, Reply, round_id};
use crate::inbox::topics::{answer_topic, approval_topic, callback_topic, confirm_topic, resolution_topic};
use crate::journal::event::{ConfirmationDecision, StateConfirmed};
use crate::perform::call::ask_in_net;
use crate::step::body::Body;
use crate::store::error::StoreError;
use crate::store::records::{Message, RunRecord, Sent};
use crate::view::pending::{Pending, WaitState, WaitStates};
use crate::view::wait_ref::WaitRef;
use crate::vocabulary::callback_token::CallbackToken;
use crate::vocabulary::id::{CommandId, InvocationId, RunId};
use crate::vocabulary::outcome::EffectClass;
use crate::vocabulary::payload::{Payload, PayloadError};
use crate::vocabulary::waiting::Waiting;

/// A reply to one wait.
struct OperatorReply<'a> {
    run: &'a RunId,
    command: &'a CommandId,
    waiting: Waiting,
    topic: String,
    payload: Payload,
    /// The invocation that an operator is asked about.
    invocation: Option<InvocationId>,
}
/// What every reply in an inbox has: who sent it, and whether it is the time limit's.
#[derive(Deserialize)]
struct ReplyHeader {
    actor: String,
    #[serde(default)]
    reply: Option<Reply>,
}
/// What a callback reports.
struct Report<'a> {
    token: &'a str,
    of: CallbackToken,
    reply: ExternalReply,
}
impl ReplyHeader {
    /// Whether a callback has reported it.
    fn is_report(&self) -> bool {
        matches!(self.reply, Some(Reply::Value(_) | Reply::Error(_)))
    }

    /// The error for who came after it, in a round that had this time limit.
    fn too_late(self, run: RunId, command: CommandId, until: Option<jiff::Timestamp>) -> DecideError {
        match (self.reply, until) {
            (Some(Reply::Expired), Some(until)) => DecideError::Expired { run, command, until },
            _ => DecideError::AlreadyDecided { run, command, by: self.actor },
        }
    }
}
impl Engine {
    /// Approves what `wait` of `run` asks a person for. `actor` is recorded. `wait` is a command, the name of the wait, or
    /// the wait itself as it was listed; a listed wait is tied to what it showed, see [`WaitRef`].
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::id::RunId;
    /// # use aether_core::view::pending::Waiting;
    /// # async fn example(engine: &Engine, run: &RunId) -> Result<(), Box<dyn std::error::Error>> {
    /// for wait in engine.pending(run).await? {
    ///     if wait.waiting == Waiting::Approval {
    ///         engine.approve(run, &wait, "ann@example.com").await?;
    ///     }
    /// }
    /// engine.approve(run, "refund", "ann@example.com").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`DecideError`] when `actor` is blank, there is no such run or command, it does not wait for an approval (or not
    /// yet), no wait or more than one has the name, the wait is not the one that was shown, another reply was first, or
    /// the wait or the run has ended.
    pub async fn approve(
        &self,
        run: &RunId,
        wait: impl Into<WaitRef>,
        actor: &str,
    ) -> Result<(), DecideError> {
        self.submit_ruling(run, &wait.into(), ApprovalOutcome::Approved, actor).await
    }

    /// Approves a step's call with other arguments: an object with one field per argument. The original arguments stay
    /// in the journal beside them, and the body gets the edited ones.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::id::RunId;
    /// # use aether_core::id::CommandId;
    /// # async fn example(engine: &Engine, run: &RunId, command: &CommandId) -> Result<(), Box<dyn std::error::Error>> {
    /// #[derive(serde::Serialize)]
    /// struct Refund {
    ///     order: u32,
    ///     cents: u32,
    /// }
    ///
    /// let edited = Refund { order: 17, cents: 10_00 };
    /// engine.approve_with(run, command, &edited, "ann@example.com").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Engine::approve`]; and [`DecideError::Misfit`] when the arguments do not fit the step, which keeps waiting.
    /// Where this program does not have the step, the process that advances the run checks them, and records a refusal
    /// ([`Pending::refused`]).
    pub async fn approve_with(
        &self,
        run: &RunId,
        wait: impl Into<WaitRef>,
        edited: &(impl Serialize + ?Sized),
        actor: &str,
    ) -> Result<(), DecideError> {
        self.submit_ruling(run, &wait.into(), ApprovalOutcome::ApprovedWith(Payload::encode(edited)?), actor)
            .await
    }

    /// Rejects what `wait` of `run` asks a person for. A step's call is then not made: its step error is
    /// [`StepError::Rejected`](crate::vocabulary::failure::StepError::Rejected). `reason` and `actor` are recorded.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::id::RunId;
    /// # async fn example(engine: &Engine, run: &RunId) -> Result<(), Box<dyn std::error::Error>> {
    /// engine.reject(run, "refund", "the amount is wrong", "ann@example.com").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Engine::approve`].
    pub async fn reject(
        &self,
        run: &RunId,
        wait: impl Into<WaitRef>,
        reason: &str,
        actor: &str,
    ) -> Result<(), DecideError> {
        self.inner.shared.limits.check_text("reason", reason).map_err(SendError::from)?;
        self.submit_ruling(run, &wait.into(), ApprovalOutcome::Rejected(reason.into()), actor).await
    }

    /// Answers a question that `cx.ask` asks a person. `actor` is recorded. An answer of another type than the workflow
    /// asked for is refused; the refusal is recorded ([`Pending::refused`]), and the question stays open.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::id::RunId;
    /// # async fn example(engine: &Engine, run: &RunId) -> Result<(), Box<dyn std::error::Error>> {
    /// engine.answer(run, "How many are you?", &4, "ann@example.com").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Engine::approve`].
    pub async fn answer<T: Serialize + ?Sized>(
        &self,
        run: &RunId,
        question: impl Into<WaitRef>,
        value: &T,
        actor: &str,
    ) -> Result<(), DecideError> {
        let message = ExternalReply { reply: Reply::Value(Payload::encode(value)?), actor: actor.into() };
        let payload = Payload::encode(&message)?;
        let found = self.addressed(run, &question.into(), Waiting::Question, actor).await?;
        let (topic, waiting, command) = (answer_topic(&found.command), Waiting::Question, &found.command);
        let reply = OperatorReply { run, command, waiting, topic, payload, invocation: None };
        self.submit(&reply, &found, |_| Ok(())).await
    }

    /// Reports what happened to an invocation in doubt, where the step declares `on_unknown = "ask"` and the run waits for
    /// it. `actor` is recorded. Where this program does not have the step, the process that advances the run checks the
    /// value; it records a refusal ([`Pending::refused`]), and the run keeps waiting.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::id::RunId;
    /// # use aether_core::inbox::Resolution;
    /// # use aether_core::view::pending::Waiting;
    /// # async fn example(engine: &Engine, run: &RunId) -> Result<(), Box<dyn std::error::Error>> {
    /// for wait in engine.pending(run).await? {
    ///     if let Some(invocation) = wait.invocation.filter(|_| wait.waiting == Waiting::Resolution) {
    ///         engine.resolve(run, &invocation, Resolution::DidNotHappen, "ops@example.com").await?;
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Engine::approve`]; [`DecideError::Misfit`] when the value is not of the step's output type; and
    /// [`DecideError::MayStillHappen`] when it is said not to have happened while the worker that began it is paused and
    /// may still do it.
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
        let found = self.addressed(run, &command.into(), Waiting::Resolution, actor).await?;
        if resolved.resolution == Resolution::DidNotHappen {
            self.check_is_over(run, command).await?;
        }
        let reply = OperatorReply {
            run,
            command,
            waiting: Waiting::Resolution,
            topic,
            payload,
            invocation: Some(invocation.clone()),
        };
        self.submit(&reply, &found, |open| match (&open.invocation, &resolved.resolution) {
            (Some(asked), _) if asked != invocation => {
                Err(reply.about_another(format_args!("invocation `{asked}`")))
            }
            (_, Resolution::Happened(value)) => self.check_fits(run, command, |body| body.accepts(value)),
            _ => Ok(()),
        })
        .await
    }

    /// Decides about a resource that has changed since step `wait` changed it, where the step declares
    /// `confirm = "ask"` and the run waits for the decision. `actor` is recorded.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::id::RunId;
    /// # use aether_core::id::CommandId;
    /// # use aether_core::journal::event::ConfirmationDecision;
    /// # async fn example(engine: &Engine, run: &RunId, command: &CommandId) -> Result<(), Box<dyn std::error::Error>> {
    /// let accept = ConfirmationDecision::Accept;
    /// engine.confirm(run, command, "file", "report.md", accept, "ops@example.com").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Engine::approve`].
    pub async fn confirm(
        &self,
        run: &RunId,
        wait: impl Into<WaitRef>,
        resource: &str,
        id: &str,
        decision: ConfirmationDecision,
        actor: &str,
    ) -> Result<(), DecideError> {
        let payload = Payload::encode(&ConfirmationReply { decision, actor: actor.into() })?;
        let found = self.addressed(run, &wait.into(), Waiting::Confirmation, actor).await?;
        let (topic, command) = (confirm_topic(&found.command, resource, id), &found.command);
        let waiting = Waiting::Confirmation;
        let reply = OperatorReply { run, command, waiting, topic, payload, invocation: None };
        self.submit(&reply, &found, |open| {
            let asked = open.question.as_ref().and_then(|question| question.decode::<StateConfirmed>().ok());
            match asked {
                Some(asked) if asked.resource != resource || asked.id != id => {
                    Err(reply.about_another(format_args!("{} `{}`", asked.resource, asked.id)))
                }
                _ => Ok(()),
            }
        })
        .await
    }

    /// Completes an attempt whose body left its completion to a callback with
    /// [`StepCx::callback`](crate::step::context::StepCx::callback); `token` is the callback's token. The call may come
    /// before the body has returned. A second one is dropped and answered with [`Sent::Duplicate`], but not a first one that
    /// came after the time limit, or after it was decided in its place what became of the attempt: that is an error.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::id::RunId;
    /// # async fn example(engine: &Engine, token: &str) -> Result<(), Box<dyn std::error::Error>> {
    /// engine.complete_callback(token, "the parcel is delivered").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`DecideError`] when the token does not belong to a run in this store, the attempt has another outcome or no longer
    /// waits, the run has ended, or the value does not fit the step, which then keeps waiting.
    pub async fn complete_callback<T: Serialize + ?Sized>(
        &self,
        token: &str,
        value: &T,
    ) -> Result<Sent, DecideError> {
        self.report_outcome(token, Reply::Value(Payload::encode(value)?)).await
    }

    /// Fails an attempt whose body left its completion to a callback. `error` is of the step's error type, for most a
    /// [`Failure`](crate::vocabulary::failure::Failure). The step treats it as if its body had returned it.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::id::RunId;
    /// # use aether_core::failure::Failure;
    /// # async fn example(engine: &Engine, token: &str) -> Result<(), Box<dyn std::error::Error>> {
    /// engine.fail_callback(token, &Failure::retryable("the courier is ill")).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Engine::complete_callback`].
    pub async fn fail_callback<E: Serialize + ?Sized>(
        &self,
        token: &str,
        error: &E,
    ) -> Result<Sent, DecideError> {
        self.report_outcome(token, Reply::Error(Payload::encode(error)?)).await
    }

    async fn submit_ruling(
        &self,
        run: &RunId,
        wait: &WaitRef,
        ruling: ApprovalOutcome,
        actor: &str,
    ) -> Result<(), DecideError> {
        let message = ExternalReply { reply: Reply::Value(Payload::encode(&ruling)?), actor: actor.into() };
        let payload = Payload::encode(&message)?;
        let found = self.addressed(run, wait, Waiting::Approval, actor).await?;
        let (topic, command) = (approval_topic(&found.command), &found.command);
        let waiting = Waiting::Approval;
        let reply = OperatorReply { run, command, waiting, topic, payload, invocation: None };
        self.submit(&reply, &found, |open| match &ruling {
            ApprovalOutcome::ApprovedWith(_) if open.class == EffectClass::Human => {
                Err(DecideError::NothingToEdit { run: run.clone(), command: command.clone() })
            }
            ApprovalOutcome::ApprovedWith(edited) => self.check_fits(run, command, |body| body.check(edited)),
            _ => Ok(()),
        })
        .await
    }

    /// Finds the command that a reply is for.
    async fn addressed(
        &self,
        run: &RunId,
        wait: &WaitRef,
        wanted: Waiting,
        actor: &str,
    ) -> Result<Addressed, DecideError> {
        self.inner.shared.limits.check_text("actor", actor).map_err(SendError::from)?;
        if actor.trim().is_empty() {
            return Err(DecideError::NoActor { run: run.clone(), wait: wait.to_string() });
        }
        let (record, states) = self.wait_states(run).await?;
        if record.status.is_terminal() {
            return Err(DecideError::RunEnded { run: run.clone(), status: record.status });
        }
        let command = find(run, &states, wait, wanted)?;
        Ok(Addressed { states, command, shown: wait.shown.clone() })
    }

    /// Sends a reply to a wait that is open.
    async fn submit(
        &self,
        reply: &OperatorReply<'_>,
        found: &Addressed,
        check: impl Fn(&Pending) -> Result<(), DecideError>,
    ) -> Result<(), DecideError> {
        let (run, command) = (reply.run.clone(), reply.command.clone());
        let Some(state) = found.states.commands.get(&command) else {
            return Err(DecideError::UnknownCommand { run, command });
        };
        let open = &reply.open(found.states.open(&command), state)?;
        if found.shown.as_ref().is_some_and(|shown| *shown != open.shown()) {
            return Err(DecideError::Changed { run, command });
        }
        self.check_deadline(open)?;
        check(open)?;
        // What was read above may have changed since. The id decides: all replies to one round of a wait share it, the
        // time limit's too, and a store keeps one message of an id. So exactly one of them is accepted, across processes.
        let (id, topic) = (reply.id(state), reply.topic.clone());
        let message =
            Message { seq: 0, id: id.clone(), topic, payload: reply.payload.clone(), at: now(&self.inner) };
        match self.inner.shared.send(&run, message).await? {
            Sent::Delivered => {
                notify_run(&self.inner, &run).await;
                Ok(())
            }
            Sent::Duplicate => Err(self.already_decided(reply, &id, open.until).await?),
            Sent::RunEnded(status) => Err(DecideError::RunEnded { run, status }),
        }
    }

    /// The error for a reply that came second: who decided, or that the wait had expired.
    async fn already_decided(
        &self,
        reply: &OperatorReply<'_>,
        message: &str,
        until: Option<jiff::Timestamp>,
    ) -> Result<DecideError, DecideError> {
        let (run, command) = (reply.run.clone(), reply.command.clone());
        if let Some(first) = self.first_reply(&run, message).await? {
            return Ok(first.too_late(run, command, until));
        }
        let (_, states) = self.wait_states(&run).await?;
        let decided = states.commands.get(&command).and_then(|state| reply.decided(state));
        let by = decided.unwrap_or_else(|| "an unknown actor".into());
        Ok(DecideError::AlreadyDecided { run, command, by })
    }

    /// The reply that has the id `message`; `None` where the run has taken it.
    async fn first_reply(&self, run: &RunId, message: &str) -> Result<Option<ReplyHeader>, StoreError> {
        let inbox = self.inner.shared.store.inbox(run, 0).await?;
        let first = inbox.iter().find(|known| known.id == message);
        Ok(first.and_then(|known| known.payload.decode().ok()))
    }

    async fn report_outcome(&self, token: &str, reply: Reply) -> Result<Sent, DecideError> {
        let unknown = || DecideError::UnknownToken { start: token.chars().take(24).collect() };
        let parsed = CallbackToken::parse(token).ok_or_else(unknown)?;
        let report = Report { token, of: parsed, reply: ExternalReply { reply, actor: CALLBACK.into() } };
        let mut last = None;
        loop {
            let Some((message, until)) = self.addressed_report(&report).await? else {
                return Ok(Sent::Duplicate);
            };
            let (run, command, id) = (&report.of.run, &report.of.command, message.id.clone());
            let sent = self.inner.shared.send(run, message).await?;
            notify_run(&self.inner, run).await;
            match sent {
                Sent::RunEnded(status) => {
                    return Err(DecideError::RunEnded { run: run.clone(), status });
                }
                Sent::Delivered => return Ok(sent),
                Sent::Duplicate => {}
            }
            match self.first_reply(run, &id).await? {
                Some(first) if first.is_report() => return Ok(sent),
                Some(first) => return Err(first.too_late(run.clone(), command.clone(), until)),
                // The run has taken it meanwhile. What the journal says now may be another round, or the end of them.
                None if last.as_ref() != Some(&id) => last = Some(id),
                None => {
                    let (run, command, by) = (run.clone(), command.clone(), "an unknown actor".into());
                    return Err(DecideError::AlreadyDecided { run, command, by });
                }
            }
        }
    }

    /// The message of a report, for the round that is open, and the time limit of that; `None` where the attempt was
    /// reported about already.
    async fn addressed_report(
        &self,
        report: &Report<'_>,
    ) -> Result<Option<(Message, Option<jiff::Timestamp>)>, DecideError> {
        let Report { token, of: parsed, reply } = report;
        let unknown = || DecideError::UnknownToken { start: token.chars().take(24).collect() };
        let (run, command) = (parsed.run.clone(), parsed.command.clone());
        let (record, states) = match self.wait_states(&run).await {
            Err(StoreError::UnknownRun { .. }) => return Err(unknown()),
            found => found?,
        };
        if parsed.signed(&states.seed) != *token {
            return Err(unknown());
        }
        let Some(state) = states.commands.get(&command) else {
            return Err(DecideError::UnknownCommand { run, command });
        };
        let invocation = parsed.invocation();
        match &state.invocation {
            Some((newest, false)) if *newest == invocation && state.called_back => {
                return Ok(None);
            }
            _ if record.status.is_terminal() => {
                return Err(DecideError::RunEnded { run, status: record.status });
            }
            Some((newest, true)) if *newest == invocation => {}
            _ => {
                let found = format!("attempt {} of it has another outcome", parsed.attempt);
                return Err(DecideError::NotWaiting { run, command, wanted: Waiting::Callback, found });
            }
        }
        let open = states.open(&command);
        open.as_ref().map_or(Ok(()), |open| self.check_deadline(open))?;
        if let Reply::Error(error) = &reply.reply {
            self.inner
                .shared
                .limits
                .check_error(error.as_str(), error.as_str().len())
                .map_err(SendError::from)?;
        }
        self.check_fits(&run, &command, |body| match &reply.reply {
            Reply::Value(value) => body.accepts(value),
            Reply::Error(error) => body.failure(error).map(drop),
            Reply::Expired => Ok(()),
        })?;
        let is_awaited = open.as_ref().is_some_and(|open| open.waiting == Waiting::Callback);
        let round = if is_awaited { state.round } else { state.round_of_unawaited_reports() };
        let message = reply.message(&callback_topic(&invocation), round, now(&self.inner))?;
        Ok(Some((message, open.and_then(|open| open.until))))
    }

    /// Checks that nobody who lost the run is still in the call: what is denied now could happen afterwards, beside another
    /// attempt.
    async fn check_is_over(&self, run: &RunId, command: &CommandId) -> Result<(), DecideError> {
        let unaware = self.inner.shared.store.unaware_owners(run).await?;
        match unaware.into_iter().next() {
            Some(worker) => {
                Err(DecideError::MayStillHappen { run: run.clone(), command: command.clone(), worker })
            }
            None => Ok(()),
        }
    }

    fn check_deadline(&self, open: &Pending) -> Result<(), DecideError> {
        match open.until {
            Some(until) if until <= now(&self.inner) => {
                let (run, command) = (open.run.clone(), open.command.clone());
                Err(DecideError::Expired { run, command, until })
            }
            _ => Ok(()),
        }
    }

    /// Checks that a step of this name in this program accepts the value. A program without such a step cannot check; the
    /// process that advances the run will.
    fn check_fits(
        &self,
        run: &RunId,
        command: &CommandId,
        check: impl Fn(&dyn Body) -> Result<(), PayloadError>,
    ) -> Result<(), DecideError> {
        let mut misfit = Ok(());
        let same_name = self.inner.shared.steps.values().filter(|step| step.def.name == command.name());
        for step in same_name {
            match ask_in_net(step.def.path, || check(&*step.body())) {
                Ok(()) => return Ok(()),
                Err(error) => {
                    misfit = Err(DecideError::Misfit { run: run.clone(), command: command.clone(), error });
                }
            }
        }
        misfit
    }

    async fn wait_states(&self, run: &RunId) -> Result<(RunRecord, WaitStates), StoreError> {
        let store = &self.inner.shared.store;
        let Some(record) = store.run(run).await? else {
            return Err(StoreError::UnknownRun { run: run.clone() });
        };
        let states = WaitStates::load(&**store, run).await?;
        Ok((record, states))
    }
}
impl OperatorReply<'_> {
    /// The id of all words to this round of the wait. Those of an operator about an invocation have that of its reports, also
    /// of one that came before the operator was asked.
    fn id(&self, state: &WaitState) -> String {
        match &self.invocation {
            Some(invocation) => round_id(&callback_topic(invocation), state.round_of_unawaited_reports()),
            None => round_id(&self.topic, state.round),
        }
    }

    /// The wait that this reply is for.
    fn open(&self, open: Option<Pending>, state: &WaitState) -> Result<Pending, DecideError> {
        let (run, command, wanted) = (self.run.clone(), self.command.clone(), self.waiting);
        match (open, self.decided(state)) {
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

    /// Who decided, where it was decided.
    fn decided(&self, state: &WaitState) -> Option<String> {
        match self.waiting {
            Waiting::Resolution | Waiting::Confirmation => state.settled.get(&self.waiting).cloned(),
            _ => state.decided.clone(),
        }
    }

    /// The command waits for the same kind of reply, about something else.
    fn about_another(&self, what: std::fmt::Arguments<'_>) -> DecideError {
        let found = format!("but for one about {what}");
        let (run, command) = (self.run.clone(), self.command.clone());
        DecideError::NotWaiting { run, command, wanted: self.waiting, found }
    }
}
