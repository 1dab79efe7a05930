//! Makes a schedule happen: whatever passes a point tells it, and is held, or ends the process, as the plan says.
//!
//! Promise: it decides nothing itself. What passed is counted, timed and digested, so that two simulations can be compared.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aether_core::environment::Environment as _;
use aether_core::id::{CommandId, InvocationId, RunId};
use jiff::Timestamp;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::plan::{Arrival, Decision, Message, MessageKind, Plan, Point, PointKind};
use super::survey::Survey;
use crate::sim::world::SimEnvironment;
use crate::stores::crash::CrashStore;

/// How long after its usual time a message comes whose point is never passed.
const AT_LATEST: Duration = Duration::from_secs(3 * 3600);

/// A schedule while it happens, over all processes of a simulation.
#[derive(Debug)]
pub(crate) struct Pace {
    plan: Plan,
    begun: Timestamp,
    /// Whether what passes is written down for people.
    told: bool,
    state: Mutex<State>,
    passed: Notify,
    shut_down: Notify,
}

/// A message that its receiver has acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Acknowledged {
    /// A signal: its name and id.
    Signal(String, String),
    /// A decision or an answer.
    Reply(RunId, CommandId),
    /// What became of a call in doubt.
    Resolution(RunId, InvocationId),
}

#[derive(Debug, Default)]
struct State {
    survey: Survey,
    store: Option<Arc<CrashStore>>,
    world: Option<SimEnvironment>,
    frozen_until: Option<Instant>,
    shutting_down: bool,
    /// The engine has said that it is shut down.
    closed: bool,
    /// The run has ended; what follows is no longer part of the schedule.
    over: bool,
    digest: Digest,
    lines: Vec<String>,
    story: Vec<String>,
    told: BTreeMap<String, String>,
    asked: BTreeMap<(RunId, CommandId), u32>,
    acknowledged: Vec<Acknowledged>,
    broken: Option<String>,
    shutdowns: usize,
}

/// A digest of what happened (FNV-1a).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest(pub(crate) u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }
}

impl Digest {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        }
    }
}

impl Pace {
    pub(crate) fn new(plan: Plan, begun: Timestamp, told: bool) -> Self {
        let (passed, shut_down) = (Notify::new(), Notify::new());
        Self { plan, begun, told, state: Mutex::default(), passed, shut_down }
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to pace the next process.
    pub(crate) fn begin_process(&self, store: &Arc<CrashStore>, world: &SimEnvironment) {
        let mut state = self.state();
        state.store = Some(Arc::clone(store));
        state.world = Some(world.clone());
        (state.frozen_until, state.shutting_down, state.closed) = (None, false, false);
        state.digest.add(b"process");
        if self.told {
            let line = format!("{:>12?} a process begins", state.at(self.begun));
            state.tell(line, true);
        }
    }

    /// Something comes to a point, which `what` names. Returns when it may go on.
    pub(crate) async fn pass(&self, kind: PointKind, what: impl FnOnce() -> String) {
        let Some((decisions, frozen)) = self.reach(kind, what) else { return };
        if decisions.is_empty() && !frozen {
            return;
        }
        for decision in decisions {
            match decision {
                Decision::Yield(times) => {
                    for _ in 0..times {
                        tokio::task::yield_now().await;
                    }
                }
                Decision::Stall(wait) => tokio::time::sleep(wait).await,
                Decision::Freeze(wait) => self.freeze(wait),
                Decision::Crash => return self.crash(),
                Decision::ShutDown => self.ask_to_shut_down(),
            }
        }
        loop {
            let thaws = self.state().frozen_until;
            match thaws {
                Some(thaws) if thaws > Instant::now() => tokio::time::sleep_until(thaws).await,
                _ => return,
            }
        }
    }

    /// Counts a point, and what the plan says about it. `None` where the schedule is over.
    fn reach(&self, kind: PointKind, what: impl FnOnce() -> String) -> Option<(Vec<Decision>, bool)> {
        let mut state = self.state();
        if state.over {
            return None;
        }
        let count = state.survey.points.get_mut(kind as usize)?;
        *count += 1;
        let point = Point { kind, number: *count };
        let at = state.at(self.begun);
        state.digest.add(&[kind as u8]);
        state.digest.add(&at.as_nanos().to_le_bytes());
        let decisions: Vec<Decision> = self.plan.decisions(point).collect();
        if self.told {
            let what = what();
            let is_round = decisions.is_empty() && is_round(kind, &what);
            let mut line = format!("{at:>12?} {point}: {what}");
            for decision in &decisions {
                let _writing_to_a_string = write!(line, " {decision:?}");
            }
            state.tell(line, !is_round);
            state.told.insert(point.to_string(), what);
        }
        if kind == PointKind::Body && state.closed {
            state.broken = Some(format!("body call {} began after the engine was shut down", point.number));
        }
        let frozen = state.frozen_until.is_some();
        drop(state);
        self.passed.notify_waiters();
        Some((decisions, frozen))
    }

    fn freeze(&self, wait: Duration) {
        let Some(until) = Instant::now().checked_add(wait) else { return };
        let mut state = self.state();
        state.frozen_until = Some(state.frozen_until.map_or(until, |before| before.max(until)));
    }

    fn crash(&self) {
        let store = self.state().store.clone();
        if let Some(store) = store {
            store.crash();
        }
    }

    fn ask_to_shut_down(&self) {
        self.state().shutting_down = true;
        self.shut_down.notify_one();
    }

    /// Waits until the process is asked to shut down.
    pub(crate) async fn shutdown_asked(&self) {
        while !self.state().shutting_down {
            self.shut_down.notified().await;
        }
    }

    /// The engine has said that it is shut down: from here on no body may begin.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.shutdowns += 1;
    }

    /// The run has ended.
    pub(crate) fn end(&self) {
        self.state().over = true;
    }

    /// Notes a wait of the engine for a time.
    pub(super) fn waits_until(&self, until: Timestamp) {
        let mut state = self.state();
        let at = state.at(self.begun);
        let due = Duration::try_from(until.duration_since(self.begun)).unwrap_or_default();
        if due > at && !state.over {
            state.survey.dues.insert(due);
            state.survey.spans.insert(due - at);
        }
    }

    fn has_passed(&self, point: Point) -> bool {
        self.state().survey.points.get(point.kind as usize).is_some_and(|count| *count >= point.number)
    }

    /// The number of a reply, in the order in which they are asked for; the same for the next process.
    pub(crate) fn reply_number(&self, run: &RunId, command: &CommandId) -> u32 {
        let mut state = self.state();
        let next = u32::try_from(state.asked.len()).unwrap_or(u32::MAX).saturating_add(1);
        *state.asked.entry((run.clone(), command.clone())).or_insert(next)
    }

    /// Waits until a message is to come that usually comes `usual` after now.
    pub(crate) async fn arrives(&self, message: Message, what: &str, usual: Duration) {
        self.note_message(message, what);
        match self.plan.arrival(message) {
            None => tokio::time::sleep(usual).await,
            Some(Arrival::After(wait)) => {
                let since = match message.kind {
                    MessageKind::Signal | MessageKind::Cancel => self.state().at(self.begun),
                    MessageKind::Reply | MessageKind::Report => Duration::ZERO,
                };
                tokio::time::sleep(wait.saturating_sub(since)).await;
            }
            Some(Arrival::At(point)) => {
                let latest = tokio::time::sleep(usual.saturating_add(AT_LATEST));
                tokio::select! {
                    biased;
                    () = self.passes(point) => {}
                    () = latest => {}
                }
            }
        }
        let mut state = self.state();
        let at = state.at(self.begun);
        state.digest.add(&[message.kind as u8, 0xFF]);
        if self.told {
            state.tell(format!("{at:>12?} {message}: {what}"), true);
        }
    }

    async fn passes(&self, point: Point) {
        loop {
            let passed = self.passed.notified();
            if self.has_passed(point) {
                return;
            }
            passed.await;
        }
    }

    fn note_message(&self, message: Message, what: &str) {
        let mut state = self.state();
        if let Some(count) = state.survey.messages.get_mut(message.kind as usize) {
            *count = (*count).max(message.number);
        }
        if self.told {
            state.told.insert(message.to_string(), what.to_owned());
        }
    }

    /// Notes that whoever sent a message was told that it is durable.
    pub(crate) fn acknowledge(&self, message: Acknowledged) {
        let mut state = self.state();
        if !state.acknowledged.contains(&message) {
            state.acknowledged.push(message);
        }
    }

    /// What came of it.
    pub(crate) fn record(&self) -> PaceRecord {
        let state = self.state();
        PaceRecord {
            survey: state.survey.clone(),
            digest: state.digest,
            lines: state.lines.clone(),
            story: state.story.clone(),
            told: state.told.clone(),
            acknowledged: state.acknowledged.clone(),
            broken: state.broken.clone(),
            shutdowns: state.shutdowns,
        }
    }
}

/// What came of a schedule.
#[derive(Clone, Debug, Default)]
pub(crate) struct PaceRecord {
    pub(crate) survey: Survey,
    pub(crate) digest: Digest,
    /// What passed, line by line, if it was to be written down.
    pub(crate) lines: Vec<String>,
    /// The same without what the engine does in rounds.
    pub(crate) story: Vec<String>,
    /// What each point and message was.
    pub(crate) told: BTreeMap<String, String>,
    pub(crate) acknowledged: Vec<Acknowledged>,
    pub(crate) broken: Option<String>,
    pub(crate) shutdowns: usize,
}

/// Whether an engine does this again and again, also where nothing happens.
fn is_round(kind: PointKind, what: &str) -> bool {
    match kind {
        PointKind::Body | PointKind::Return => false,
        PointKind::Write => !(what.starts_with("append") || what == "create" || what == "message"),
        PointKind::Ack | PointKind::Read | PointKind::Found | PointKind::Timer => true,
    }
}

impl State {
    fn tell(&mut self, line: String, of_story: bool) {
        if of_story {
            self.story.push(line.clone());
        }
        self.lines.push(line);
    }

    /// Virtual time since the beginning.
    fn at(&self, begun: Timestamp) -> Duration {
        let now = self.world.as_ref().map_or(begun, |world| world.now());
        Duration::try_from(now.duration_since(begun)).unwrap_or_default()
    }
}
