//! The fold from events to open waits: the one place that knows which event opens a wait and which closes it.
//!
//! Promise: pure. The changes that it makes of each append add up to what it makes of the whole journal, so that a list
//! that is kept append by append is the list that a reader of the journal would make.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::journal::event::{Event, InvocationDecision};
use crate::journal::frame::StoredFrame;
use crate::sched::HashMap;
use crate::store::api::Store;
use crate::store::error::StoreError;
use crate::store::waits::{OpenWait, WaitChange};
use crate::vocabulary::id::{CommandId, InvocationId, RunId};
use crate::vocabulary::outcome::EffectClass;
use crate::vocabulary::payload::Payload;
use crate::vocabulary::waiting::Waiting;

/// Name of the command that `cx.approval` issues.
pub(crate) const APPROVAL: &str = crate::journal::history::record::APPROVAL;
/// Name of the command that waits for a child that was started before.
const CHILD_RESULT: &str = "child_result";
/// Questions and arguments of more bytes are not repeated in the list; the journal has them.
const LARGE: usize = 16 << 10;

/// How many of the newest refused replies a wait keeps. Each of them writes the row again.
const REFUSED: usize = 16;

/// What the list knows of a wait beside the columns of its row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct WaitDetail {
    pub(crate) class: EffectClass,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) question: Option<Payload>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) args: Option<Payload>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) invocation: Option<InvocationId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) child: Option<RunId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) attempt: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Payload>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) refused: Vec<(String, String)>,
    /// A value is too large for the list: the journal has it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) cut: bool,
}

/// One open wait while it is folded.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Open {
    pub(crate) command: CommandId,
    pub(crate) waiting: Waiting,
    pub(crate) name: String,
    pub(crate) since: Timestamp,
    pub(crate) until: Option<Timestamp>,
    pub(crate) site: Option<String>,
    pub(crate) detail: WaitDetail,
}

/// What is known of a command that has not finished.
#[derive(Clone, Debug)]
struct About {
    class: EffectClass,
    site: Option<String>,
    args: Option<Payload>,
    /// It changed a resource, so that it may wait for a confirmation after its end.
    changed: bool,
}

/// The open waits of one run, folded from its journal.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenWaits {
    about: HashMap<CommandId, About>,
    open: BTreeMap<CommandId, Open>,
}

impl OpenWaits {
    /// Folds events of `frames`, in order; the first of them has the position of the first frame.
    pub(crate) fn fold<'e>(frames: &[StoredFrame], events: impl IntoIterator<Item = &'e Event>) -> Self {
        let mut waits = Self::default();
        let mut frames = frames.iter().peekable();
        let mut at = Timestamp::UNIX_EPOCH;
        let first = frames.peek().map_or(0, |frame| frame.position);
        for (position, event) in (first..).zip(events) {
            while let Some(frame) = frames.next_if(|frame| frame.position <= position) {
                at = frame.at;
            }
            let _the_sum_counts = waits.apply(at, event);
        }
        waits
    }

    /// Folds a whole journal.
    ///
    /// # Errors
    /// [`StoreError`] when a frame is unreadable, or a value of the effect store is missing or was altered.
    pub(crate) async fn load(store: &dyn Store, run: &RunId) -> Result<(u64, Self), StoreError> {
        let frames = store.load(run, 0).await?;
        let events = crate::store::read::events(store, run, &frames).await?;
        let first = frames.first().map_or(0, |frame| frame.position);
        Ok((first + events.len() as u64, Self::fold(&frames, &events)))
    }

    /// The open wait of a command.
    pub(crate) fn of(&self, command: &CommandId) -> Option<&Open> {
        self.open.get(command)
    }

    /// All open waits, in the order of their commands.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Open> {
        self.open.values()
    }

    /// All open waits as rows, oldest first.
    pub(crate) fn rows(&self) -> Vec<OpenWait> {
        let mut rows: Vec<_> = self.open.values().map(Open::row).collect();
        rows.sort_by(|a, b| (a.since, &a.command).cmp(&(b.since, &b.command)));
        rows
    }

    /// What an append of `events` changes in the list.
    pub(crate) fn append(&mut self, at: Timestamp, events: &[Event]) -> Vec<WaitChange> {
        let mut touched: Vec<(CommandId, bool)> = Vec::new();
        for event in events {
            for (command, was_open) in self.apply(at, event) {
                if touched.iter().all(|(known, _)| *known != command) {
                    touched.push((command, was_open));
                }
            }
        }
        // A wait that this append opens and closes again never was in the list.
        let change = |(command, was_open): (CommandId, bool)| match self.open.get(&command) {
            Some(open) => Some(WaitChange::Opened(Box::new(open.row()))),
            None => was_open.then_some(WaitChange::Closed(command)),
        };
        touched.into_iter().filter_map(change).collect()
    }

    /// An attempt at `command` was made whose events only the store knows: it waits for no retry any more.
    pub(crate) fn attempted(&mut self, command: &CommandId) -> Vec<WaitChange> {
        let closed = self.open.remove(command).map(|_| WaitChange::Closed(command.clone()));
        closed.into_iter().collect()
    }

    /// Takes in one event. Returns the commands whose waits changed, and whether each was open before.
    pub(crate) fn apply(&mut self, at: Timestamp, event: &Event) -> Vec<(CommandId, bool)> {
        match event {
            // The losers of a race no longer wait.
            Event::RaceDecided(e) => {
                let lost = |id: &CommandId| id.is_within(e.command.place()) && !id.is_within(&e.winner);
                return self.close(lost);
            }
            // The workflow is over; only what undoes its steps can wait from here on.
            Event::RunUnwinding(_) => return self.close(|_| true),
            // Another generation: nothing of the one before waits.
            Event::RunContinued(_) => {
                self.about.clear();
                return self.close(|_| true);
            }
            event if event.is_terminal() => return self.close(|_| true),
            _ => {}
        }
        let Some(command) = event.command() else { return Vec::new() };
        self.note(command, event);
        let was_open = self.open.contains_key(command);
        let opened = match self.step(at, command, event) {
            Step::Nothing => return Vec::new(),
            Step::Close => None,
            Step::Open(open) => Some(*open),
        };
        let changed = was_open || opened.is_some();
        match opened {
            Some(open) => drop(self.open.insert(command.clone(), open)),
            None => drop(self.open.remove(command)),
        }
        if changed { vec![(command.clone(), was_open)] } else { Vec::new() }
    }

    fn close(&mut self, which: impl Fn(&CommandId) -> bool) -> Vec<(CommandId, bool)> {
        let closed: Vec<_> = self.open.keys().filter(|id| which(id)).cloned().collect();
        closed.iter().for_each(|id| drop(self.open.remove(id)));
        closed.into_iter().map(|id| (id, true)).collect()
    }

    /// Remembers what a wait of the command would show, until the command ends.
    fn note(&mut self, command: &CommandId, event: &Event) {
        match event {
            Event::NodeStarted(e) => {
                let args = e.input.clone().or_else(|| self.about.get(command).and_then(|a| a.args.clone()));
                let about = About { class: e.class, site: e.site.clone(), args, changed: false };
                self.about.insert(command.clone(), about);
            }
            Event::CommandEmitted(e) if e.input.is_some() => {
                if let Some(about) = self.about.get_mut(command) {
                    about.args.clone_from(&e.input);
                }
            }
            Event::StateChanged(_) => {
                if let Some(about) = self.about.get_mut(command) {
                    about.changed = true;
                }
            }
            Event::NodeFinished(_) if self.about.get(command).is_some_and(|about| !about.changed) => {
                self.about.remove(command);
            }
            _ => {}
        }
    }

    /// What an event means for the wait of its command.
    fn step(&self, at: Timestamp, command: &CommandId, event: &Event) -> Step {
        let open = |waiting| self.open_at(at, command, waiting);
        match event {
            Event::NodeStarted(e) if e.class == EffectClass::Workflow && command.name() == CHILD_RESULT => {
                let child = e.input.as_ref().and_then(|child| child.decode().ok());
                open(Waiting::Child).with(|detail| (detail.child, detail.args) = (child, None))
            }
            Event::ChildStarted(e) if !e.unawaited => open(Waiting::Child)
                .with(|detail| (detail.child, detail.args) = (Some(e.child.clone()), None)),
            Event::TimerScheduled(e) => {
                Step::from(Open { until: Some(e.due), ..open(Waiting::Timer) }.at(&e.site))
            }
            Event::WaitStarted(e) => {
                let open = Open { until: e.until, name: e.name.clone(), ..open(Waiting::Signal) };
                Step::from(open.at(&e.site))
            }
            Event::ApprovalRequested(e) => {
                let class = self.class(command);
                let waiting = if class == EffectClass::Human && command.name() != APPROVAL {
                    Waiting::Question
                } else {
                    Waiting::Approval
                };
                let name = e.name.clone().unwrap_or_else(|| name_of(command, class, &e.request));
                let open = Open { until: e.until, name, ..open(waiting) }.at(&e.site);
                open.with(|detail| detail.question = Some(e.request.clone()))
            }
            Event::AnswerRefused(e) => match self.open.get(command) {
                Some(open) => open.clone().with(|detail| {
                    detail.refused.push((e.actor.clone(), e.reason.clone()));
                    let surplus = detail.refused.len().saturating_sub(REFUSED);
                    detail.refused.drain(..surplus);
                }),
                None => Step::Nothing,
            },
            Event::CallbackAwaited(e) => Open { until: e.until, ..open(Waiting::Callback) }
                .with(|detail| detail.invocation = Some(e.invocation.clone())),
            Event::StateConfirmed(e) if e.asks => {
                open(Waiting::Confirmation).with(|detail| detail.question = Payload::encode(e).ok())
            }
            Event::InvocationResolved(e) if e.decision == InvocationDecision::Ask => {
                open(Waiting::Resolution).with(|detail| detail.invocation = Some(e.invocation.clone()))
            }
            Event::StepRetried(e) => Open { until: Some(e.due), ..open(Waiting::Retry) }.with(|detail| {
                (detail.attempt, detail.error) = (Some(e.attempt.saturating_add(1)), Some(e.error.clone()));
            }),
            Event::LimitAwaited(e) => {
                let open = Open { until: Some(e.until), name: e.limit.clone(), ..open(Waiting::Limit) };
                open.with(|detail| detail.attempt = Some(e.attempt))
            }
            Event::ApprovalDecided(_)
            | Event::WaitCompleted(_)
            | Event::TimerFired(_)
            | Event::CallbackReceived(_)
            | Event::StateConfirmed(_)
            | Event::ConfirmationDecided(_)
            | Event::InvocationResolved(_)
            | Event::CommandEmitted(_)
            | Event::ToolInvocationStarted(_)
            | Event::ToolInvocationRefused(_)
            | Event::ToolInvocationFinished(_)
            | Event::TransactionFinished(_)
            | Event::TransactionRolledBack(_)
            | Event::InvocationAbandoned(_)
            | Event::CommandCommitted(_)
            | Event::NodeFinished(_) => Step::Close,
            _ => Step::Nothing,
        }
    }

    fn class(&self, command: &CommandId) -> EffectClass {
        self.about.get(command).map_or(EffectClass::Human, |about| about.class)
    }

    /// A wait of `command` that begins at `at`.
    fn open_at(&self, at: Timestamp, command: &CommandId, waiting: Waiting) -> Open {
        let about = self.about.get(command);
        Open {
            command: command.clone(),
            waiting,
            name: command.name().to_owned(),
            since: at,
            until: None,
            site: about.and_then(|about| about.site.clone()),
            detail: WaitDetail {
                class: self.class(command),
                question: None,
                args: about.and_then(|about| about.args.clone()),
                invocation: None,
                child: None,
                attempt: None,
                error: None,
                refused: Vec::new(),
                cut: false,
            },
        }
    }
}

/// What an event does to the wait of its command.
enum Step {
    Nothing,
    Close,
    Open(Box<Open>),
}

impl From<Open> for Step {
    fn from(open: Open) -> Self {
        Self::Open(Box::new(open))
    }
}

impl Open {
    fn with(mut self, change: impl FnOnce(&mut WaitDetail)) -> Step {
        change(&mut self.detail);
        self.into()
    }

    fn at(self, site: &Option<String>) -> Self {
        Self { site: site.clone().or(self.site), ..self }
    }

    /// The wait as a store keeps it.
    pub(crate) fn row(&self) -> OpenWait {
        let large = |value: &Option<Payload>| value.as_ref().is_some_and(|v| v.as_str().len() > LARGE);
        let mut detail = self.detail.clone();
        detail.cut = large(&detail.question) || large(&detail.args) || large(&detail.error);
        if detail.cut {
            (detail.question, detail.args, detail.error) = (None, None, None);
        }
        OpenWait {
            command: self.command.clone(),
            waiting: self.waiting,
            // A model may have written it. Not every store can keep U+0000 outside of JSON, and the journal has it as it is.
            name: self.name.replace('\0', "\u{FFFD}"),
            since: self.since,
            until: self.until,
            site: self.site.clone(),
            detail: Payload::encode(&detail).unwrap_or_else(|_| Payload::null()),
        }
    }
}

/// The name of what a person is asked: the step, the matter, or the question where it is a text.
fn name_of(command: &CommandId, class: EffectClass, request: &Payload) -> String {
    #[derive(Deserialize)]
    struct Matter {
        what: String,
    }
    let named = match (class, command.name()) {
        (EffectClass::Human, APPROVAL) => request.decode::<Matter>().ok().map(|matter| matter.what),
        (EffectClass::Human, _) => request.decode::<String>().ok(),
        _ => None,
    };
    named.unwrap_or_else(|| command.name().to_owned())
}

/// The open waits of a run, folded from its whole journal: what a store's list of them must say. For tests of stores.
///
/// # Errors
/// [`StoreError`] when the journal is unreadable.
pub async fn waits_in_journal(store: &dyn Store, run: &RunId) -> Result<Vec<OpenWait>, StoreError> {
    Ok(OpenWaits::load(store, run).await?.1.rows())
}
