//! The commands of a child run: starting it, and those about one that was started before.
//!
//! Promise: the answer of a child and the end of this run's duty towards it are one append; a child that was started is
//! found again, and never started twice.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;

use crate::journal::event::reserved::Reserved;
use crate::journal::event::{
    ChildReleased, ChildStarted, CommandCommitted, Event, ForkDecided, NodeFinished, NodeStarted,
    OutcomeKept, StepCommitted,
};
use crate::journal::history::record::{CommandDetails, CommandRecord, RecordedResult};
use crate::run::append::AppendExtras;
use crate::run::awaited_children::AwaitedChild;
use crate::run::budgets::{Grant, GrantTo};
use crate::run::claim::Run;
use crate::run::fault::CommandSummary;
use crate::run::matcher::Matched;
use crate::run::program::{ChildEnd, ChildStart, Children, NewChild, ParentRun, RegisteredWorkflow};
use crate::run::requested::{Requested, is_same};
use crate::vocabulary::budget::{Budget, BudgetScope, OverBudget, Spend};
use crate::vocabulary::contract::Constraints;
use crate::vocabulary::environment::later;
use crate::vocabulary::failure::{Failure, StepError};
use crate::vocabulary::id::{CommandId, RunId};
use crate::vocabulary::labels::Labels;
use crate::vocabulary::outcome::{EffectClass, Outcome};
use crate::vocabulary::payload::{Answered, Digest, Payload, PayloadError};
use crate::vocabulary::trace::SpanName;
use crate::workflow::reading::{Sites, read_recorded};
use crate::workflow::ticket::Ticket;

/// How soon a fork looks again whether a child run that it took over has ended.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// What a child took of the budget that it was granted, where it was granted one.
pub(super) async fn spent_of_granted(
    run: &Arc<Run>,
    children: &dyn Children,
    child: &RunId,
) -> Option<Spend> {
    if !run.has_granted(child) {
        return None;
    }
    let _in_flight = run.in_flight();
    run.insist(|| children.spent(child.clone())).await
}

pub(super) const NO_CHILDREN: &str = "this engine has no child runs";

/// A command about a child that was started before. Its answer and the end of this run's duty towards the child are one
/// append.
pub(super) async fn about_child(
    mut ticket: Ticket<'_>,
    child: &RunId,
    answer: impl AsyncFnOnce(&Arc<Run>, &CommandId) -> (Answered, Option<Spend>),
    readable: impl FnOnce(&Answered) -> Result<(), PayloadError>,
) -> (Answered, Sites) {
    let site = ticket.enter().await;
    let (run, command) = (Arc::clone(&ticket.run), ticket.command.clone());
    let class = EffectClass::Workflow;
    let recorded = Payload::encode(child).and_then(|input| Ok((Digest::of(&input)?, input)));
    let (digest, input) = match recorded {
        Ok(recorded) => recorded,
        Err(error) => {
            let error = StepError::Unrecordable(run.failure(&command, error)).recorded();
            return (Err(error), (None, site));
        }
    };
    let name = command.name();
    match run.request(&command, class, Some(&digest), site.clone()).await {
        Matched::Answered => {
            let record = run.next_delivery(&command).await;
            let answered = match record.answer.clone() {
                Some(RecordedResult::Step(result)) => inject(&run, &command, name, &record, result),
                answer => run.mismatched(&command, class, answer).await,
            };
            return (answered, (record.site(), site));
        }
        Matched::Begun(_) => run.wait_for_frontier(&command).await,
        Matched::New => {
            run.wait_for_frontier(&command).await;
            let started = NodeStarted {
                path: None,
                command: command.clone(),
                class,
                digest,
                input: Some(input),
                site: site.clone(),
                constraints: Constraints::default(),
            };
            run.append(vec![started.into()], AppendExtras::default());
        }
    }
    let (answered, spent) = answer(&run, &command).await;
    let released = ChildReleased { command: command.clone(), child: child.clone(), spent };
    let ended = Ended { spent: None, also: Some(released.into()) };
    let answered = commit(&run, (&command, site.clone()), name, answered, readable, ended).await;
    (answered, (None, site))
}

pub(super) struct ChildCall<'a> {
    pub(super) run: &'a Arc<Run>,
    pub(super) command: &'a CommandId,
    pub(super) children: Option<&'a dyn Children>,
    pub(super) workflow: RegisteredWorkflow,
    pub(super) child: RunId,
    pub(super) digest: Digest,
    pub(super) input: Payload,
    pub(super) labels: Labels,
    pub(super) site: Option<String>,
    pub(super) unawaited: bool,
    pub(super) detached: bool,
    /// What the workflow wants to grant it.
    pub(super) budget: Option<Budget>,
    /// The budgets that it is granted from.
    pub(super) budgets: Option<Arc<BudgetScope>>,
    /// What it is granted.
    pub(super) granted: Option<Budget>,
    /// Brings a recorded input to today's encoding.
    pub(super) normalize: fn(&Payload) -> Result<Payload, PayloadError>,
}

impl ChildCall<'_> {
    /// The answer, and where the command stood in the source that recorded it.
    pub(super) async fn answer(
        mut self,
        readable: impl FnOnce(&Answered) -> Result<(), PayloadError>,
    ) -> (Answered, Option<String>) {
        let class = EffectClass::Workflow;
        // Before the command is asked for: a replay that executes nothing stops there.
        if let Some(record) = self.run.recorded(self.command).filter(|record| record.command == *self.command)
        {
            self.same_child(&record).await;
        }
        match self.match_history().await {
            Matched::Answered => {
                let record = self.run.next_delivery(self.command).await;
                let answered = match record.answer.clone() {
                    Some(RecordedResult::Step(result)) => {
                        inject(self.run, self.command, self.workflow.def.name, &record, result)
                    }
                    answer => self.run.mismatched(self.command, class, answer).await,
                };
                (answered, record.site())
            }
            Matched::Begun(mut record) => {
                let (site, CommandDetails { child, granted, .. }) = (record.site(), record.take_details());
                let CommandRecord { digest, input, kept, .. } = *record;
                self.granted = granted;
                if let (Some(digest), Some(input)) = (digest, input) {
                    (self.digest, self.input) = (digest, input);
                }
                let answered = match child {
                    Some(child) if kept => {
                        self.child = child;
                        self.follow_kept(readable).await
                    }
                    child => self.follow(child.is_some(), readable).await,
                };
                (answered, site)
            }
            Matched::New => {
                self.run.wait_for_frontier(self.command).await;
                let is_asked = |recorded: &Payload| {
                    is_same(recorded, &self.digest, &|recorded| self.normal_input(recorded))
                };
                let answered = match self.run.take_kept(self.command, &self.digest, None, is_asked) {
                    Some(kept) => self.take_over(kept, readable).await,
                    None => self.follow(false, readable).await,
                };
                (answered, None)
            }
        }
    }

    /// A recorded input as it would be recorded today.
    fn normal_input(&self, recorded: &Payload) -> Result<Payload, PayloadError> {
        Ok(self.run.shared.redaction.value((self.normalize)(recorded)?))
    }

    async fn match_history(&self) -> Matched {
        let normalize = |recorded: &Payload| self.normal_input(recorded);
        let path = self.workflow.path();
        let requested =
            Requested { args: &self.input, digest: &self.digest, path: &path, normalize: &normalize };
        let (digest, site) = (Some(&self.digest), || self.site.clone());
        self.run.request_with(self.command, EffectClass::Workflow, digest, Some(&requested), &site).await
    }

    /// The child's id is part of what is asked for, and whether its end is waited for: the answers differ.
    async fn same_child(&self, record: &CommandRecord) {
        let CommandDetails { child: Some(child), unawaited, .. } = record.details() else { return };
        // The id of a child that a fork takes over was made of its origin's.
        let same_id = record.kept || *child == self.child;
        if same_id && *unawaited == self.unawaited {
            return;
        }
        let side = |child: &RunId, unawaited: bool, site: Option<String>| CommandSummary {
            command: CommandId::from(format!(
                "{} as run {child}{}",
                self.command,
                if unawaited { ", started only" } else { "" }
            )),
            class: EffectClass::Workflow,
            digest: Some(self.digest.clone()),
            site,
        };
        let recorded = side(child, *unawaited, record.site());
        self.run.diverged(Some(recorded), Some(side(&self.child, self.unawaited, self.site.clone()))).await
    }

    /// Starts the child unless it exists, and waits for its end where that is asked for.
    async fn follow(
        mut self,
        linked: bool,
        readable: impl FnOnce(&Answered) -> Result<(), PayloadError>,
    ) -> Answered {
        let (run, command) = (self.run, self.command);
        run.wait_for_frontier(command).await;
        let Some(children) = self.children else {
            return Err(StepError::Rejected(run.failure(command, NO_CHILDREN)).recorded());
        };
        let mut ended = Ended::default();
        let answered = match self.start(children, linked).await {
            Err(over) => Err(StepError::OverBudget(over).recorded()),
            Ok(ChildStart::Taken(by)) => {
                ended.spent = self.granted.as_ref().map(|_| Spend::default());
                let reason = format!("child id `{}` is taken by {by}; give the child another id", self.child);
                Err(StepError::Rejected(run.failure(command, reason)).recorded())
            }
            Ok(ChildStart::ParentLost) => return run.stop(run.lost(run.epoch)).await,
            Ok(ChildStart::Runs) => {
                let answered = self.end_of(children).await;
                ended.spent = self.spent_of(children).await;
                answered
            }
        };
        commit(run, (command, self.site), self.workflow.def.name, answered, readable, ended).await
    }

    /// What the child took of the budget that it was granted, where it was waited for.
    async fn spent_of(&self, children: &dyn Children) -> Option<Spend> {
        if self.unawaited { None } else { spent_of_granted(self.run, children, &self.child).await }
    }

    /// In a fork: takes over the child that the origin had started, with its end if it had one. It stays the origin's: this
    /// run waits for it and does not end it.
    async fn take_over(
        mut self,
        kept: ForkDecided,
        readable: impl FnOnce(&Answered) -> Result<(), PayloadError>,
    ) -> Answered {
        self.child = kept.child.unwrap_or(self.child);
        if let Some(args) = kept.args {
            (self.digest, self.input) = (kept.digest.clone(), args);
        }
        let (command, child) = (self.command.clone(), self.child.clone());
        let digest = Some(kept.digest);
        let taken = OutcomeKept { command: command.clone(), origin: kept.origin, digest };
        let (unawaited, detached) = (self.unawaited, self.detached);
        let link = ChildStarted { command, child, unawaited, detached, granted: None, reserved: None };
        self.run.append_large_durably(vec![self.started().into(), taken.into(), link.into()]).await;
        // The answer of a child that was only started is its id: no value for code that waits for its end, and the other
        // way round.
        let id = Payload::encode(&self.child).ok();
        let answered = match (kept.result, kept.error) {
            (_, Some(error)) => Err(error),
            (Some(value), None) if (Some(&value) == id.as_ref()) == self.unawaited => Ok(value),
            (_, None) => return self.follow_kept(readable).await,
        };
        let name = self.workflow.def.name;
        commit(self.run, (self.command, self.site), name, answered, readable, Ended::default()).await
    }

    /// Waits for the end of a child that was taken over, where that is asked for.
    async fn follow_kept(self, readable: impl FnOnce(&Answered) -> Result<(), PayloadError>) -> Answered {
        let (run, command) = (self.run, self.command);
        run.wait_for_frontier(command).await;
        let answered = match self.children {
            None => Err(StepError::Rejected(run.failure(command, NO_CHILDREN)).recorded()),
            Some(children) => self.end_of(children).await,
        };
        let name = self.workflow.def.name;
        commit(run, (command, self.site), name, answered, readable, Ended::default()).await
    }

    /// The child's end where it is waited for, else its id.
    async fn end_of(&self, children: &dyn Children) -> Answered {
        let (run, command) = (self.run, self.command);
        if self.unawaited {
            let unrecordable = |error| StepError::Unrecordable(run.failure(command, error)).recorded();
            return Payload::encode(&self.child).map_err(unrecordable);
        }
        answer_of(run, command, children, &self.child).await
    }

    fn started(&self) -> NodeStarted {
        NodeStarted {
            command: self.command.clone(),
            path: Some(self.workflow.path()),
            class: EffectClass::Workflow,
            digest: self.digest.clone(),
            input: Some(self.input.clone()),
            site: self.site.clone(),
            constraints: Constraints::default(),
        }
    }

    /// The span of this command, where trace contexts are sent on.
    fn traceparent(&self) -> Option<String> {
        let run = self.run;
        run.shared.trace_bodies.as_ref()?;
        Some(run.trace.context(&run.id, SpanName::Command(self.command)).to_string())
    }

    /// Starts the child unless it exists.
    ///
    /// # Errors
    /// The budget that has nothing left for it.
    async fn start(&mut self, children: &dyn Children, linked: bool) -> Result<ChildStart, OverBudget> {
        let run = self.run;
        if !linked {
            let reserved = self.grant().await?;
            if let Some(other) = self.link(reserved).await {
                return Ok(ChildStart::Taken(format!("the child of command `{other}`")));
            }
        }
        let _in_flight = run.in_flight();
        // Until the child exists or is known not to: this run does not end meanwhile, because its end must reach the child.
        let start = || {
            let child = NewChild {
                id: self.child.clone(),
                workflow: self.workflow,
                input: self.input.clone(),
                labels: self.labels.clone(),
                traceparent: self.traceparent(),
                budget: self.granted.clone(),
            };
            async move {
                let start_guard = run.start_of_child().await;
                children.start(ParentRun::of(run), run.epoch, child, start_guard).await
            }
            .boxed()
        };
        Ok(run.insist(start).await)
    }

    /// Records the child's id, durably, before the child exists: after a crash in between, this command finds its child or
    /// creates it, and a run that ends knows which children to ask. Gives the command whose child it is, where that is another.
    async fn link(&self, reserved: Option<Reserved>) -> Option<CommandId> {
        let link = ChildStarted {
            command: self.command.clone(),
            child: self.child.clone(),
            unawaited: self.unawaited,
            detached: self.detached,
            granted: self.granted.clone(),
            reserved,
        };
        let (run, events) = (self.run, vec![self.started().into(), link.into()]);
        let stored = run.store_large(&events).await;
        // In one piece with the append: another branch may have waited for its large values, too.
        let other = run.with_obligations(|obligations| obligations.starter(&self.child).cloned());
        if other.is_none() {
            run.append_durably(events, None, AppendExtras { stored, ..AppendExtras::default() }).await;
        }
        other
    }

    /// Takes the child's budget out of those that hold here. Waits where there may be something left once calls in flight
    /// have ended.
    async fn grant(&mut self) -> Result<Option<Reserved>, OverBudget> {
        let run = self.run;
        loop {
            let freed = run.freed();
            let to = GrantTo {
                command: self.command,
                child: &self.child,
                unawaited: self.unawaited,
                asked: self.budget.as_ref(),
            };
            match run.grant(self.budgets.as_ref(), to, run.now()) {
                Grant::Made(granted, reserved) => {
                    self.granted = granted;
                    return Ok(reserved);
                }
                Grant::Over(over) => return Err(over),
                Grant::Wait => freed.await,
            }
            run.still_open().await;
        }
    }
}

/// What is recorded with the end of a child.
#[derive(Default)]
struct Ended {
    /// What it took of the budget that it was granted.
    spent: Option<Spend>,
    also: Option<Event>,
}

/// Waits durably for the end of a child, and answers with it.
pub(super) async fn answer_of(
    run: &Arc<Run>,
    command: &CommandId,
    children: &dyn Children,
    child: &RunId,
) -> Answered {
    match wait_for(run, command, children, child).await {
        ChildEnd::Completed(value) => Ok(value),
        ChildEnd::Failed(error) => Err(StepError::App(error).recorded()),
        ChildEnd::Cancelled(reason) => Err(StepError::Cancelled(Failure::permanent(reason)).recorded()),
        ChildEnd::Gone => {
            let reason = format!("child run `{child}` is not there: it ended and was deleted");
            Err(StepError::Rejected(run.failure(command, reason)).recorded())
        }
    }
}

/// Delivers what is recorded, and completes the command's events where a crash cut them off.
fn inject(run: &Run, command: &CommandId, name: &str, record: &CommandRecord, result: Answered) -> Answered {
    if !record.finished {
        let mut events = ending(command, name, &result);
        events.retain(|event| !(record.committed && matches!(event, Event::StepCommitted(_))));
        run.append(events, AppendExtras::default());
    }
    match &record.details().unreadable {
        // Written by former builds.
        Some(reason) => Err(StepError::Unrecordable(run.failure(command, reason)).recorded()),
        None => result,
    }
}

/// Waits durably for the end of a child, here or in another process.
async fn wait_for(run: &Arc<Run>, command: &CommandId, children: &dyn Children, child: &RunId) -> ChildEnd {
    let mut awaited = AwaitedChild::new(run, child);
    loop {
        // Only its own parent is told of a child's end: a fork looks for the end of a child that it took over.
        let look_again = run.took_over().then(|| later(run.now(), LOOK_AGAIN));
        let waiting = run.wait(command.clone(), look_again);
        // Registered before looking: an end between the look and the wait wakes this future, though it was not polled
        // yet. The other way round it would be missed, and with it the only notification.
        let notified = run.notified();
        // Not suspended while looking. An end that came before this worker claimed the run has notified no one here: only
        // this look finds it, and a suspension would cut the look off.
        if awaited.is_time() {
            let _look = run.look();
            if let Some(end) = run.insist(|| children.ended(child.clone())).await {
                return end;
            }
            awaited.goes_on();
        }
        match look_again {
            None => notified.await,
            Some(due) => {
                let due = run.shared.environment.sleep_until(due);
                let _either = futures_util::future::select(std::pin::pin!(notified), due).await;
            }
        }
        drop(waiting);
    }
}

/// Records the answer, and returns what the workflow gets. The code of the child recorded it already: what the parent's type
/// does not read stops the run before anything is recorded, and is asked for again by a build that reads it.
async fn commit(
    run: &Run,
    (command, site): (&CommandId, Option<String>),
    name: &str,
    answered: Answered,
    readable: impl FnOnce(&Answered) -> Result<(), PayloadError>,
    Ended { spent, also }: Ended,
) -> Answered {
    read_recorded(run, command, "child's result", || (None, site), || readable(&answered)).await;
    let (outcome, result, error) = match &answered {
        Ok(value) => (Outcome::Success, Some(value.clone()), None),
        Err(error) => (Outcome::PermanentFailure, None, Some(error.clone())),
    };
    let (command_id, caught_up) = (command.clone(), false);
    let committed = CommandCommitted { command: command_id, outcome, result, error, caught_up, spent };
    let mut events = vec![committed.into()];
    events.append(&mut ending(command, name, &answered));
    events.extend(also);
    run.append_large(events, AppendExtras::default()).await;
    answered
}

/// The events after the outcome.
fn ending(command: &CommandId, name: &str, answered: &Answered) -> Vec<Event> {
    let mut events = vec![NodeFinished { command: command.clone() }.into()];
    if answered.is_ok() {
        let (command, step) = (command.clone(), name.into());
        events.push(StepCommitted { command, step, key: None }.into());
    }
    events
}
