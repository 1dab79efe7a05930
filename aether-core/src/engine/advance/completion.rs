//! How a run ends: children are asked to end, steps are undone, then the terminal event is appended.
//!
//! Promise: a caller sees a result only after it is durable; what is known of calls that were cut off is recorded in one
//! append with how the run ends, and the others as abandoned; children are asked to end before the terminal event, and are
//! asked again after a crash in between.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use crate::engine::advance::drive::{DriveEnd, drive};
use crate::engine::advance::read::read_own;
use crate::engine::advance::unwinding::unwind;
use crate::inbox::decisions::EndRequest;
use crate::journal::event::{
    Event, RunCancelled, RunCompleted, RunFailed, RunTerminated, RunUnwinding, RunWaiting,
};
use crate::journal::history::History;
use crate::perform::known_at_end::{Damaged, Known, known_at_end};
use crate::run::append::AppendExtras;
use crate::run::claim::Run;
use crate::run::end::RunEnd;
use crate::run::fault::Fault;
use crate::run::log;
use crate::run::program::{Children, Completion, ParentRun};
use crate::run::taken::Taken;
use crate::sched::mutated;
use crate::store::append::StatusChange;
use crate::vocabulary::contract::Status;
use crate::vocabulary::failure::Failure;
use crate::vocabulary::id::{CommandId, RunId};
use crate::vocabulary::payload::Payload;

/// A run on its way to its end.
pub(crate) struct RunCompletion {
    /// The terminal event.
    end: Event,
    /// Inbox messages that asked for it.
    consumed: Vec<Taken>,
    /// Whether the undoing of steps has begun.
    unwinding: bool,
    /// Outcomes that are known and that nobody asks for any more. The next append says them.
    known: Known,
}

impl RunCompletion {
    /// What the end of a drive means for the run; `Err` where it does not end the run.
    pub(crate) fn of(run: &Run, end: DriveEnd) -> Result<Self, DriveEnd> {
        let (end, consumed) = match end {
            DriveEnd::Done(completion) => match run.leftover() {
                Some(fault) => return Err(DriveEnd::Fault(fault)),
                None => {
                    if !run.is_proven() {
                        run.note_replayed();
                    }
                    run.adopt();
                    (terminal(run, completion), Vec::new())
                }
            },
            // Code that ran before without a panic, or that was not yet seen to fit: a deploy fails no run.
            DriveEnd::Panicked(message) if run.panics_in_replay(run.is_adopting()) => {
                let workflow = run.def.name.to_owned();
                let fault = Fault::PanickedInReplay { run: run.id.clone(), workflow, message };
                return Err(DriveEnd::Fault(fault));
            }
            DriveEnd::Panicked(message) => {
                let what = format_args!("workflow `{}` panicked: {message}", run.def.name);
                (redacted(run, failed(&Failure::permanent(what))), Vec::new())
            }
            DriveEnd::Cancelled { request: EndRequest { reason, actor }, message } => {
                let uncompensated = Vec::new();
                (RunCancelled { reason, actor, uncompensated, expired_at: None }.into(), vec![message])
            }
            DriveEnd::Expired(at) => (expired(at), Vec::new()),
            DriveEnd::Terminated { request, message } => (terminated(request), vec![message]),
            DriveEnd::FailedPermanently(failure) => (redacted(run, failed(&failure)), Vec::new()),
            DriveEnd::Renewed(next) => {
                return Err(run.leftover().map_or(DriveEnd::Renewed(next), DriveEnd::Fault));
            }
            other @ (DriveEnd::Suspended { .. } | DriveEnd::Fault(_)) => return Err(other),
        };
        Ok(Self { end, consumed, unwinding: false, known: Known::default() })
    }

    /// Resumes an unwinding that was interrupted; `end` is the event with which the run is to end.
    pub(crate) fn resumed(run: &Run, end: Event, history: History) -> Self {
        run.begin_unwinding(history);
        Self { end, consumed: Vec::new(), unwinding: true, known: Known::default() }
    }

    /// Ends the run; durable when it returns. `Err` where the run was stopped before its end, such as by a shutdown.
    pub(crate) async fn finish(
        mut self,
        run: &Arc<Run>,
        children: &dyn Children,
        parent: Option<RunId>,
    ) -> Result<RunEnd, DriveEnd> {
        // A child that is being started right now has no inbox yet.
        run.children_are_started().await;
        // A run that completes was handed all that it asked for.
        if !self.unwinding && !matches!(self.end, Event::RunCompleted(_)) {
            let damaged = match self.end {
                Event::RunCancelled(_) | Event::RunTerminated(_) => Damaged::IsUnknown,
                _ => Damaged::Stops,
            };
            self.known = unless_failed(run, known_at_end(run, damaged)).await?;
            // From here on they count: what is to be undone, and what is abandoned, depends on them.
            let known = &self.known.events;
            run.with_obligations(|obligations| known.iter().for_each(|event| obligations.apply(event)));
        }
        if !self.unwinding
            && (self.must_unwind(run) || has_children(run) && !mutated("children-end-before-the-decision"))
        {
            self.decide(run).await?;
            run.begin_unwinding(Box::pin(begun(run)).await?);
            self.unwinding = true;
        }
        // Before this run's own steps are undone, and before its terminal event: after that no process would look at it
        // again, and a child that was not asked would run on.
        self.end_children(run, children).await?;
        if self.unwinding && !self.is_terminated() {
            match drive(run, Box::pin(unwind(Arc::clone(run)))).await {
                DriveEnd::Done(_) => {}
                DriveEnd::Terminated { request, message } => {
                    self.end = terminated(request);
                    self.consumed.push(message);
                    if has_children(run) {
                        self.decide(run).await?;
                    }
                    self.end_children(run, children).await?;
                }
                other => return Err(other),
            }
        }
        let (mut events, mut extras) = self.leave(run).await?;
        // What was decided before stays so: then a request came after it.
        extras.unless_asked_to_end = !self.unwinding && self.gives_way();
        let event = with_uncompensated(self.end, run);
        extras.status = Some(StatusChange {
            status: status_of(&event),
            wake_at: None,
            release: true,
            seen: run.seen(),
            notify: parent,
        });
        extras.consumed.append(&mut self.consumed);
        // What no outcome came of, of branches that lost a race. A run that ends otherwise was cut off in the middle, and
        // shows how far it had come.
        if matches!(event, Event::RunCompleted(_)) {
            extras.streams = run.drop_streams(|_| true).await;
        }
        let end = RunEnd::of(&event);
        events.push(event);
        durable_or_fault(run, events, extras).await?;
        end.ok_or_else(|| DriveEnd::Panicked("not a terminal event".into()))
    }

    /// Records how the run is to end; durable when it returns. In one append with the calls that are abandoned: after a
    /// crash the run resumes with its unwinding, and never with workflow code, which was over. Only what is decided so is
    /// told to children: a worker that has lost the run is refused here, and sends nothing.
    async fn decide(&mut self, run: &Run) -> Result<(), DriveEnd> {
        let (mut events, mut extras) = self.leave(run).await?;
        events.push(RunUnwinding { end: Box::new(self.end.clone()) }.into());
        extras.consumed.append(&mut self.consumed);
        extras.unless_asked_to_end = self.gives_way();
        extras.code = run.unpark();
        durable_or_fault(run, events, extras).await
    }

    /// As [`abandon`], behind what is known of calls that were cut off, and behind what only earlier generations recorded of
    /// calls that undo steps: whoever reads this journal must find it, and the unwinding goes on with it.
    async fn leave(&mut self, run: &Run) -> Result<(Vec<Event>, AppendExtras), DriveEnd> {
        let (abandoned, extras) = abandon(run).await?;
        let Known { mut events, extras: known } = std::mem::take(&mut self.known);
        events.extend(run.with_obligations(|obligations| obligations.all_begun_before()));
        events.extend(abandoned);
        Ok((events, extras.behind(known)))
    }

    /// Whether a request to end the run, acknowledged before this end is durable, outweighs it.
    fn gives_way(&self) -> bool {
        matches!(self.end, Event::RunCompleted(_) | Event::RunFailed(_))
    }

    fn is_terminated(&self) -> bool {
        matches!(self.end, Event::RunTerminated(_))
    }

    /// Whether something must be undone before the run is over.
    fn must_unwind(&self, run: &Run) -> bool {
        match &self.end {
            Event::RunTerminated(_) => false,
            end => {
                let half_way = matches!(end, Event::RunCompleted(_));
                run.with_obligations(|obligations| !obligations.pending(half_way).is_empty())
            }
        }
    }

    /// Asks the children that do not outlive this run to end; the requests are durable when it returns.
    async fn end_children(&self, run: &Run, children: &dyn Children) -> Result<(), DriveEnd> {
        let request = passed_on(&self.end, &run.id);
        for child in run.with_obligations(|obligations| obligations.children()) {
            let asking = children.end(ParentRun::of(run), child, request.clone(), self.is_terminated());
            let sent = unless_failed(run, asking).await?;
            sent.map_err(|error| DriveEnd::Fault(Fault::not_sent(run.id.clone(), error)))?;
        }
        Ok(())
    }
}

/// What a run that ends like this says to the children that it takes with it.
pub(crate) fn passed_on(end: &Event, run: &RunId) -> EndRequest {
    let (reason, actor) = match end {
        Event::RunCancelled(e) => (e.reason.clone(), e.actor.clone()),
        Event::RunTerminated(e) => (e.reason.clone(), e.actor.clone()),
        _ => (format!("its parent `{run}` has ended"), "engine".to_owned()),
    };
    EndRequest { reason, actor }
}

/// What is recorded of commands that undo others, which the workflow's code began and did not end. The unwinding goes on
/// with them.
async fn begun(run: &Run) -> Result<History, DriveEnd> {
    if !run.with_obligations(|obligations| obligations.was_begun()) {
        return Ok(History::default());
    }
    let read = unless_failed(run, read_own(&*run.shared.store, &run.id)).await?.map_err(DriveEnd::Fault)?;
    Ok(read.unwinding.map(|unwinding| unwinding.history).unwrap_or_default())
}

/// Whether there are children that do not outlive the run.
fn has_children(run: &Run) -> bool {
    run.with_obligations(|obligations| !obligations.children().is_empty())
}

/// The events that abandon the invocations in flight; their outcome is unknown from here on.
pub(crate) async fn abandon(run: &Run) -> Result<(Vec<Event>, AppendExtras), DriveEnd> {
    unless_failed(run, run.abandon(|_| true)).await?.map_err(DriveEnd::Fault)
}

/// The terminal event of a workflow that returned.
pub(crate) fn terminal(run: &Run, completion: Completion) -> Event {
    let uncompensated = Vec::new();
    let end = match completion {
        Ok(Ok(result)) => match run.too_large(&result) {
            None => RunCompleted { result, uncompensated }.into(),
            Some(reason) => failed(&Failure::permanent(format_args!("result of run `{}`: {reason}", run.id))),
        },
        Ok(Err(error)) => match run.error_too_large(&error) {
            None => RunFailed { error: error.error, message: error.message, uncompensated }.into(),
            Some(reason) => failed(&Failure::permanent(format_args!("error of run `{}`: {reason}", run.id))),
        },
        Err(error) => failed(&Failure::permanent(format_args!("result of run `{}`: {error}", run.id))),
    };
    redacted(run, end)
}

/// The end of a run as it may be recorded.
fn redacted(run: &Run, end: Event) -> Event {
    let redaction = &run.shared.redaction;
    match end {
        Event::RunCompleted(e) => RunCompleted { result: redaction.value(e.result), ..e }.into(),
        Event::RunFailed(e) => {
            RunFailed { error: redaction.value(e.error), message: redaction.text(e.message), ..e }.into()
        }
        other => other,
    }
}

fn failed(failure: &Failure) -> Event {
    let error = Payload::encode(failure).unwrap_or_else(|_| Payload::null());
    RunFailed { error, message: failure.to_string(), uncompensated: Vec::new() }.into()
}

/// The end of a run that had not begun when it was to begin at the latest.
fn expired(at: jiff::Timestamp) -> Event {
    let reason = format!("it had not begun by {at}");
    RunCancelled { reason, actor: "queue".into(), uncompensated: Vec::new(), expired_at: Some(at) }.into()
}

fn terminated(EndRequest { reason, actor }: EndRequest) -> Event {
    RunTerminated { reason, actor }.into()
}

fn status_of(event: &Event) -> Status {
    match event {
        Event::RunCompleted(_) => Status::Completed,
        Event::RunFailed(_) => Status::Failed,
        _ => Status::Cancelled,
    }
}

fn with_uncompensated(mut event: Event, run: &Run) -> Event {
    let left = run.with_obligations(|obligations| obligations.uncompensated());
    for one in &left {
        tracing::error!(target: "aether::engine", run = %run.id, %one, "a step could not be undone");
    }
    match &mut event {
        Event::RunCompleted(e) => e.uncompensated = left,
        Event::RunFailed(e) => e.uncompensated = left,
        Event::RunCancelled(e) => e.uncompensated = left,
        _ => {}
    }
    event
}

/// Suspends a run: from here on it lives only in the store. `seen` is what the decision to suspend it rests on.
pub(crate) async fn suspend(
    run: &Run,
    until: Option<jiff::Timestamp>,
    on: Vec<CommandId>,
    seen: u64,
) -> Result<(), DriveEnd> {
    let seen = if mutated("seen-is-read-late") { run.seen() } else { seen };
    let status = StatusChange { status: Status::Waiting, wake_at: until, release: true, seen, notify: None };
    let extras = AppendExtras { status: Some(status), ..AppendExtras::default() };
    durable_or_fault(run, vec![RunWaiting::at(on.clone(), until).into()], extras).await?;
    log::suspended(&run.id, &on, until);
    Ok(())
}

/// An append while nothing is driven: a fault ends the wait.
pub(crate) async fn durable_or_fault(
    run: &Run,
    events: Vec<Event>,
    mut extras: AppendExtras,
) -> Result<(), DriveEnd> {
    let append = async {
        // Beside those that were in the effect store before.
        extras.stored.extend(run.store_large(&events).await);
        extras.drop_stored_values();
        run.append_durably(events, None, extras).await
    };
    unless_failed(run, append).await.map(drop)
}

/// Waits for `work` unless the run stops meanwhile: `work` itself may have stopped it, and then it never returns.
pub(crate) async fn unless_failed<T>(run: &Run, work: impl Future<Output = T>) -> Result<T, DriveEnd> {
    let (mut work, mut broken) = (pin!(work), pin!(run.watermark().failed()));
    poll_fn(|cx| {
        // Before the looks: a fault after them wakes this task, which drives nothing that would hear of it.
        run.root().register(cx.waker());
        if let Poll::Ready(done) = work.as_mut().poll(cx) {
            return Poll::Ready(Ok(done));
        }
        let broken = broken.as_mut().poll(cx).map(Fault::Append);
        match (run.fault().or_else(|| run.take_misfit()), broken) {
            (Some(fault), _) | (None, Poll::Ready(fault)) => Poll::Ready(Err(DriveEnd::Fault(fault))),
            (None, Poll::Pending) => Poll::Pending,
        }
    })
    .await
}
