//! One claim of one run while it is being advanced: its position in the journal, its waits, its inbox and its faults.
//!
//! Promise: appends reach the store in the order in which their events happened; after the first fault nothing more is
//! appended.

use std::collections::{BTreeMap, VecDeque};
use std::future::{Pending, pending};
use std::ops::Deref;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::OwnedRwLockReadGuard;

use crate::definition::def::WorkflowDef;
use crate::journal::generation::Generation;
use crate::journal::history::History;
use crate::journal::large_values::LargeValue;
use crate::journal::obligations::Obligations;
use crate::journal::spending::Spending;
use crate::policy::replay::Mode;
use crate::run::came_back::CameBack;
use crate::run::fault::{CommandSummary, Fault};
use crate::run::next_generation::NextGeneration;
use crate::run::shared::EngineShared;
use crate::run::undoing::{Deciding, Undoing};
use crate::run::won::WonRace;
use crate::sched::{AtomicU64, AtomicWaker, HashMap, Mutex, Notify, OnceLock, SharedLock, mutated};
use crate::step::body::{BodyError, Undo};
use crate::step::cancellation::Cancellation;
use crate::store::ack::DurableWatermark;
use crate::store::append::StoredEffect;
use crate::store::birth::Birth;
use crate::store::ledger::{LedgerStatus, LedgerUpdate};
use crate::store::open_waits::OpenWaits;
use crate::store::records::Message;
use crate::stream::execution::OpenCommands;
use crate::vocabulary::code::RunCode;
use crate::vocabulary::failure::Failure;
use crate::vocabulary::id::{CodeId, CommandId, Epoch, IdempotencyKey, InvocationId, Position, RunId};
use crate::vocabulary::payload::Payload;
use crate::vocabulary::trace::Trace;

/// One claim of one run: the state that the run's own task and the engine's tasks share.
///
/// The lock on `state` is never held across an `await`.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) id: RunId,
    pub(crate) def: &'static WorkflowDef,
    pub(crate) epoch: Epoch,
    pub(crate) mode: Mode,
    pub(crate) seed: Arc<str>,
    /// The trace that it belongs to.
    pub(crate) trace: Trace,
    pub(crate) shared: Arc<EngineShared>,
    pub(super) state: Mutex<State>,
    pub(super) watermark: Arc<DurableWatermark>,
    /// The first fault; set once.
    pub(super) fault: OnceLock<Fault>,
    pub(super) permanent_failure: OnceLock<Failure>,
    /// Which generation of the run this is.
    pub(crate) generation: Generation,
    /// What the workflow asked to continue with.
    pub(super) next_generation: OnceLock<NextGeneration>,
    /// Wakes the driver, the one task that polls the workflow.
    pub(super) root: Arc<AtomicWaker>,
    /// Wakes waits when messages arrive.
    pub(super) notified: Notify,
    /// Wakes calls that wait for what others have reserved of a budget.
    pub(super) freed: Notify,
    /// One more than the lapses of its lease before the newest look that found it held; 0 before the first one.
    pub(super) held: AtomicU64,
    /// Whether the claim holds a slot of a queue.
    pub(crate) queued: bool,
    /// The claim began with a history to replay.
    resumed: bool,
    /// When its journal began to be read, by the monotonic clock.
    read_since: Option<Duration>,
    /// The position at which the claim began.
    began_at: Position,
    /// The code that advances the run from now on, where other code recorded it, until that is written.
    adopts: Mutex<Option<RunCode>>,
    /// The code of its row, where that says that the run is parked, until that is over.
    parked: Mutex<Option<CodeId>>,
    /// The same source of the workflow recorded it.
    pub(super) same_code: bool,
    /// When it was written.
    pub(super) adopted: OnceLock<Timestamp>,
    /// Read-locked by each start of a child until the child exists; the end of the run write-locks it.
    pub(super) starting: Arc<SharedLock<()>>,
    /// Races that are being decided.
    pub(crate) deciding: Arc<Deciding>,
    /// The commands that have sent something to streams of which nothing was said yet.
    pub(crate) streams: Arc<OpenCommands>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) next: Position,
    pub(super) history: History,
    /// Recorded answers that were delivered to the workflow.
    pub(super) matched: u64,
    /// Number of [`InFlightGuard`]s that exist.
    pub(super) in_flight: usize,
    /// How many of them are of a wait that asks the store whether it is over.
    pub(super) looks: usize,
    /// Number of places where branches begin.
    pub(super) beginning: usize,
    /// The engine is shutting down: what is in flight may finish, and nothing new starts.
    pub(super) stopping: bool,
    /// Why its code cannot go on: what is in flight may finish, and nothing new starts.
    pub(super) misfit: Option<Box<Fault>>,
    /// The run is being cancelled: what is in flight may finish, and nothing new starts.
    pub(super) cancelling: bool,
    /// The workflow has ended, and its steps are being undone.
    pub(super) unwinding: bool,
    pub(super) cancellation: Arc<Cancellation>,
    pub(super) obligations: Obligations,
    /// Invocations that were dropped between their intent and their body, which is therefore known not to have been called.
    pub(super) uncalled: Vec<InvocationId>,
    /// Outcomes that were on their way to the effect store when their calls were dropped.
    pub(super) unsaved: Vec<(StoredEffect, Vec<LargeValue>)>,
    /// What is known of calls that were dropped after their bodies had come back.
    pub(super) came_back: Vec<CameBack>,
    /// Races whose losers were dropped, and whose winner no append names yet.
    pub(super) won: Vec<WonRace>,
    /// What its budgets have spent and reserved.
    pub(super) spending: Spending,
    /// What the store lists of its open waits, and what the next appends may change of it.
    pub(super) open_waits: OpenWaits,
    /// Undoing calls that this process knows, by the command they would undo.
    pub(super) undos: HashMap<CommandId, Undo>,
    /// Steps that were undone here, or are being undone.
    pub(super) undoing: HashMap<CommandId, Arc<Undoing>>,
    /// By the call that undoes a step: the `cx.compensate()` that makes it, or was the last to.
    pub(super) undoers: HashMap<CommandId, CommandId>,
    /// Durable waits, each with its time limit.
    pub(super) waits: BTreeMap<CommandId, Option<Timestamp>>,
    /// The children that it waits for, each with whether it has ended in this process.
    pub(super) awaited: HashMap<RunId, bool>,
    /// Messages that were read from the store and that no wait has taken.
    pub(super) inbox: VecDeque<Message>,
    /// Number of the newest message that ever was in `inbox`.
    pub(super) seen: u64,
    /// Commands that a replay requested and history does not hold; named if the replay gets stuck.
    pub(super) ahead: Vec<CommandSummary>,
    /// Outcomes that the effect store held when the run was claimed.
    pub(super) effects: HashMap<IdempotencyKey, StoredEffect>,
    /// Replay waits for an operator's decision.
    pub(super) paused_for_operator: bool,
    /// It was said that the journal nears its limit.
    pub(super) warned_of_history: bool,
}

/// Everything a run starts from.
pub(crate) struct Origin {
    pub(crate) id: RunId,
    pub(crate) def: &'static WorkflowDef,
    pub(crate) epoch: Epoch,
    pub(crate) mode: Mode,
    pub(crate) seed: String,
    /// The trace context that the run was started in.
    pub(crate) traceparent: Option<String>,
    pub(crate) next: Position,
    pub(crate) generation: Generation,
    pub(crate) history: History,
    pub(crate) obligations: Obligations,
    pub(crate) spending: Spending,
    pub(crate) open_waits: OpenWaits,
    pub(crate) inbox: Vec<Message>,
    pub(crate) effects: Vec<StoredEffect>,
    /// Commands that have open items in streams.
    pub(crate) streams: Vec<CommandId>,
    /// The code that is to advance it, where it is other code than recorded it, or the run is parked.
    pub(crate) adopts: Option<RunCode>,
    /// The code of its row, where that says that the run is parked.
    pub(crate) parked: Option<CodeId>,
    /// Whether the same source of the workflow recorded it.
    pub(crate) same_code: bool,
    /// Whether the claim holds a slot of a queue: then it is released as soon as the run only waits.
    pub(crate) queued: bool,
    /// When its journal began to be read, by the monotonic clock; `None` where none was read to advance it.
    pub(crate) read_since: Option<Duration>,
    /// Where it is begun before its creation is durable.
    pub(crate) birth: Option<Birth>,
}

impl Run {
    pub(crate) fn new(shared: Arc<EngineShared>, origin: Origin) -> Arc<Self> {
        Arc::new(Self {
            id: origin.id,
            def: origin.def,
            epoch: origin.epoch,
            held: AtomicU64::new(0),
            mode: origin.mode,
            queued: origin.queued,
            trace: Trace::of(origin.traceparent.as_deref(), &origin.seed),
            seed: origin.seed.into(),
            adopts: Mutex::new(origin.adopts),
            parked: Mutex::new(origin.parked),
            same_code: origin.same_code,
            adopted: OnceLock::new(),
            resumed: origin.mode == Mode::Verify || !origin.history.is_empty(),
            read_since: origin.read_since,
            began_at: origin.next,
            watermark: Arc::new(
                DurableWatermark::measured(origin.next, Arc::clone(&shared.gauge)).born(origin.birth),
            ),
            shared,
            state: Mutex::new(State {
                next: origin.next,
                history: origin.history,
                obligations: origin.obligations,
                spending: origin.spending,
                open_waits: origin.open_waits,
                seen: origin.inbox.last().map_or(0, |message| message.seq),
                inbox: origin.inbox.into(),
                effects: origin.effects.into_iter().map(|effect| (effect.key.clone(), effect)).collect(),
                ..State::default()
            }),
            fault: OnceLock::new(),
            permanent_failure: OnceLock::new(),
            generation: origin.generation,
            next_generation: OnceLock::new(),
            root: Arc::default(),
            notified: Notify::new(),
            freed: Notify::new(),
            starting: Arc::default(),
            deciding: Arc::default(),
            streams: OpenCommands::of(origin.streams),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops the run. Only the first fault is kept: the later ones follow from it.
    ///
    /// One that says nothing of the store cuts nothing off that is in flight: other branches may be in the middle of calls, whose
    /// outcomes would be unknown. Before all that is recorded fits, nothing is.
    pub(crate) fn fail(&self, fault: impl Into<Fault>) {
        let fault = fault.into();
        let mut state = self.lock();
        let waits = fault.lets_finish() && self.mode != Mode::Verify && state.history.is_proven();
        if waits {
            if state.misfit.is_none() {
                tracing::warn!(target: "aether::run", run = %self.id, %fault, "run cannot go on here; what is in flight may finish");
            }
            state.misfit.get_or_insert_with(|| Box::new(fault));
        } else {
            let _first = self.fault.set(fault);
        }
        drop(state);
        // After the fault is set: the driver looks for it when it is woken.
        self.root.wake();
    }

    /// The fault for which the run waits only for what is in flight; returned once.
    pub(crate) fn take_misfit(&self) -> Option<Fault> {
        self.lock().misfit.take().map(|fault| *fault)
    }

    /// Stops the run and never returns, so that the workflow's code does not continue after a fault.
    pub(crate) fn stop<T>(&self, fault: impl Into<Fault>) -> Pending<T> {
        self.fail(fault);
        pending()
    }

    /// Why the run stopped.
    pub(crate) fn fault(&self) -> Option<Fault> {
        self.fault.get().cloned().or_else(|| self.watermark.failure().cloned().map(Fault::Append))
    }

    pub(crate) fn watermark(&self) -> &Arc<DurableWatermark> {
        &self.watermark
    }

    pub(crate) fn root(&self) -> &Arc<AtomicWaker> {
        &self.root
    }

    /// A failure that names run and command.
    pub(crate) fn failure(&self, command: &CommandId, reason: impl std::fmt::Display) -> Failure {
        Failure::permanent(format_args!("{reason} (run `{}`, step `{command}`)", self.id))
    }

    /// The time now, in whole microseconds: what every store keeps.
    pub(crate) fn now(&self) -> Timestamp {
        let now = self.shared.environment.now();
        Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
    }

    /// The next position.
    pub(crate) fn next(&self) -> Position {
        self.lock().next
    }

    /// Whether it was said before that the journal nears its limit; from now on it was.
    pub(crate) fn warned_of_history(&self) -> bool {
        std::mem::replace(&mut self.lock().warned_of_history, true)
    }

    /// The ledger change that leaves an invocation in doubt.
    pub(crate) fn in_doubt(&self, invocation: &InvocationId) -> LedgerUpdate {
        LedgerUpdate {
            key: self.key_of(invocation),
            status: LedgerStatus::InDoubt,
            result: None,
            error: None,
            committed: false,
        }
    }

    /// The idempotency key of an invocation.
    pub(crate) fn key_of(&self, invocation: &InvocationId) -> IdempotencyKey {
        let (command, attempt) = invocation.as_str().rsplit_once('#').unwrap_or((invocation.as_str(), "0"));
        let command = CommandId::from(command.to_owned());
        IdempotencyKey::new(&self.id, &command, attempt.parse().unwrap_or(0))
    }

    /// Begins a shutdown: what is in flight may finish, and nothing new starts.
    pub(crate) fn begin_stopping(&self) {
        self.lock().stopping = true;
        self.root.wake();
    }

    /// Marks work in flight until the guard is dropped. The run is not suspended in the meantime.
    ///
    /// Taken before the work starts and dropped after its result is in the state of the run: otherwise the driver could
    /// find a run in which another branch waits and nothing else happens, and suspend it.
    pub(crate) fn in_flight(self: &Arc<Self>) -> InFlightGuard<Arc<Self>> {
        self.lock().in_flight += 1;
        InFlightGuard(Arc::clone(self))
    }

    /// As [`Run::in_flight`], for as long as the run is borrowed.
    pub(crate) fn in_flight_here(&self) -> InFlightGuard<&Self> {
        self.lock().in_flight += 1;
        InFlightGuard(self)
    }

    /// Marks a look in the store, of a wait that asks whether it is over, until the guard is dropped. The run is not suspended
    /// in the meantime: it may be this look alone that finds it. But it is no more awake than it was before.
    pub(crate) fn look(self: &Arc<Self>) -> LookGuard {
        let in_flight = self.in_flight();
        self.lock().looks += 1;
        LookGuard(in_flight)
    }

    /// Marks a durable wait until the guard is dropped. The run may be suspended in the meantime.
    pub(crate) fn wait(self: &Arc<Self>, command: CommandId, until: Option<Timestamp>) -> WaitGuard {
        self.lock().waits.insert(command.clone(), until);
        WaitGuard(Arc::clone(self), command)
    }

    /// Whether the wait of a command that is recorded as waiting is still listed as open, so that a reply finds it.
    pub(crate) fn lists_wait(&self, command: &CommandId) -> bool {
        mutated("waits-are-not-asked-anew") || self.lock().open_waits.of(command).is_some()
    }

    /// Whether other code recorded the run, and it was not yet seen to fit.
    pub(crate) fn is_adopting(&self) -> bool {
        self.adopts.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Whether the source of the workflow is what recorded the run, so that a difference comes from something else.
    pub(crate) fn is_of_same_code(&self) -> bool {
        self.same_code
    }

    /// Whether this claim has recorded its code as the run's.
    pub(crate) fn has_adopted(&self) -> bool {
        self.adopted.get().is_some()
    }

    /// When this claim recorded its code as the run's.
    pub(crate) fn adopted_at(&self) -> Option<Timestamp> {
        self.adopted.get().copied()
    }

    /// The code to be recorded as the run's; returned once.
    pub(super) fn take_adoption(&self) -> Option<RunCode> {
        self.adopts.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The code of its row, where that says that the run is parked; returned once.
    pub(super) fn take_parked(&self) -> Option<CodeId> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether the claim began with a history to replay.
    pub(crate) fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// Whether the code that runs next in `scope` ran before, in this process or another one.
    pub(crate) fn is_replayed(&self, scope: &str) -> bool {
        self.mode == Mode::Verify || self.lock().history.replays(scope)
    }

    /// The code has passed all that is recorded.
    pub(crate) fn note_replayed(&self) {
        if let Some(since) = self.read_since {
            self.shared.gauge.replayed(self.began_at, since);
        }
    }

    /// Whether something waits durably.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.lock().waits.is_empty()
    }

    /// What the run does where no part of it can move.
    pub(crate) fn rest(&self) -> Rest {
        // All of it under one lock, so that no work can start between two looks. Replay must be over as well, unless it
        // waits for an operator itself.
        let state = self.lock();
        let replays = !(state.paused_for_operator || state.history.is_exhausted());
        if state.in_flight > state.looks || state.waits.is_empty() || replays {
            return Rest::Working;
        }
        if state.looks > 0 {
            return Rest::Looking;
        }
        let until = state.waits.values().copied().flatten().min();
        Rest::Waiting { until, on: state.waits.keys().cloned().collect() }
    }

    /// Why the run is to be released now, where it is to start nothing new and nothing is in flight any more.
    pub(crate) fn stops(&self) -> Option<Fault> {
        let mut state = self.lock();
        if state.in_flight > 0 {
            return None;
        }
        let misfit = state.misfit.take().map(|fault| *fault);
        misfit.or_else(|| state.stopping.then(|| Fault::ShutDown { run: self.id.clone() }))
    }

    /// Drops what history holds of branches that lost a race before they requested it.
    pub(crate) fn forget(&self, scopes: &[String]) {
        self.lock().history.forget(scopes);
    }

    /// Reads the store's inbox, for messages that other processes sent.
    pub(crate) async fn look_into_inbox(&self) {
        let inbox = self.insist(|| self.shared.store.inbox(&self.id, self.seen())).await;
        self.notify(inbox);
    }

    /// Takes in the messages of the store's `inbox` that are new, and wakes all waits, also those for child runs.
    ///
    /// `inbox` must be what the store returned for a number that this claim had seen. Every message with a number up to
    /// `seen` counts as known, so a list with gaps would make this claim skip messages.
    pub(crate) fn notify(&self, inbox: Vec<Message>) {
        let mut state = self.lock();
        for message in inbox {
            // Two reads of the inbox may arrive here in either order; `seen` keeps a message from being added twice.
            if message.seq > state.seen {
                state.seen = message.seq;
                state.inbox.push_back(message);
            }
        }
        // Before the lock is released: whoever reads in `seen` that a message has arrived must find its receivers woken.
        if !mutated("notified-after-unlocking") {
            self.notified.notify_waiters();
        }
        // The driver takes this lock as soon as it is woken.
        drop(state);
        if mutated("notified-after-unlocking") {
            self.notified.notify_waiters();
        }
        self.root.wake();
    }

    /// Keeps the run from ending until the guard is dropped: a child is being started, and the end of the run must
    /// reach it.
    pub(crate) async fn start_of_child(&self) -> OwnedRwLockReadGuard<()> {
        Arc::clone(&self.starting).read_owned().await
    }

    /// Waits until every child that is being started exists.
    pub(crate) async fn children_are_started(&self) {
        drop(self.starting.write().await);
    }

    /// Waits for the next [`Run::notify`]. Create it before looking at what may change.
    pub(crate) fn notified(&self) -> tokio::sync::futures::Notified<'_> {
        self.notified.notified()
    }

    /// Number of the newest inbox message that this claim has seen; its receivers were woken. What the last poll of a run
    /// could see is written when the run is suspended, so that the store keeps the run due if a newer one has arrived.
    pub(crate) fn seen(&self) -> u64 {
        self.lock().seen
    }

    /// Checks that a recorded value is not over the limit.
    pub(crate) fn too_large(&self, payload: &Payload) -> Option<String> {
        let limits = &self.shared.limits;
        let checked = limits.check("bytes of JSON", payload.as_str().len(), limits.payload, "payload");
        checked.err().map(|over| over.to_string())
    }

    /// As [`Run::too_large`], of what a command begins with. One that is recorded was within the limit of its time.
    pub(crate) fn too_large_for(&self, command: &CommandId, payload: &Payload) -> Option<String> {
        self.too_large(payload).filter(|_| !self.is_recorded(command))
    }

    /// Checks that a recorded error is not over the limit.
    pub(crate) fn error_too_large(&self, error: &BodyError) -> Option<String> {
        let size = error.error.as_str().len().max(error.message.len());
        self.shared.limits.check_error(&error.message, size).err().map(|over| over.to_string())
    }

    /// Reads or changes the run's obligations, under its lock.
    pub(crate) fn with_obligations<T>(&self, with: impl FnOnce(&mut Obligations) -> T) -> T {
        with(&mut self.lock().obligations)
    }

    /// Never returns in a run that is being stopped or cancelled, or whose code cannot go on: nothing new may start, and what is
    /// in flight in other branches goes on. The driver ends the run when nothing is in flight any more.
    pub(crate) async fn still_open(&self) {
        let closed = {
            let state = self.lock();
            state.stopping || state.cancelling || state.misfit.is_some()
        };
        if closed && mutated("a-new-command-ends-the-run") && !self.is_cancelling() {
            return self.stop(Fault::ShutDown { run: self.id.clone() }).await;
        }
        if closed {
            pending().await
        }
    }

    /// Whether the run is being cancelled.
    pub(crate) fn is_cancelling(&self) -> bool {
        self.lock().cancelling
    }
}

/// What a run does that cannot move by itself.
#[derive(Debug)]
pub(crate) enum Rest {
    /// Something is in flight, or is still to be replayed.
    Working,
    /// It waits, and a wait asks the store whether it is over.
    Looking,
    /// Only durable waits are left: the commands `on`, of which the first is due at `until`.
    Waiting { until: Option<Timestamp>, on: Vec<CommandId> },
}

/// A look; see [`Run::look`].
#[derive(Debug)]
pub(crate) struct LookGuard(InFlightGuard<Arc<Run>>);

impl Drop for LookGuard {
    fn drop(&mut self) {
        self.0.0.lock().looks -= 1;
    }
}

/// Work in flight; see [`Run::in_flight`].
#[derive(Debug)]
pub(crate) struct InFlightGuard<R: Deref<Target = Run>>(R);

impl<R: Deref<Target = Run>> Drop for InFlightGuard<R> {
    fn drop(&mut self) {
        self.0.lock().in_flight -= 1;
    }
}

/// A durable wait; see [`Run::wait`].
#[derive(Debug)]
pub(crate) struct WaitGuard(Arc<Run>, CommandId);

impl Drop for WaitGuard {
    fn drop(&mut self) {
        self.0.lock().waits.remove(&self.1);
    }
}
