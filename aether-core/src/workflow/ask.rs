//! People in workflows: `cx.ask` for an answer, `cx.approval` for a decision. Both may expire.
//!
//! Promise: a question is durable before it is shown; a rejection or an expiry is a typed value and never a
//! success; an answer of another type is refused and the question stays open.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::inbox::decisions::{ApprovalOutcome, Decision, Expiry};
use crate::inbox::replies::{ExternalReply, Reply};
use crate::inbox::topics::{APPROVAL, answer_topic, approval_topic};
use crate::journal::event::{ApprovalDecided, ApprovalRequested, WaitCompleted};
use crate::journal::history::record::{CommandDetails, Expired, RecordedResult};
use crate::run::append::AppendExtras;
use crate::run::claim::Run;
use crate::run::fault::CommandSummary;
use crate::run::matcher::Matched;
use crate::run::reply_receiver::{Received, ReplyReceiver};
use crate::run::taken::Taken;
use crate::step::recordable::Recordable;
use crate::vocabulary::environment::later;
use crate::vocabulary::failure::{Failure, StepError};
use crate::vocabulary::id::CommandId;
use crate::vocabulary::outcome::EffectClass;
use crate::vocabulary::payload::{Digest, Payload, PayloadError};
use crate::vocabulary::waiting::{Waiting, millis};
use crate::workflow::context::Cx;
use crate::workflow::reading::{Sites, read_recorded};
use crate::workflow::ticket::Ticket;
use crate::workflow::wait::{AcceptedIf, Wait, awaitable};

/// The effect of [`Cx::ask`]: await it, with a time limit or without.
#[must_use = "a question is asked when this is awaited"]
#[derive(Debug)]
pub struct Question<'c, T>(Wait<'c, Result<T, StepError<Failure>>>);

awaitable!(Question<T>: Result<T, StepError<Failure>>);

impl<T: Recordable> Question<'_, T> {
    /// Takes an answer only if `check` finds nothing wrong with it. Any other is refused: what `check` says is recorded and
    /// shown ([`Pending::refused`](crate::view::pending::Pending::refused)), and the question stays open.
    ///
    /// ```
    /// # use aether_core::workflow::Cx;
    /// # async fn workflow(cx: &mut Cx) -> aether_core::failure::Result<()> {
    /// let some = |seats: &u32| if *seats > 0 { Ok(()) } else { Err("somebody must sit".to_owned()) };
    /// let seats: u32 = cx.ask("How many are you?").accepted_if(some).await?;
    /// # Ok(()) }
    /// ```
    pub fn accepted_if(mut self, check: impl Fn(&T) -> Result<(), String> + Send + Sync + 'static) -> Self {
        self.0.terms.accepted_if = Some(AcceptedIf(Box::new(move |answer: &Payload| {
            check(&answer.decode()?).map_err(|reason| PayloadError::Refused { reason })
        })));
        self
    }
}

impl<T> Question<'_, T> {
    /// Names the question: it is then answered by this name, whatever its text says. Without it a text is its own name,
    /// and any other question has the name `ask`. An answer under one name answers nothing else: a build that asks under
    /// another name at this place, or under none, does not fit.
    ///
    /// ```
    /// # use aether_core::workflow::Cx;
    /// # async fn workflow(cx: &mut Cx) -> aether_core::failure::Result<()> {
    /// let seats: u32 = cx.ask("How many are you?").named("seats").await?;
    /// # Ok(()) }
    /// ```
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.0.terms.name = Some(name.into());
        self
    }

    /// Closes the question after `limit`, durably; the step error is then [`StepError::TimedOut`]. Without it the question
    /// stays open until it is answered.
    ///
    /// ```
    /// # use aether_core::workflow::Cx;
    /// # use std::time::Duration;
    /// # async fn workflow(cx: &mut Cx) {
    /// let day = Duration::from_secs(24 * 60 * 60);
    /// let seats: u32 = cx.ask("How many are you?").expires(day).await.unwrap_or(2);
    /// # }
    /// ```
    pub fn expires(mut self, limit: Duration) -> Self {
        self.0.terms.limit = Some(limit);
        self
    }
}

/// The effect of [`Cx::approval`]: await it, with details and a time limit or without.
#[must_use = "an approval is asked for when this is awaited"]
#[derive(Debug)]
pub struct ApprovalRequest<'c>(Wait<'c, Result<Decision, StepError<Failure>>>);

awaitable!(ApprovalRequest: Result<Decision, StepError<Failure>>);

impl ApprovalRequest<'_> {
    /// Adds what the person needs to know to decide. It is recorded and shown.
    ///
    /// ```
    /// # use aether_core::workflow::Cx;
    /// # async fn workflow(cx: &mut Cx) -> aether_core::failure::Result<()> {
    /// let decision = cx.approval("refund over limit").details(&("order 17", 12_50)).await?;
    /// # Ok(()) }
    /// ```
    pub fn details(mut self, details: &(impl Serialize + ?Sized)) -> Self {
        self.0.terms.details = Some(Payload::encode(details));
        self
    }

    /// Names the matter: the request is then decided under this name, and its text may be worded otherwise in the next build.
    /// What is recorded under one name is consent to nothing else: a build that asks under another name at this place, or
    /// under none, does not fit. Without it the text is the name, and only the details are compared.
    ///
    /// ```
    /// # use aether_core::workflow::Cx;
    /// # async fn workflow(cx: &mut Cx) -> aether_core::failure::Result<()> {
    /// let decision = cx.approval("Refund 12.50 to Ann?").named("refund").await?;
    /// # Ok(()) }
    /// ```
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.0.terms.name = Some(name.into());
        self
    }

    /// Closes the request after `limit`, durably; the decision is then [`Decision::Expired`]. Without it the request stays
    /// open until a person decides.
    ///
    /// ```
    /// # use aether_core::workflow::Cx;
    /// # use aether_core::inbox::Decision;
    /// # use std::time::Duration;
    /// # async fn workflow(cx: &mut Cx) -> aether_core::failure::Result<()> {
    /// let week = Duration::from_secs(7 * 24 * 60 * 60);
    /// if let Decision::Expired(_) = cx.approval("refund over limit").expires(week).await? {
    ///     println!("no decision for a week");
    /// }
    /// # Ok(()) }
    /// ```
    pub fn expires(mut self, limit: Duration) -> Self {
        self.0.terms.limit = Some(limit);
        self
    }
}

/// What is shown to the person who decides about an approval.
#[derive(Serialize)]
struct Shown {
    what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Payload>,
}

impl Cx {
    /// Asks a person, and waits durably for the answer, which arrives through `Engine::answer`. `question` is recorded and
    /// shown. An answer that is not a `T` is refused, and the question stays open.
    ///
    /// The step error is `TimedOut` when the question expired.
    ///
    /// ```
    /// # use aether_core::workflow::Cx;
    /// # async fn workflow(cx: &mut Cx) -> aether_core::failure::Result<()> {
    /// let seats: u32 = cx.ask("How many are you?").await?;
    /// # Ok(()) }
    /// ```
    pub fn ask<T: Recordable>(&mut self, question: impl Serialize) -> Question<'_, T> {
        let ticket = self.ticket("ask");
        let topic = answer_topic(&ticket.command);
        let request = Payload::encode(&question);
        Question(Wait::new(move |terms| {
            Box::pin(async move {
                let (run, command) = (Arc::clone(&ticket.run), ticket.command.clone());
                let name = terms.name.clone().or_else(|| request.as_ref().ok()?.decode().ok());
                let asked = Asking { ticket, request, topic, limit: terms.limit, name: terms.name };
                let answer = asked.answer(|reply| match &reply.reply {
                    Reply::Value(value) => {
                        value.decode::<T>()?;
                        if let Some(check) = &terms.accepted_if {
                            (check.0)(value)?;
                        }
                        Ok(value.clone())
                    }
                    Reply::Error(_) | Reply::Expired => Ok(Payload::null()),
                });
                let (answer, sites) = answer.await?;
                match answer {
                    // It was read before it was recorded.
                    Ok(value) => {
                        Ok(read_recorded(&run, &command, "answer", || sites, || value.decode()).await)
                    }
                    Err(expired) => {
                        let why = run.failure(&command, "no answer came in time");
                        let name = name.unwrap_or_else(|| command.name().to_owned());
                        Err(expired.error(why, Waiting::Question, &name))
                    }
                }
            })
        }))
    }

    /// Asks a person to decide about something that is not one step's call, and waits durably for `Engine::approve` or
    /// `Engine::reject`. `what` names the matter.
    ///
    /// The step error is `Unrecordable` when the details do not serialize. For a step's own call, declare
    /// `approval = "required"` on the step.
    ///
    /// ```
    /// # use aether_core::workflow::Cx;
    /// # async fn workflow(cx: &mut Cx, amount: u32) -> aether_core::failure::Result<()> {
    /// let week = std::time::Duration::from_secs(7 * 24 * 3600);
    /// let decision = cx.approval("refund over limit").details(&amount).expires(week).await?;
    /// let manager = decision.granted()?;
    /// # Ok(()) }
    /// ```
    pub fn approval(&mut self, what: impl Into<String>) -> ApprovalRequest<'_> {
        let ticket = self.ticket(APPROVAL);
        let topic = approval_topic(&ticket.command);
        let what = what.into();
        ApprovalRequest(Wait::new(move |terms| {
            Box::pin(async move {
                let (run, command) = (Arc::clone(&ticket.run), ticket.command.clone());
                let name = terms.name.clone().unwrap_or_else(|| what.clone());
                let request =
                    terms.details.transpose().and_then(|details| Payload::encode(&Shown { what, details }));
                let asked = Asking { ticket, request, topic, limit: terms.limit, name: terms.name };
                let answer = asked.answer(|reply| {
                    Payload::encode(&Decision::of(ApprovalOutcome::of(reply)?, &reply.actor))
                });
                match answer.await?.0 {
                    Ok(value) => {
                        value.decode().map_err(|e| StepError::Unrecordable(run.failure(&command, e)))
                    }
                    Err(Expired { limit_ms }) => Ok(Decision::Expired(Expiry::of(name, limit_ms))),
                }
            })
        }))
    }
}

/// A question while it is being asked.
struct Asking<'c> {
    ticket: Ticket<'c>,
    request: Result<Payload, PayloadError>,
    topic: String,
    limit: Option<Duration>,
    name: Option<String>,
}

impl Asking<'_> {
    /// The recorded value that `accept` makes of the answer; `Err` where the question expired. Also returns where the
    /// question stood in the source that recorded it, and where it is now.
    async fn answer(
        mut self,
        accept: impl Fn(&ExternalReply) -> Result<Payload, PayloadError>,
    ) -> Result<(Result<Payload, Expired>, Sites), StepError<Failure>> {
        let site = self.ticket.enter().await;
        let (run, command) = (Arc::clone(&self.ticket.run), self.ticket.command.clone());
        let unrecordable = |reason: String| StepError::Unrecordable(run.failure(&command, reason));
        // Before the command is asked for: a refusal is not recorded, so every replay comes to it at the same place.
        let request = recordable(&run, &command, self.request);
        if let Err(reason) = &request
            && !run.is_recorded(&command)
        {
            return Err(unrecordable(reason.clone()));
        }
        if let Ok(request) = &request {
            same_matter(&run, &command, (request, self.name.as_deref()), &site).await;
        }
        let class = EffectClass::Human;
        let (until, limit, round) = match run.request(&command, class, None, site.clone()).await {
            Matched::Answered => {
                let mut record = run.next_delivery(&command).await;
                return match record.answer.take() {
                    Some(RecordedResult::Wait(value)) => Ok((value, (record.site(), site))),
                    answer => run.mismatched(&command, class, answer).await,
                };
            }
            Matched::Begun(mut record) => {
                run.wait_for_frontier(&command).await;
                let CommandDetails { asked, round, .. } = record.take_details();
                let (until, limit) = match &asked {
                    // The limit that runs is that of the request, whatever the code says now.
                    Some(asked) => (asked.until, asked.limit().or(self.limit)),
                    None => (None, self.limit),
                };
                if let Some((decision, actor)) = asked.and_then(|asked| asked.decided) {
                    let reply = ExternalReply { reply: Reply::Value(decision), actor };
                    if let Ok(value) = accept(&reply) {
                        let answer = complete(&run, &command, None, Ok(value), Vec::new()).await;
                        return Ok((answer, (None, site)));
                    }
                }
                (until, limit, round)
            }
            Matched::New => {
                run.wait_for_frontier(&command).await;
                run.apply_backpressure().await;
                let request = request.map_err(unrecordable)?;
                let until = self.limit.map(|limit| later(run.now(), limit));
                let name = self.name;
                let asked = ApprovalRequested {
                    command: command.clone(),
                    request,
                    until,
                    name,
                    site: site.clone(),
                    limit_ms: self.limit.map(millis),
                };
                run.append_large_durably(vec![asked.into()]).await;
                (until, self.limit, 0)
            }
        };
        // A reply that does not fit is refused on the record, and the same wait receives the next one.
        let topic = self.topic;
        let mut receiver =
            ReplyReceiver { run: Arc::clone(&run), command: command.clone(), topic, until, round };
        loop {
            let Received { reply, consumed } = receiver.next_reply().await;
            match (accept(&reply), &reply.reply) {
                (_, Reply::Expired) => {
                    let expired = Err(Expired::under(limit));
                    return Ok((complete(&run, &command, None, expired, consumed).await, (None, site)));
                }
                (Ok(value), Reply::Value(decision)) => {
                    let command_id = command.clone();
                    let decided = ApprovalDecided {
                        command: command_id,
                        decision: decision.clone(),
                        actor: reply.actor,
                    };
                    let answer = complete(&run, &command, Some(decided), Ok(value), consumed).await;
                    return Ok((answer, (None, site)));
                }
                (Ok(_), Reply::Error(_)) => receiver.refuse(&reply.actor, "an answer is a value", consumed),
                (Err(error), _) => receiver.refuse(&reply.actor, error, consumed),
            }
        }
    }
}

/// A question as it is recorded, or why it cannot be.
fn recordable(
    run: &Run,
    command: &CommandId,
    request: Result<Payload, PayloadError>,
) -> Result<Payload, String> {
    let request = run.shared.redaction.value(request.map_err(|error| error.to_string())?);
    match run.too_large_for(command, &request) {
        None => Ok(request),
        Some(reason) => Err(reason),
    }
}

/// What a person agrees to is part of what is asked for: consent to one thing is none to another. Compared before the
/// command is asked for: a replay that executes nothing stops there.
async fn same_matter(
    run: &Run,
    command: &CommandId,
    (request, name): (&Payload, Option<&str>),
    site: &Option<String>,
) {
    let Some(record) = run.recorded(command).filter(|record| record.command == *command) else { return };
    let Some(asked) = &record.details().asked else { return };
    // Where it was asked without a name, it may have got one since.
    let is_named_so = asked.name.is_none() || asked.name.as_deref() == name;
    let is_shown = |shown: &Payload| is_same_matter(&run.shared.redaction.value(shown.clone()), request);
    if is_named_so && asked.shown.as_ref().is_none_or(is_shown) {
        return;
    }
    let side = |shown: Option<&Payload>, name: Option<&str>, site: Option<String>| CommandSummary {
        command: name.map_or_else(|| command.clone(), |name| CommandId::from(format!("{command} `{name}`"))),
        class: EffectClass::Human,
        digest: shown.and_then(|shown| Digest::of(shown).ok()),
        site,
    };
    let recorded = side(asked.shown.as_ref(), asked.name.as_deref(), record.site());
    run.diverged(Some(recorded), Some(side(Some(request), name, site.clone()))).await
}

/// Whether two requests show the same details. Their texts may differ; so may the order in lists, which sets have by chance,
/// and members that say nothing, which a type may have got since.
fn is_same_matter(recorded: &Payload, requested: &Payload) -> bool {
    let details = |shown: &Payload| shown.decode::<Details>().ok().map(|shown| plain(shown.details));
    details(recorded) == details(requested)
}

#[derive(Deserialize)]
struct Details {
    #[serde(default)]
    details: Value,
}

/// A value without its empty members, and with its lists in an order of their own.
fn plain(value: Value) -> Value {
    let is_empty = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(true) => false,
    };
    match value {
        Value::Array(items) => {
            let mut items: Vec<_> = items.into_iter().map(plain).collect();
            items.sort_by_cached_key(Value::to_string);
            Value::Array(items)
        }
        Value::Object(members) => {
            let members = members.into_iter().map(|(name, value)| (name, plain(value)));
            Value::Object(members.filter(|(_, value)| !is_empty(value)).collect())
        }
        other => other,
    }
}

/// Records the end of a wait for a person.
async fn complete(
    run: &Run,
    command: &CommandId,
    decided: Option<ApprovalDecided>,
    value: Result<Payload, Expired>,
    consumed: Vec<Taken>,
) -> Result<Payload, Expired> {
    let limit_ms = value.as_ref().err().and_then(|expired| expired.limit_ms);
    let completed = WaitCompleted { command: command.clone(), value: value.clone().ok(), limit_ms };
    let events = decided.map(Into::into).into_iter().chain([completed.into()]).collect();
    run.append_large(events, AppendExtras { consumed, ..AppendExtras::default() }).await;
    value
}
