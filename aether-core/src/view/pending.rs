//! What waits for a person or another system: approvals, questions, callbacks, and invocations in doubt. Folded from a
//! journal.
//!
//! Promise: reading executes nothing; what is listed as open was open when the journal's last event was written.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::inbox::decisions::is_question;
use crate::journal::event::{Event, InvocationDecision};
use crate::store::api::Store;
use crate::store::error::StoreError;
use crate::vocabulary::id::{CommandId, InvocationId, RunId};
use crate::vocabulary::outcome::EffectClass;
use crate::vocabulary::payload::Payload;

/// What kind of reply a command waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Waiting {
    /// Consent to a step's call, or a decision that a workflow asked for: `Engine::approve` and `Engine::reject`.
    Approval,
    /// An answer to a question: `Engine::answer`.
    Question,
    /// A report of an outcome: `Engine::complete_callback` and `Engine::fail_callback`.
    Callback,
    /// A decision about an invocation in doubt: `Engine::resolve`.
    Resolution,
    /// A decision about a resource that changed since the run changed it: `Engine::confirm`. The question names it.
    Confirmation,
}

impl std::fmt::Display for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Approval => "an approval (`approve`, `reject`)",
            Self::Question => "an answer (`answer`)",
            Self::Callback => "a callback (`complete_callback`, `fail_callback`)",
            Self::Resolution => "a resolution (`resolve`)",
            Self::Confirmation => "a confirmation (`confirm`)",
        })
    }
}

/// One wait for a person or another system.
#[derive(Clone, Debug, PartialEq)]
pub struct Pending {
    /// The run that waits.
    pub run: RunId,
    /// Name of its workflow.
    pub workflow: String,
    /// The command that waits.
    pub command: CommandId,
    /// The kind of reply it waits for.
    pub waiting: Waiting,
    /// What is shown to the person who decides, where there is one.
    pub question: Option<Payload>,
    /// The arguments of the call in question, where there is one.
    pub args: Option<Payload>,
    /// What kind of contact with the world the command is.
    pub class: EffectClass,
    /// The invocation in question, for callbacks and resolutions.
    pub invocation: Option<InvocationId>,
    /// When the wait began.
    pub since: Timestamp,
    /// When the wait expires, where it has a limit.
    pub until: Option<Timestamp>,
    /// Replies that did not fit, oldest first: the actor, and why it was refused.
    pub refused: Vec<(String, String)>,
}

/// What a reply to one command must know of it.
#[derive(Clone, Debug)]
pub(crate) struct WaitState {
    pub(crate) open: Option<Pending>,
    /// Who decided, where it was decided.
    pub(crate) decided: Option<String>,
    /// Who decided last about an invocation in doubt, and about a resource that has changed.
    pub(crate) settled: BTreeMap<Waiting, String>,
    /// Number of the round of replies it is in; see [`crate::journal::history::CommandRecord::round`].
    pub(crate) round: u32,
    handed_over: bool,
    /// The newest invocation, and whether its outcome is open.
    pub(crate) invocation: Option<(InvocationId, bool)>,
    /// The newest outcome was reported by a callback.
    pub(crate) called_back: bool,
    class: EffectClass,
    args: Option<Payload>,
}

/// The wait states of all commands of one run.
#[derive(Clone, Debug)]
pub(crate) struct WaitStates {
    run: RunId,
    workflow: String,
    pub(crate) seed: String,
    pub(crate) commands: BTreeMap<CommandId, WaitState>,
}

impl WaitStates {
    /// Folds a whole journal.
    ///
    /// # Errors
    /// [`StoreError`] when a frame is unreadable, or a value of the effect store is missing or was altered.
    pub(crate) async fn load(store: &dyn Store, run: &RunId) -> Result<Self, StoreError> {
        let (workflow, seed) = (String::new(), String::new());
        let mut states = Self { run: run.clone(), workflow, seed, commands: BTreeMap::new() };
        for frame in store.load(run, 0).await? {
            for event in crate::store::read::events(store, run, std::slice::from_ref(&frame)).await? {
                states.apply(frame.at, event);
            }
        }
        Ok(states)
    }

    /// The open waits, oldest first.
    pub(crate) fn into_open(self) -> Vec<Pending> {
        let mut open: Vec<_> = self.commands.into_values().filter_map(|state| state.open).collect();
        open.sort_by_key(|pending| pending.since);
        open
    }

    fn apply(&mut self, at: Timestamp, event: Event) {
        match &event {
            Event::RunCreated(e) => {
                (self.workflow, self.seed) = (e.workflow.clone(), e.seed.clone());
                return;
            }
            // The losers of a race no longer wait.
            Event::RaceDecided(e) => {
                let lost = |id: &CommandId| id.is_within(e.command.place()) && !id.is_within(&e.winner);
                self.commands.iter_mut().filter(|(id, _)| lost(id)).for_each(|(_, c)| c.open = None);
                return;
            }
            event if event.is_terminal() => {
                self.commands.values_mut().for_each(|state| state.open = None);
                return;
            }
            _ => {}
        }
        let Some(command) = event.command().cloned() else { return };
        let about = Pending {
            run: self.run.clone(),
            workflow: self.workflow.clone(),
            command: command.clone(),
            waiting: Waiting::Question,
            question: None,
            args: None,
            class: EffectClass::Human,
            invocation: None,
            since: at,
            until: None,
            refused: Vec::new(),
        };
        self.commands.entry(command).or_insert_with(WaitState::new).apply(event, about);
    }
}

impl WaitState {
    fn new() -> Self {
        Self {
            open: None,
            decided: None,
            settled: BTreeMap::new(),
            round: 0,
            handed_over: false,
            invocation: None,
            called_back: false,
            class: EffectClass::Human,
            args: None,
        }
    }

    fn apply(&mut self, event: Event, about: Pending) {
        let about = Pending { class: self.class, args: self.args.clone(), ..about };
        match event {
            Event::NodeStarted(e) => {
                self.class = e.class;
                self.args = e.input.or(self.args.take());
            }
            Event::CommandEmitted(e) => self.args = e.input.or(self.args.take()),
            Event::ApprovalRequested(e) => {
                let question = is_question(&e.command, self.class);
                let waiting = if question { Waiting::Question } else { Waiting::Approval };
                self.open = Some(Pending { waiting, question: Some(e.request), until: e.until, ..about });
            }
            Event::ApprovalDecided(e) => {
                self.open = None;
                self.decided = Some(e.actor);
            }
            Event::WaitCompleted(_) => {
                self.open = None;
                self.decided.get_or_insert_with(|| "time limit".into());
            }
            Event::AnswerRefused(e) => {
                self.round += 1;
                self.open.iter_mut().for_each(|open| open.refused.push((e.actor.clone(), e.reason.clone())));
            }
            Event::ToolInvocationStarted(e) => {
                self.invocation = Some((e.invocation, true));
                self.called_back = false;
            }
            Event::CallbackAwaited(e) => {
                self.round += u32::from(std::mem::replace(&mut self.handed_over, true));
                let invocation = Some(e.invocation);
                self.open = Some(Pending { waiting: Waiting::Callback, invocation, until: e.until, ..about });
            }
            Event::CallbackReceived(_) => (self.open, self.called_back) = (None, true),
            Event::StateConfirmed(e) if e.asks => {
                let question = Payload::encode(&e).ok();
                self.open = Some(Pending { waiting: Waiting::Confirmation, question, ..about });
            }
            Event::StateConfirmed(_) => self.open = None,
            Event::ConfirmationDecided(e) => {
                self.open = None;
                self.settled.insert(Waiting::Confirmation, e.actor);
            }
            Event::InvocationResolved(e) if e.decision == InvocationDecision::Ask => {
                let invocation = Some(e.invocation);
                self.open = Some(Pending { waiting: Waiting::Resolution, invocation, ..about });
            }
            Event::InvocationResolved(e) => {
                self.open = None;
                if e.decision != InvocationDecision::Retry {
                    self.close_invocation();
                }
                self.settled.insert(Waiting::Resolution, e.actor);
            }
            Event::ToolInvocationFinished(_)
            | Event::InvocationAbandoned(_)
            | Event::StepRetried(_)
            | Event::CommandCommitted(_) => {
                self.open = None;
                self.close_invocation();
            }
            _ => {}
        }
    }

    fn close_invocation(&mut self) {
        self.invocation.iter_mut().for_each(|(_, open)| *open = false);
    }
}
