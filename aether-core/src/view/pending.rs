//! What a run waits for: approvals, questions, callbacks, signals, timers, children, retries. From the list of open
//! waits, or folded from a journal.
//!
//! Promise: reading executes nothing; what is listed as open was open when the journal's last event was written.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::inbox::replies::CALLBACK;
use crate::journal::event::{Event, InvocationDecision};
use crate::journal::obligations::{Obligations, begins_fork, undoes_another};
use crate::sched::mutated;
use crate::store::api::Store;
use crate::store::error::StoreError;
use crate::store::open_waits::{Open, OpenWaits, WaitDetail};
use crate::store::records::RunRecord;
use crate::store::waits::{ListedWait, WaitPlace};
use crate::vocabulary::id::{CommandId, InvocationId, RunId};
use crate::vocabulary::outcome::EffectClass;
use crate::vocabulary::payload::{Payload, hex};

pub use crate::vocabulary::waiting::Waiting;

/// One open wait of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Pending {
    /// The run that waits.
    pub run: RunId,
    /// Name of its workflow.
    pub workflow: String,
    /// Whether the run is parked: a reply is kept, and takes effect when code that the run fits resumes it.
    pub parked: bool,
    /// The command that waits. It may change with the workflow's code; the name stays.
    pub command: CommandId,
    /// What it waits for.
    pub waiting: Waiting,
    /// Its name: of the signal; of the step, for approvals of its call, callbacks and retries; of the matter, for
    /// `cx.approval`; for a question the name that the workflow gave it, or its text.
    pub name: String,
    /// What is shown to the person who decides, where there is one.
    pub question: Option<Payload>,
    /// The arguments of the call in question, where there is one.
    pub args: Option<Payload>,
    /// What kind of contact with the world the command is.
    pub class: EffectClass,
    /// The invocation in question, for callbacks and resolutions.
    pub invocation: Option<InvocationId>,
    /// The child run, where its end is waited for.
    pub child: Option<RunId>,
    /// The next attempt, from 0, and the error of the last one, for retries.
    pub retry: Option<(u32, Payload)>,
    /// When the wait began.
    pub since: Timestamp,
    /// When the wait expires, the timer fires, or the next attempt is due. An attempt whose time has come is being made.
    pub until: Option<Timestamp>,
    /// Where in the source it is awaited, `file:line`. Waits that an older build began do not say.
    pub site: Option<String>,
    /// The newest replies that did not fit, oldest first, at most sixteen: the actor, and why it was refused. The journal has
    /// all of them.
    pub refused: Vec<(String, String)>,
}

/// A page of the open waits of all runs.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingPage {
    /// The waits, in the order in which they were opened.
    pub waits: Vec<Pending>,
    /// Waits of this page that are open and cannot be read, for want of a key or because a journal is damaged. They are
    /// counted in its limit.
    pub unreadable: Vec<UnreadableWait>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<WaitPlace>,
}

/// A wait that is open and cannot be read: what stands in the open of it, and why there is no more.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct UnreadableWait {
    /// The run that waits.
    pub run: RunId,
    /// Name of its workflow.
    pub workflow: String,
    /// The command that waits. `None` where only the journal says for what the run waits, and cannot be read.
    pub command: Option<CommandId>,
    /// What it waits for, where that is known.
    pub waiting: Option<Waiting>,
    /// Since when, where that is known.
    pub since: Option<Timestamp>,
    /// Why it cannot be read, and what helps.
    pub error: StoreError,
}

impl UnreadableWait {
    /// A row of the list.
    pub(crate) fn listed(row: &ListedWait, error: StoreError) -> Self {
        Self {
            run: row.run.clone(),
            workflow: row.workflow.clone(),
            command: Some(row.wait.command.clone()),
            waiting: Some(row.wait.waiting),
            since: Some(row.wait.since),
            error,
        }
    }

    /// A run whose waits are in its journal alone.
    pub(crate) fn unlisted(record: RunRecord, error: StoreError) -> Self {
        let RunRecord { id: run, workflow, .. } = record;
        Self { run, workflow, command: None, waiting: None, since: None, error }
    }
}

impl Pending {
    /// What ties a reply to this very wait, for a form that is loaded now and sent later: a short text that no other wait
    /// has, also not one of the same name with other arguments. See [`WaitRef::shown`](crate::view::wait_ref::WaitRef::shown).
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::id::RunId;
    /// # use aether_core::view::WaitRef;
    /// # async fn example(engine: &Engine, run: &RunId) -> Result<(), Box<dyn std::error::Error>> {
    /// // The form holds both texts ..
    /// let wait = engine.pending(run).await?.remove(0);
    /// let (name, shown) = (wait.name.clone(), wait.shown());
    /// // .. and sends them back.
    /// engine.approve(run, WaitRef::from(name).shown(shown), "ann@example.com").await?;
    /// # Ok(()) }
    /// ```
    pub fn shown(&self) -> String {
        let mut hash = Sha256::new();
        let texts = [self.question.as_ref(), self.args.as_ref()].map(|text| text.map_or("", Payload::as_str));
        let since = self.since.as_microsecond().to_string();
        for part in [self.command.as_str(), self.waiting.as_str(), &since, texts[0], texts[1]] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        let digest = hex(&hash.finalize());
        digest.get(..24).unwrap_or(&digest).to_owned()
    }

    fn of(run: &RunId, workflow: &str, parked: bool, open: &Open) -> Self {
        let Open { command, waiting, name, since, until, site, detail } = open.clone();
        let WaitDetail { class, question, args, invocation, child, attempt, error, refused, cut: _ } = detail;
        Self {
            run: run.clone(),
            workflow: workflow.to_owned(),
            parked,
            command,
            waiting,
            name,
            question,
            args,
            class,
            invocation,
            child,
            retry: attempt.zip(error),
            since,
            until,
            site,
            refused,
        }
    }

    /// A row of the list; `None` where the list does not hold all of it, and the journal does.
    pub(crate) fn listed(row: &ListedWait) -> Option<Self> {
        let detail: WaitDetail = row.wait.detail.decode().ok()?;
        let wait = &row.wait;
        let open = Open {
            command: wait.command.clone(),
            waiting: wait.waiting,
            name: wait.name.clone(),
            since: wait.since,
            until: wait.until,
            site: wait.site.clone(),
            detail,
        };
        (!open.detail.cut).then(|| Self::of(&row.run, &row.workflow, row.parked, &open))
    }
}

/// What a reply to one command must know of it.
#[derive(Clone, Debug)]
pub(crate) struct WaitState {
    /// Its newest wait for a reply, open or not.
    pub(crate) newest: Option<(Waiting, String)>,
    /// Who decided, where it was decided.
    pub(crate) decided: Option<String>,
    /// Who decided or reported last about an invocation, and who decided about a resource that has changed.
    pub(crate) settled: BTreeMap<Waiting, String>,
    /// Number of the round of replies it is in; see [`crate::journal::history::CommandDetails::round`].
    pub(crate) round: u32,
    pub(crate) handed_over: bool,
    /// The newest invocation, and whether its outcome is open.
    pub(crate) invocation: Option<(InvocationId, bool)>,
    /// The newest outcome was reported by a callback.
    pub(crate) called_back: bool,
}

/// The wait states of all commands of one run.
#[derive(Clone, Debug)]
pub(crate) struct WaitStates {
    run: RunId,
    workflow: String,
    parked: bool,
    pub(crate) seed: String,
    pub(crate) commands: BTreeMap<CommandId, WaitState>,
    open: OpenWaits,
}

impl WaitStates {
    /// Folds a whole journal.
    ///
    /// # Errors
    /// [`StoreError`] when a frame is unreadable, or a value of the effect store is missing or was altered.
    pub(crate) async fn load(store: &dyn Store, run: &RunId) -> Result<Self, StoreError> {
        let (workflow, seed) = (String::new(), String::new());
        let (commands, open) = (BTreeMap::new(), OpenWaits::default());
        let parked = store.run(run).await?.is_some_and(|record| record.parked);
        let mut states = Self { run: run.clone(), workflow, parked, seed, commands, open };
        for frame in store.load(run, 0).await? {
            let events = crate::store::read::events(store, run, std::slice::from_ref(&frame)).await?;
            let _the_sum_counts = states.open.append(frame.at, &events);
            events.into_iter().for_each(|event| states.apply(event));
        }
        Ok(states)
    }

    /// The open waits, oldest first.
    pub(crate) fn pending(&self) -> Vec<Pending> {
        let mut open: Vec<_> = self.open.iter().map(|open| self.shown(open)).collect();
        open.sort_by_key(|pending| pending.since);
        open
    }

    /// The open wait of a command.
    pub(crate) fn open(&self, command: &CommandId) -> Option<Pending> {
        self.open.of(command).map(|open| self.shown(open))
    }

    fn shown(&self, open: &Open) -> Pending {
        Pending::of(&self.run, &self.workflow, self.parked, open)
    }

    fn apply(&mut self, event: Event) {
        if let Event::RunCreated(e) = &event {
            (self.workflow, self.seed) = (e.workflow.clone(), e.seed.clone());
        }
        if let Event::RunContinued(_) = &event {
            // Until somebody goes on with them, only this event says what earlier generations began to undo.
            Obligations::fold([&event]).all_begun_before().into_iter().for_each(|begun| self.apply(begun));
        }
        let Some(command) = event.command().cloned() else { return };
        if matches!(event, Event::NodeStarted(_)) && undoes_another(&command) {
            // Who goes on with one of those repeats all that is recorded of it.
            self.commands.remove(&command);
        }
        let state = self.commands.entry(command.clone()).or_insert_with(WaitState::new);
        state.apply(event);
        if let Some(open) = self.open.of(&command).filter(|open| open.waiting.is_for_reply()) {
            state.newest = Some((open.waiting, open.name.clone()));
        }
    }
}

impl WaitState {
    fn new() -> Self {
        Self {
            newest: None,
            decided: None,
            settled: BTreeMap::new(),
            round: 0,
            handed_over: false,
            invocation: None,
            called_back: false,
        }
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::ApprovalDecided(e) => self.decided = Some(e.actor),
            Event::WaitCompleted(_) => drop(self.decided.get_or_insert_with(|| "time limit".into())),
            Event::AnswerRefused(_) => self.round += 1,
            Event::ToolInvocationStarted(e) => {
                self.invocation = Some((e.invocation, true));
                self.called_back = false;
            }
            Event::CallbackAwaited(_) => {
                self.round += u32::from(std::mem::replace(&mut self.handed_over, true));
            }
            Event::CallbackReceived(_) => {
                self.called_back = true;
                self.settled.insert(Waiting::Resolution, CALLBACK.into());
            }
            Event::ConfirmationDecided(e) => drop(self.settled.insert(Waiting::Confirmation, e.actor)),
            Event::InvocationResolved(e) if e.decision != InvocationDecision::Ask => {
                if e.decision != InvocationDecision::Retry {
                    self.close_invocation();
                }
                self.settled.insert(Waiting::Resolution, e.actor);
            }
            // The undoing goes on with it, and a report of it counts then.
            Event::InvocationAbandoned(e) if undoes_another(&e.command) && !begins_fork(&e.command) => {}
            Event::ToolInvocationFinished(_)
            | Event::InvocationAbandoned(_)
            | Event::StepRetried(_)
            | Event::CommandCommitted(_) => self.close_invocation(),
            _ => {}
        }
    }

    /// The round of a report while no callback is awaited: it is for the wait that comes. The one before may have used its id
    /// for the end of its time limit.
    pub(crate) fn round_of_unawaited_reports(&self) -> u32 {
        let is_after_a_wait = self.handed_over && !mutated("reports-between-waits-are-late");
        self.round.saturating_add(u32::from(is_after_a_wait))
    }

    fn close_invocation(&mut self) {
        self.invocation.iter_mut().for_each(|(_, open)| *open = false);
    }
}
