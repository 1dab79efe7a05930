//! The fold from a journal to a view: steps with their statuses and results, and the log of effects.
//!
//! Promise: reading executes nothing; folding one journal twice gives equal views; a snapshot only shortens the fold.
//! Every transition of a run's and of an execution's status is kept with from, to, trigger, actor and time.

use crate::view::ending::Ending;
use crate::view::execution::{ENGINE, EventTime, Lifecycle, TimedEvent};
use crate::view::run::{EffectRecord, HistoryUse, LastFailure, RunView, StepView};
use crate::view::window::{StepPage, Window};
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::inbox::decisions;
use crate::inbox::decisions::ApprovalOutcome;
use crate::journal::event::{Event, InvocationDecision, NodeStarted, ToolInvocationStarted};
use crate::journal::spending::{BudgetUse, Spending};
use crate::run::end::RunEnd;
use crate::store::api::Store;
use crate::store::error::StoreError;
use crate::store::pages::{PAGE, Pages};
use crate::store::records::Snapshot;
use crate::vocabulary::contract::{IllegalTransition, Status, Trigger};
use crate::vocabulary::failure::StepError;
use crate::vocabulary::id::{CommandId, Position, RunId};
use crate::vocabulary::outcome::{EffectClass, Outcome};
use crate::vocabulary::payload::Payload;

/// Events of the longest journal whose view is saved. Written as JSON, a view takes twice its own memory once more, and
/// most of the time of a first view.
const SNAPSHOT_LARGEST: Position = 50_000;
/// Events after which a new snapshot of a view is worth its write.
const SNAPSHOT_EVERY: Position = 512;

impl RunView {
    /// The view of a run without any event.
    pub fn new(run: RunId) -> Self {
        Self {
            run,
            workflow: String::new(),
            version: 0,
            input: None,
            status: Status::Pending,
            ending: None,
            parked: None,
            lifecycle: Lifecycle::new(EventTime { position: 0, at: Timestamp::UNIX_EPOCH }),
            steps: Vec::new(),
            effects: Vec::new(),
            position: 0,
            result: None,
            generation: 0,
            history: HistoryUse::default(),
            uncompensated: Vec::new(),
            illegal: Vec::new(),
            executions: Vec::new(),
            began: 0,
            spending: Spending::default(),
            index: BTreeMap::new(),
            newest: BTreeMap::new(),
            open: BTreeSet::new(),
            worker: ENGINE.into(),
            window: None,
        }
    }

    /// Folds a whole journal: events with the times of their frames, or events alone.
    ///
    /// ```
    /// # use aether_core::journal::event::{Event, TimeRecorded};
    /// # use aether_core::id::{CommandId, RunId};
    /// # use aether_core::view::RunView;
    /// let command = CommandId::new("0", "now");
    /// let drawn: Event = TimeRecorded { command: command.clone(), value: jiff::Timestamp::UNIX_EPOCH }.into();
    /// let view = RunView::fold(RunId::new("order-42")?, [drawn]);
    /// assert!(view.completed().contains(&command));
    /// # Ok::<(), aether_core::id::RunIdError>(())
    /// ```
    pub fn fold(run: RunId, events: impl IntoIterator<Item = impl Into<TimedEvent>>) -> Self {
        let mut view = Self::new(run);
        events.into_iter().for_each(|event| view.apply(event));
        view
    }

    /// Reads a run from its newest snapshot and the events appended since. Saves a new snapshot when there were many,
    /// unless the journal is so long that saving takes more memory than the view.
    ///
    /// # Errors
    /// [`StoreError`] when there is no such run or its journal is unreadable.
    pub async fn load(store: &dyn Store, run: &RunId) -> Result<Self, StoreError> {
        Self::read(store, run, None).await
    }

    /// Reads one page of the steps of a run, with everything else of its view, as [`RunView::load`] and [`RunView::page`] give
    /// it. However long the run is, it is never in memory as a whole.
    ///
    /// # Errors
    /// [`StoreError`] when there is no such run or its journal is unreadable.
    pub async fn load_page(store: &dyn Store, run: &RunId, page: StepPage) -> Result<Self, StoreError> {
        Self::read(store, run, Some(page)).await
    }

    async fn read(store: &dyn Store, run: &RunId, page: Option<StepPage>) -> Result<Self, StoreError> {
        let saved = store.snapshot(run).await?;
        // A snapshot that does not decode, such as one of another version, is ignored: it only saves work.
        let mut view = saved.and_then(|s| s.state.decode().ok()).unwrap_or_else(|| Self::new(run.clone()));
        let start = view.position;
        // In parts: the frames of a long run are larger than the view of it.
        let mut pages = Pages::new(store, run, start, PAGE);
        while let Some(frames) = pages.next().await? {
            for frame in frames {
                // Events before a later generation are gone.
                view.position = frame.position;
                let events = crate::store::read::events(store, run, std::slice::from_ref(&frame)).await?;
                events.into_iter().for_each(|event| view.apply((frame.at, event)));
            }
            // A shorter one is read as a whole, so that the next page finds a snapshot.
            if let Some(page) = &page
                && view.position > SNAPSHOT_LARGEST
            {
                view = view.page(page.clone());
            }
        }
        if view.position == 0 {
            return Err(StoreError::UnknownRun { run: run.clone() });
        }
        if view.position - start >= SNAPSHOT_EVERY
            && view.position <= SNAPSHOT_LARGEST
            && let Ok(state) = Payload::encode(&view)
        {
            store.save_snapshot(run, Snapshot { position: view.position, state }).await?;
        }
        if view.ending.is_none() && !view.status.is_terminal() {
            view.ending = Ending::requested(store, run).await?;
        }
        Ok(match page {
            Some(page) => view.page(page),
            None => view,
        })
    }

    /// The commands whose outcome counts as complete.
    pub fn completed(&self) -> BTreeSet<CommandId> {
        let complete = |step: &&StepView| step.outcome.is_some_and(Outcome::is_complete);
        self.steps.iter().filter(complete).map(|step| step.command.clone()).collect()
    }

    /// The step of `command`, where the journal has it.
    pub fn step(&self, command: &CommandId) -> Option<&StepView> {
        self.index.get(command.as_str()).and_then(|at| self.steps.get(*at))
    }

    /// The steps in doubt: started, with an unknown outcome.
    pub fn in_doubt(&self) -> Vec<&StepView> {
        self.steps.iter().filter(|step| step.in_doubt).collect()
    }

    /// Applies the next event of the journal.
    pub fn apply(&mut self, event: impl Into<TimedEvent>) {
        let TimedEvent { at, event } = event.into();
        if matches!(event, Event::RunCreated(_)) && self.position > 0 {
            // The run continued as new. A snapshot may be of the generation before.
            let window = self.window.take().map(Window::reset);
            *self = Self { position: self.position, window, ..Self::new(self.run.clone()) };
            self.began = self.position;
        }
        let now = EventTime { position: self.position, at };
        self.position += 1;
        self.history.events = self.position - self.began;
        self.apply_to_run(&event, now);
        self.spending.apply(&event);
        let Some(command) = event.command().cloned() else { return };
        if !self.passes_by(&command, &event) {
            let before = self.extent();
            self.apply_to_command(&command, event, now);
            self.turn_page(before);
        }
    }

    fn apply_to_command(&mut self, command: &CommandId, event: Event, now: EventTime) {
        self.track(command, &event, now);
        match event {
            Event::NodeStarted(e) => self.start_step(command, e),
            Event::CommandEmitted(e) => {
                let step = self.step_mut(command, EffectClass::Llm);
                step.input = e.input.or(step.input.take());
                step.attempts = e.attempt.saturating_add(1);
                step.retry_due = None;
            }
            Event::ToolInvocationStarted(e) => self.start_invocation(command, e),
            Event::ToolInvocationFinished(e) => {
                let step = self.step_mut(command, EffectClass::Tool);
                step.in_doubt = false;
                // Without either, the HTTP exchange before it is the value.
                step.result = e.error.map(Err).or(e.result.map(Ok)).or(step.result.take());
            }
            Event::TransactionFinished(e) => {
                let step = self.step_mut(command, EffectClass::Transaction);
                step.attempts = e.attempt.saturating_add(1);
                step.retry_due = None;
                step.result = e.error.map(Err).or(e.result.map(Ok));
            }
            Event::InvocationResolved(e) => self.resolve_invocation(command, e.decision),
            Event::StepRetried(e) => {
                let step = self.step_mut(command, EffectClass::Read);
                step.attempts = e.attempt.saturating_add(1);
                step.retry_due = Some(e.due);
                step.last_failure = Some(LastFailure { at: now.at, error: e.error });
                step.in_doubt = false;
            }
            Event::StepCompensated(e) => {
                if let Some(step) = self.index.get(e.undoes.as_str()).and_then(|at| self.steps.get_mut(*at)) {
                    step.outcome = Some(Outcome::Compensated);
                }
            }
            Event::HttpRecorded(e) => {
                self.step_mut(command, EffectClass::Http).result = Some(Ok(e.response));
            }
            Event::CommandCommitted(e) => {
                let given = e.error.map(Err).or(e.result.map(Ok));
                self.commit(now, command, e.outcome, given);
            }
            Event::PlanGenerated(e) => self.drawn(now, command, EffectClass::Pure, Ok(e.plan)),
            Event::StateChanged(e) => self.step_mut(command, EffectClass::Tool).changes.push(e),
            Event::StateConfirmed(e) => self.step_mut(command, EffectClass::Tool).confirmations.push(e),
            Event::NodeFinished(_) => self.step_mut(command, EffectClass::Pure).finished = true,
            Event::TimeRecorded(e) => self.drawn(now, command, EffectClass::Time, Payload::encode(&e.value)),
            Event::UuidRecorded(e) => self.drawn(now, command, EffectClass::Uuid, Payload::encode(&e.value)),
            Event::RandomRecorded(e) => self.drawn(now, command, EffectClass::Random, Ok(e.value)),
            Event::HistoryMeasured(e) => {
                self.drawn(now, command, EffectClass::Time, Payload::encode(&e.events));
            }
            Event::TimerScheduled(_) => {
                self.step_mut(command, EffectClass::Time);
                self.go(command, Trigger::Start);
                self.go(command, Trigger::Suspend);
            }
            Event::TimerFired(_) => {
                self.go(command, Trigger::Resume);
                self.commit(now, command, Outcome::Success, None);
            }
            Event::WaitStarted(_) => self.suspend(command, None),
            Event::ApprovalRequested(e) => self.suspend(command, Some(e.request)),
            Event::WaitCompleted(e) => self.end_wait(now, command, e.value),
            Event::ApprovalDecided(e) => self.decide_approval(command, &e.decision),
            Event::CallbackAwaited(_) => self.suspend_running(command),
            Event::CallbackReceived(_) => self.resume(command),
            _ => {}
        }
    }

    /// Every budget of the run, with what is spent and reserved of it: `run` is that of the whole run.
    pub fn budgets(&self) -> Vec<BudgetUse> {
        self.spending.uses()
    }

    fn start_step(&mut self, command: &CommandId, started: NodeStarted) {
        let step = self.step_mut(command, started.class);
        step.class = started.class;
        step.input = started.input;
        step.site = started.site;
        step.attempts = step.attempts.max(1);
        self.go(command, Trigger::Start);
    }

    fn start_invocation(&mut self, command: &CommandId, started: ToolInvocationStarted) {
        let step = self.step_mut(command, EffectClass::Tool);
        step.attempts = started.attempt.saturating_add(1);
        step.retry_due = None;
        step.invocation = Some(started.invocation);
        step.key = Some(started.key);
        step.in_doubt = true;
    }

    fn resolve_invocation(&mut self, command: &CommandId, decision: InvocationDecision) {
        let step = self.step_mut(command, EffectClass::Tool);
        step.in_doubt = !matches!(decision, InvocationDecision::Happened | InvocationDecision::DidNotHappen);
        match decision {
            InvocationDecision::Ask => self.suspend_running(command),
            _ => self.resume(command),
        }
    }

    fn end_wait(&mut self, now: EventTime, command: &CommandId, value: Option<Payload>) {
        match value {
            Some(value) if decisions::is_rejection(command, &value) => {
                self.finish(now, command, Outcome::PermanentFailure, Ok(value), Trigger::Reject);
            }
            Some(value) => {
                self.resume(command);
                self.commit(now, command, Outcome::Success, Some(Ok(value)));
            }
            None => self.go(command, Trigger::Timeout),
        }
    }

    fn decide_approval(&mut self, command: &CommandId, decision: &Payload) {
        if decisions::is_question(command, self.class_of(command)) {
            return self.resume(command);
        }
        match decision.decode::<ApprovalOutcome>() {
            // The end of the call or of the wait follows, and says so.
            Ok(ApprovalOutcome::Rejected(_) | ApprovalOutcome::Expired) => {}
            Ok(ApprovalOutcome::ApprovedWith(edited)) => {
                self.step_mut(command, EffectClass::Human).edited = Some(edited);
                self.resume(command);
            }
            Ok(ApprovalOutcome::Approved) | Err(_) => self.resume(command),
        }
    }

    pub(super) fn apply_to_run(&mut self, event: &Event, now: EventTime) {
        let moved = match event {
            Event::RunCreated(e) => {
                self.lifecycle = Lifecycle::new(now);
                self.workflow.clone_from(&e.workflow);
                self.version = e.version;
                self.input = Some(e.input.clone());
                Some(Trigger::Start)
            }
            Event::RunWaiting(_) => Some(Trigger::Suspend),
            Event::RunParked(_) if self.status != Status::Waiting => Some(Trigger::Suspend),
            Event::RunRequeued(_) if self.status == Status::Waiting => Some(Trigger::Resume),
            Event::RunCompleted(_) => Some(Trigger::Succeed),
            Event::RunFailed(_) => Some(Trigger::Fail),
            Event::RunCancelled(_) | Event::RunTerminated(_) => Some(Trigger::Cancel),
            _ => None,
        };
        if let Event::RunContinued(e) = event {
            self.generation = e.generation;
            self.lifecycle.created.at = e.started_at;
        }
        if let Event::RunCompleted(e) = event {
            self.uncompensated.clone_from(&e.uncompensated);
        }
        match event {
            Event::RunParked(e) => self.parked = Some(e.clone()),
            Event::CodeAdopted(_) | Event::RunUnwinding(_) => self.parked = None,
            // The undoing of its steps goes on.
            Event::RunRequeued(_) if self.ending.is_some() => self.parked = None,
            event if event.is_terminal() => self.parked = None,
            _ => {}
        }
        let mut actor = self.worker.clone();
        match event {
            Event::RunRequeued(e) => {
                self.worker = e.worker.to_string();
                actor.clone_from(&self.worker);
            }
            Event::RunCancelled(e) => actor.clone_from(&e.actor),
            Event::RunTerminated(e) => actor.clone_from(&e.actor),
            _ => {}
        }
        if let Event::RunUnwinding(e) = event {
            self.ending = Ending::of(&e.end, now.at).or(self.ending.take());
        }
        if event.is_terminal() {
            self.ending = None;
            self.close(|_| true, &actor, now);
        }
        match RunEnd::of(event) {
            Some(RunEnd::Completed(value)) => self.result = Some(Ok(value)),
            Some(RunEnd::Failed { error, uncompensated, .. }) => {
                self.result = Some(Err(error));
                self.uncompensated = uncompensated;
            }
            Some(RunEnd::Cancelled { uncompensated, .. }) => self.uncompensated = uncompensated,
            _ => {}
        }
        if let Some(trigger) = moved {
            match self.lifecycle.go(trigger, &actor, now) {
                Ok(()) => self.status = self.lifecycle.status,
                Err(illegal) => self.illegal.push(format!("run: {illegal}")),
            }
        }
    }

    pub(super) fn step_mut(&mut self, command: &CommandId, class: EffectClass) -> &mut StepView {
        // A view that was read may say anything of its places.
        let known = self.index.get(command.as_str()).copied().filter(|place| *place < self.steps.len());
        let place = known.unwrap_or_else(|| {
            self.steps.push(StepView {
                command: command.clone(),
                class,
                status: Status::Pending,
                outcome: None,
                input: None,
                edited: None,
                result: None,
                attempts: 0,
                retry_due: None,
                last_failure: None,
                invocation: None,
                key: None,
                in_doubt: false,
                site: None,
                finished: false,
                changes: Vec::new(),
                confirmations: Vec::new(),
            });
            let place = self.steps.len() - 1;
            self.index.insert(command.as_str().to_owned(), place);
            place
        });
        &mut self.steps[place]
    }

    pub(super) fn class_of(&mut self, command: &CommandId) -> EffectClass {
        self.step_mut(command, EffectClass::Human).class
    }

    pub(super) fn go(&mut self, command: &CommandId, trigger: Trigger) {
        let step = self.step_mut(command, EffectClass::Human);
        match step.status.after(trigger) {
            Ok(status) => step.status = status,
            Err(IllegalTransition { from, .. }) if from == Status::Running && trigger == Trigger::Start => {}
            Err(illegal) => self.illegal.push(format!("{command}: {illegal}")),
        }
    }

    pub(super) fn suspend(&mut self, command: &CommandId, asked: Option<Payload>) {
        let step = self.step_mut(command, EffectClass::Human);
        if step.input.is_none() {
            step.input = asked;
        }
        if step.status == Status::Pending {
            self.go(command, Trigger::Start);
        }
        self.go(command, Trigger::Suspend);
    }

    /// Suspends a step, unless it waits already, or was cut off: then it waits anew.
    fn suspend_running(&mut self, command: &CommandId) {
        if self.step_mut(command, EffectClass::Tool).status == Status::Running {
            self.go(command, Trigger::Suspend);
        }
    }

    pub(super) fn resume(&mut self, command: &CommandId) {
        if self.step_mut(command, EffectClass::Human).status == Status::Waiting {
            self.go(command, Trigger::Resume);
        }
    }

    pub(super) fn drawn(
        &mut self,
        now: EventTime,
        command: &CommandId,
        class: EffectClass,
        value: Result<Payload, crate::vocabulary::payload::PayloadError>,
    ) {
        self.step_mut(command, class);
        self.go(command, Trigger::Start);
        self.commit(now, command, Outcome::Success, Some(Ok(value.unwrap_or_else(|_| Payload::null()))));
    }

    /// Applies a command's final outcome.
    pub(super) fn commit(
        &mut self,
        now: EventTime,
        command: &CommandId,
        outcome: Outcome,
        given: Option<Result<Payload, Payload>>,
    ) {
        let step = self.step_mut(command, EffectClass::Pure);
        let result = given.or(step.result.take()).unwrap_or(Ok(Payload::null()));
        let trigger = ending(outcome, &result);
        self.finish(now, command, outcome, result, trigger);
    }

    /// Applies a command's final outcome, and the transition that it causes.
    pub(super) fn finish(
        &mut self,
        now: EventTime,
        command: &CommandId,
        outcome: Outcome,
        result: Result<Payload, Payload>,
        trigger: Trigger,
    ) {
        let step = self.step_mut(command, EffectClass::Pure);
        // The start of a read's attempt is not in the journal; its end is.
        step.attempts = step.attempts.saturating_add(u32::from(step.retry_due.take().is_some()));
        step.last_failure = None;
        step.outcome = Some(outcome);
        step.result = Some(result.clone());
        let (class, input) = (step.class, step.edited.clone().or_else(|| step.input.clone()));
        self.go(command, trigger);
        self.conclude(command, outcome, trigger, now);
        self.effects.push(EffectRecord {
            position: now.position,
            command: command.clone(),
            class,
            input,
            output: result,
            outcome,
        });
    }
}

/// The transition that an outcome causes.
fn ending(outcome: Outcome, result: &Result<Payload, Payload>) -> Trigger {
    if outcome.is_complete() {
        return Trigger::Succeed;
    }
    match result.as_ref().err().and_then(|error| error.decode::<StepError<Payload>>().ok()) {
        Some(StepError::Rejected(_) | StepError::Taken(_) | StepError::OverBudget(_)) => Trigger::Reject,
        Some(StepError::Cancelled(_)) => Trigger::Cancel,
        // An approval that no one gave in time: the call was not made.
        Some(error @ StepError::TimedOut(_)) if error.time_limit().is_some_and(|it| it.waiting.is_some()) => {
            Trigger::Cancel
        }
        _ => Trigger::Fail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_of_an_attempt_in_a_journal_is_too_high_to_be_shown() {
        for attempt in [0, 1, u32::MAX - 1, u32::MAX] {
            let command = CommandId::new("0", "look");
            let failed: Event = serde_json::from_value(serde_json::json!({ "step_retried": {
                "command": command, "attempt": attempt, "error": "no", "due": "2026-01-02T03:04:05Z",
            } }))
            .unwrap();
            let done: Event = serde_json::from_value(serde_json::json!({ "command_committed": {
                "command": command, "outcome": "success", "result": 1,
            } }))
            .unwrap();
            let view = RunView::fold(RunId::new("a").unwrap(), [failed, done]);
            assert_eq!(view.steps[0].attempts, attempt.saturating_add(2), "{attempt}");
        }
    }
}
