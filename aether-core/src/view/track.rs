//! How events move executions: the part of the fold that makes contracts and the history of their statuses.
//!
//! Promise: every execution has the transitions that its events record and no others; when a race or a run ends, what is
//! still open in it is cancelled.

use crate::inbox::decisions;
use crate::inbox::decisions::ApprovalOutcome;
use crate::journal::event::{Event, InvocationDecision};
use crate::view::execution::{CALLBACK, CLOCK, EventTime, Execution, Lifecycle, Purpose};
use crate::view::run::RunView;
use crate::vocabulary::contract::{Constraints, Status, Trigger};
use crate::vocabulary::error_text::error_text;
use crate::vocabulary::id::{CommandId, InvocationId};
use crate::vocabulary::outcome::{EffectClass, Outcome};

impl RunView {
    /// Applies the next event of a command to its executions. Outcomes come through [`RunView::conclude`].
    pub(super) fn track(&mut self, command: &CommandId, event: &Event, now: EventTime) {
        match event {
            Event::NodeStarted(e) => {
                let at = self.begin(command, 0, e.class, now);
                if let Some(execution) = self.executions.get_mut(at) {
                    execution.constraints = e.constraints.clone();
                }
                // A world-changing execution starts with its invocation; until then it may be refused.
                if !e.class.changes_world() {
                    self.start(at, now);
                }
            }
            Event::CommandEmitted(e) => {
                let at = self.begin(command, e.attempt, EffectClass::Llm, now);
                self.start(at, now);
            }
            Event::ToolInvocationStarted(e) => {
                let at = self.begin(command, e.attempt, EffectClass::Tool, now);
                if let Some(execution) = self.executions.get_mut(at) {
                    execution.key = Some(e.key.clone());
                }
                self.start(at, now);
            }
            Event::ToolInvocationRefused(_) => {
                let at = self.begin_newest(command, EffectClass::Tool, now);
                self.decided(at, "ledger");
            }
            Event::StepRetried(e) => {
                let at = self.begin(command, e.attempt, EffectClass::Read, now);
                self.fail(at, error_text(&e.error), now);
                self.begin(command, e.attempt.saturating_add(1), EffectClass::Read, now);
            }
            Event::InvocationResolved(e) => {
                let at = self.begin_newest(command, EffectClass::Tool, now);
                self.decide(at, e.decision, &e.actor, now);
            }
            Event::InvocationAbandoned(_) => {
                let at = self.begin_newest(command, EffectClass::Tool, now);
                self.end(at, Trigger::Cancel, now);
            }
            Event::TimerScheduled(_) => {
                let at = self.begin(command, 0, EffectClass::Time, now);
                self.suspend_execution(at, now);
            }
            Event::TimerFired(_) => {
                let at = self.begin(command, 0, EffectClass::Time, now);
                self.resume_execution(at, CLOCK, now);
            }
            Event::WaitStarted(_) => {
                let at = self.begin_newest(command, EffectClass::Human, now);
                self.suspend_execution(at, now);
            }
            Event::WaitCompleted(e) if e.value.is_none() => {
                let at = self.begin_newest(command, EffectClass::Human, now);
                self.transition(at, Trigger::Timeout, CLOCK, now);
            }
            Event::ApprovalRequested(_) => {
                let at = self.asked(command, now);
                self.suspend_execution(at, now);
            }
            Event::ApprovalDecided(e) => {
                let at = self.asked(command, now);
                self.decided(at, &e.actor);
                let question = decisions::is_question(command, self.class_of(command));
                match e.decision.decode::<ApprovalOutcome>() {
                    Ok(ApprovalOutcome::Rejected(_)) if !question => self.end(at, Trigger::Reject, now),
                    Ok(ApprovalOutcome::Expired) if !question => self.end(at, Trigger::Timeout, now),
                    _ => self.resume_execution(at, &e.actor, now),
                }
                if self.executions.get(at).is_some_and(|asked| asked.purpose == Purpose::Approval) {
                    self.end(at, Trigger::Succeed, now);
                }
            }
            Event::CallbackAwaited(_) => {
                let at = self.begin_newest(command, EffectClass::Tool, now);
                self.suspend_execution(at, now);
            }
            Event::CallbackReceived(_) => {
                let at = self.begin_newest(command, EffectClass::Tool, now);
                self.resume_execution(at, CALLBACK, now);
            }
            Event::RaceDecided(e) => {
                let scope = command.place().to_owned();
                let lost = |loser: &CommandId| loser.is_within(&scope) && !loser.is_within(&e.winner);
                self.close(lost, "race", now);
            }
            _ => {}
        }
    }

    /// The outcome of a command ends its newest execution.
    pub(super) fn conclude(
        &mut self,
        command: &CommandId,
        outcome: Outcome,
        trigger: Trigger,
        now: EventTime,
    ) {
        let class = self.step(command).map_or(EffectClass::Pure, |step| step.class);
        let at = self.begin_newest(command, class, now);
        if let Some(execution) = self.executions.get_mut(at) {
            execution.world_changed = outcome == Outcome::SideEffectCommitted;
        }
        self.end(at, trigger, now);
    }

    /// Cancels every open execution and step for which `lost` holds.
    pub(super) fn close(&mut self, lost: impl Fn(&CommandId) -> bool, actor: &str, now: EventTime) {
        let open: Vec<usize> = self.open.iter().copied().collect();
        for at in open {
            let Some(command) = self.executions.get(at).map(|execution| execution.command.clone()) else {
                continue;
            };
            if lost(&command) {
                self.transition(at, Trigger::Cancel, actor, now);
                if self.step(&command).is_some_and(|step| !step.status.is_terminal()) {
                    self.go(&command, Trigger::Cancel);
                }
            }
        }
    }

    /// The execution of `attempt` at `command`; made where there is none.
    fn begin(&mut self, command: &CommandId, attempt: u32, class: EffectClass, now: EventTime) -> usize {
        let id = InvocationId::new(command, attempt);
        let former = self.newest.get(command.as_str()).copied();
        let former = former.and_then(|at| self.executions.get(at).map(|execution| (at, execution)));
        let (class, constraints) = match former {
            Some((at, execution)) if execution.id == id => return at,
            Some((_, execution)) => (execution.class, execution.constraints.clone()),
            None => (class, Constraints::default()),
        };
        let at = self.contract(id, command, Purpose::Call, class, constraints, now);
        self.newest.insert(command.as_str().to_owned(), at);
        at
    }

    /// The newest execution of `command`; made where there is none.
    fn begin_newest(&mut self, command: &CommandId, class: EffectClass, now: EventTime) -> usize {
        match self.newest.get(command.as_str()) {
            Some(at) => *at,
            None => self.begin(command, 0, class, now),
        }
    }

    /// The execution that a person is asked about: a question of its own, or the approval of a step's call.
    fn asked(&mut self, command: &CommandId, now: EventTime) -> usize {
        let id = Execution::approval_id(command);
        if let Some(at) = self.newest.get(id.as_str()) {
            return *at;
        }
        let newest = self.newest.get(command.as_str()).and_then(|at| self.executions.get(*at));
        if newest.is_none_or(|execution| execution.class == EffectClass::Human) {
            return self.begin_newest(command, EffectClass::Human, now);
        }
        let (purpose, class) = (Purpose::Approval, EffectClass::Human);
        let at = self.contract(id.clone(), command, purpose, class, Constraints::default(), now);
        self.newest.insert(id.as_str().to_owned(), at);
        at
    }

    fn contract(
        &mut self,
        id: InvocationId,
        command: &CommandId,
        purpose: Purpose,
        class: EffectClass,
        constraints: Constraints,
        now: EventTime,
    ) -> usize {
        let at = self.executions.len();
        self.executions.push(Execution {
            id,
            command: command.clone(),
            purpose,
            class,
            constraints,
            key: None,
            lifecycle: Lifecycle::new(now),
            world_changed: false,
            error: None,
            decided_by: None,
        });
        self.open.insert(at);
        at
    }

    fn status_of(&self, at: usize) -> Option<Status> {
        self.executions.get(at).map(|execution| execution.lifecycle.status)
    }

    fn decided(&mut self, at: usize, actor: &str) {
        if let Some(execution) = self.executions.get_mut(at) {
            execution.decided_by = Some(actor.to_owned());
        }
    }

    /// One transition of one execution.
    fn transition(&mut self, at: usize, trigger: Trigger, actor: &str, now: EventTime) {
        let Some(execution) = self.executions.get_mut(at) else { return };
        match execution.lifecycle.go(trigger, actor, now) {
            Ok(()) if execution.lifecycle.status.is_terminal() => {
                self.open.remove(&at);
            }
            Ok(()) => {}
            Err(illegal) => self.illegal.push(format!("{}: {illegal}", execution.id)),
        }
    }

    fn start(&mut self, at: usize, now: EventTime) {
        if self.status_of(at) == Some(Status::Pending) {
            let worker = self.worker.clone();
            self.transition(at, Trigger::Start, &worker, now);
        }
    }

    fn suspend_execution(&mut self, at: usize, now: EventTime) {
        self.start(at, now);
        if self.status_of(at) == Some(Status::Running) {
            let worker = self.worker.clone();
            self.transition(at, Trigger::Suspend, &worker, now);
        }
    }

    fn resume_execution(&mut self, at: usize, actor: &str, now: EventTime) {
        if self.status_of(at) == Some(Status::Waiting) {
            self.transition(at, Trigger::Resume, actor, now);
        }
    }

    /// A definite failure of one attempt.
    fn fail(&mut self, at: usize, why: String, now: EventTime) {
        if let Some(execution) = self.executions.get_mut(at) {
            execution.error = Some(why);
        }
        self.end(at, Trigger::Fail, now);
    }

    /// A decision about an unknown outcome.
    fn decide(&mut self, at: usize, decision: InvocationDecision, actor: &str, now: EventTime) {
        if decision == InvocationDecision::Ask {
            return self.suspend_execution(at, now);
        }
        self.resume_execution(at, actor, now);
        if decision != InvocationDecision::Retry {
            self.decided(at, actor);
        }
        if decision == InvocationDecision::DidNotHappen {
            self.fail(at, "it did not happen".into(), now);
        }
    }

    /// The last transition of an execution; its actor is who decided about it. One that has ended is unchanged.
    fn end(&mut self, at: usize, trigger: Trigger, now: EventTime) {
        let Some(execution) = self.executions.get(at) else { return };
        let actor = execution.decided_by.clone().unwrap_or_else(|| self.worker.clone());
        match (execution.lifecycle.status, trigger) {
            (status, _) if status.is_terminal() => return,
            (Status::Pending, Trigger::Succeed | Trigger::Fail) => self.start(at, now),
            (Status::Waiting, Trigger::Succeed | Trigger::Fail) => self.resume_execution(at, &actor, now),
            _ => {}
        }
        self.transition(at, trigger, &actor, now);
    }
}
