//! Signals: durable waits for messages that programs send to a run.
//!
//! Promise: a signal that was sent before its wait is kept; a signal ends one wait; of a signal and the time limit exactly
//! one is recorded.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::inbox::topics::signal_topic;
use crate::journal::event::{Event, SignalReceived, WaitCompleted, WaitStarted};
use crate::journal::history::record::{Expired, RecordedResult};
use crate::run::append::AppendExtras;
use crate::run::claim::Run;
use crate::run::fault::CommandSummary;
use crate::run::matcher::Matched;
use crate::run::reply_receiver::message_before;
use crate::step::recordable::Recordable;
use crate::store::records::Message;
use crate::vocabulary::environment::later;
use crate::vocabulary::failure::{Failure, StepError};
use crate::vocabulary::id::CommandId;
use crate::vocabulary::outcome::EffectClass;
use crate::vocabulary::payload::Payload;
use crate::vocabulary::waiting::Waiting;
use crate::workflow::context::Cx;
use crate::workflow::gate::as_workflow_code;
use crate::workflow::reading::{read_recorded, unreadable};
use crate::workflow::ticket::Ticket;
use crate::workflow::wait::{Wait, awaitable};

/// The effect of [`Cx::signal`]: await it, with a time limit or without.
#[must_use = "a signal is waited for when this is awaited"]
#[derive(Debug)]
pub struct Signal<'c, T>(Wait<'c, Result<T, StepError<Failure>>>);

awaitable!(Signal<T>: Result<T, StepError<Failure>>);

impl<T> Signal<'_, T> {
    /// Ends the wait after `limit`, durably; the step error is then [`StepError::TimedOut`]. Without it the wait has no
    /// limit.
    ///
    /// ```
    /// # use aether_core::workflow::Cx;
    /// # use aether_core::failure::StepError;
    /// # use std::time::Duration;
    /// # async fn workflow(cx: &mut Cx) {
    /// let hour = Duration::from_secs(3600);
    /// match cx.signal::<u32>("paid").timeout(hour).await {
    ///     Ok(amount) => println!("{amount} paid"),
    ///     Err(StepError::TimedOut(_)) => println!("not paid in time"),
    ///     Err(error) => println!("{error}"),
    /// }
    /// # }
    /// ```
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.0.terms.limit = Some(limit);
        self
    }
}

impl Cx {
    /// Waits for a signal of this name, durably. Signals that were sent before are kept and received in the order in which
    /// they were sent; each ends one wait.
    ///
    /// The step error is `Unrecordable` when the signal's value is not a `T`, and `TimedOut` when the time limit
    /// has passed.
    ///
    /// ```
    /// # use aether_core::workflow::Cx;
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
    // One that is recorded was within the limit of its time.
    if let Err(over) = run.shared.limits.check_name("signal's name", &name)
        && !run.is_recorded(&command)
    {
        return Err(StepError::Unrecordable(run.failure(&command, over)));
    }
    same_name(&run, &command, &name, &site).await;
    let class = EffectClass::Human;
    let (value, reason) = match run.request(&command, class, None, site.clone()).await {
        Matched::Answered => {
            let mut record = run.next_delivery(&command).await;
            let unreadable = record.take_details().unreadable;
            match (record.answer.take(), unreadable) {
                (Some(RecordedResult::Wait(Ok(value))), None) => {
                    let sites = (record.site(), site);
                    return Ok(read_recorded(&run, &command, "signal", || sites, || value.decode()).await);
                }
                (Some(RecordedResult::Wait(value)), reason) => (value, reason),
                (answer, _) => return run.mismatched(&command, class, answer).await,
            }
        }
        Matched::Begun(record) => {
            run.wait_for_frontier(&command).await;
            receive_or_expire::<T>(&run, &command, &name, (record.details().due, limit)).await
        }
        Matched::New => {
            run.wait_for_frontier(&command).await;
            run.apply_backpressure().await;
            let until = limit.map(|limit| later(run.now(), limit));
            let started = WaitStarted { command: command.clone(), name: name.clone(), until, site };
            run.append(vec![started.into()], AppendExtras::default());
            receive_or_expire::<T>(&run, &command, &name, (until, limit)).await
        }
    };
    match (value, reason) {
        (_, Some(reason)) => Err(StepError::Unrecordable(run.failure(&command, reason))),
        (Ok(value), None) => {
            let read = as_workflow_code(|| value.decode());
            read.map_err(|error| StepError::Unrecordable(run.failure(&command, error)))
        }
        (Err(expired), None) => {
            let why = run.failure(&command, format!("no signal `{name}` came in time"));
            Err(expired.error(why, Waiting::Signal, &name))
        }
    }
}

/// The name of the signal is part of what is asked for: under another one, no sender would reach the wait that people see.
/// Compared before the command is asked for: a replay that executes nothing stops there.
async fn same_name(run: &Run, command: &CommandId, name: &str, site: &Option<String>) {
    let Some(record) = run.recorded(command).filter(|record| record.command == *command) else { return };
    let Some(recorded) = record.details().waits_for.as_deref().filter(|recorded| *recorded != name) else {
        return;
    };
    let side = |name: &str, site: &Option<String>| CommandSummary {
        command: CommandId::from(format!("{command}({name:?})")),
        class: EffectClass::Human,
        digest: None,
        site: site.clone(),
    };
    let recorded = Some(side(recorded, &record.site()));
    run.diverged(recorded, Some(side(name, site))).await
}

/// Stops a run whose code is newer than the message: what was sent to the code before is not the sender's mistake, and is
/// kept for code that reads it.
async fn fits_adopted<T: Recordable>(run: &Run, command: &CommandId, message: &Message) {
    if run.adopted_at().is_none_or(|at| message.at > at) {
        return;
    }
    if let Err(error) = message.payload.decode::<T>() {
        run.unreadable(command, "signal", (None, None), error).await
    }
}

/// Receives a signal, or records that none came in time. Also returns why a signal cannot be read; that is recorded, too.
async fn receive_or_expire<T: Recordable>(
    run: &Arc<Run>,
    command: &CommandId,
    name: &str,
    (until, limit): (Option<Timestamp>, Option<Duration>),
) -> (Result<Payload, Expired>, Option<String>) {
    let topic = signal_topic(name);
    let message = match message_before(run, command, &topic, until).await {
        Some(message) => Some(message),
        None => {
            // The limit has passed by this process's clock. A signal that another process sent before may not have been
            // delivered here yet: it is in the store's inbox, and still counts.
            let _in_flight = run.in_flight();
            run.look_into_inbox().await;
            run.take_message(&topic)
        }
    };
    let mut events: Vec<Event> = Vec::with_capacity(2);
    let mut extras = AppendExtras::default();
    if let Some(message) = &message {
        fits_adopted::<T>(run, command, message).await;
    }
    let value = message.map(|message| {
        let (id, value) = (message.id.clone(), message.payload.clone());
        events.push(SignalReceived { id, name: name.into(), value: value.clone() }.into());
        extras.consumed.push(message);
        value
    });
    let expired = Expired::under(limit);
    let limit_ms = expired.limit_ms.filter(|_| value.is_none());
    events.push(WaitCompleted { command: command.clone(), value: value.clone(), limit_ms }.into());
    let read = |value: &Payload| unreadable(command, || value.decode::<T>().map(drop));
    let (reason, unreadable) = value.as_ref().and_then(read).unzip();
    events.extend(unreadable);
    run.append_large(events, extras).await;
    (value.ok_or(expired), reason)
}
