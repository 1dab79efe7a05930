//! What must hold at every moment of every schedule, whatever the story; and the facts that the final verdict rests on.
//!
//! Promise: a rule speaks only where its precondition holds. What may cut a body off, or rightly cost an engine its lease,
//! excuses what follows from it and nothing else.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use aether_core::contract::Status;
use aether_core::engine::DecideError;
use aether_core::failure::Failure;
use aether_core::id::{CommandId, IdempotencyKey, RunId, WorkerId};
use aether_core::journal::event::Event;
use aether_core::store::memory::MemoryStore;
use aether_core::store::{
    Created, Message, NewRun, OpenWait, Sent, StatusChange, Store as _, StoreError, WaitFilter,
    waits_in_journal,
};
use futures_util::FutureExt as _;

use crate::model::FAILS;
use crate::sim;
use crate::store::now;

pub mod undone;

/// The lease of every engine, in milliseconds.
pub const LEASE: u64 = 1_000;
/// An engine that was left alone for this long, in microseconds, may have lost a lease.
const LEASE_AT_RISK: u64 = LEASE * 1_000 / 2;
/// Any body of a story ends within this time, in milliseconds.
pub const PATIENT: u64 = 10_000;

/// One engine, as it is judged.
#[derive(Debug, Default)]
struct EngineFacts {
    worker: Option<WorkerId>,
    /// A shutdown began at this moment, with so many milliseconds of patience.
    stopping: Option<(u64, u64)>,
    /// It returned.
    stopped: bool,
}

/// What is known about a schedule.
#[derive(Debug, Default)]
pub struct Facts {
    engines: BTreeMap<u32, EngineFacts>,
    called: BTreeSet<String>,
    /// The bodies that were called under each key within the store.
    once: BTreeMap<String, Vec<Once>>,
    /// What was made, and what undoes it.
    pub things: undone::Things,
    /// Runs were deleted, and their ids may be used again.
    pub purged: bool,
    bodies: u64,
    /// The values that bodies of each run returned.
    pub values: BTreeMap<String, BTreeSet<u64>>,
    /// The signals that each run got, in order: name and number.
    pub signals: BTreeMap<String, Vec<(u8, u64)>>,
    /// When each signal was put into its run's inbox, by the wall clock.
    pub delivered: BTreeMap<(String, u64), u64>,
    /// Callbacks that nobody completed yet.
    pub callbacks: Vec<(String, u64)>,
    /// Tokens whose bodies still run, each with the value that its body returns.
    handing_over: BTreeMap<String, u64>,
    /// The values of those that somebody has reported.
    reported: BTreeSet<u64>,
    /// Tokens with which a report was delivered.
    delivered_with: BTreeSet<String>,
    /// What handles said about the end of each run.
    pub ends: BTreeMap<String, String>,
    /// An engine was dropped, killed, or shut down with little patience.
    pub cut: bool,
    /// The clock was hurried: no time limit means anything.
    pub hurried: bool,
    /// Nothing but an engine drops a body.
    pub keeps_bodies: bool,
    /// The wall clock leapt, or a store failed.
    pub trouble: Option<&'static str>,
    violations: Vec<Violation>,
}

/// A rule that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Name of the rule.
    pub rule: String,
    /// What happened.
    pub what: String,
}

thread_local!(static FACTS: RefCell<Facts> = RefCell::default());

/// Looks at the facts.
pub fn with<T>(look: impl FnOnce(&mut Facts) -> T) -> T {
    FACTS.with_borrow_mut(look)
}

/// Begins a schedule with these facts.
pub fn begin(facts: Facts) {
    FACTS.replace(facts);
}

/// Ends a schedule: what does not hold.
pub fn end() -> Vec<Violation> {
    FACTS.take().violations
}

/// Notes that a rule does not hold.
pub fn violated(rule: impl Into<String>, what: String) {
    let rule = rule.into();
    sim::say(|| format!("VIOLATED {rule}: {what}"));
    with(|facts| facts.violations.push(Violation { rule, what }));
}

/// Whether an engine may rightly have lost a run while it worked on it.
pub fn may_lose_runs() -> bool {
    sim::longest_stall() >= LEASE_AT_RISK || with(|facts| facts.cut || facts.hurried)
}

/// An engine announces its worker.
pub fn registered(engine: u32, worker: &WorkerId) {
    with(|facts| facts.engines.entry(engine).or_default().worker = Some(worker.clone()));
}

/// Whether a shutdown has begun, of whichever engine.
pub fn stops() -> bool {
    with(|facts| facts.engines.values().any(|engine| engine.stopping.is_some()))
}

/// A shutdown begins.
pub fn stopping(engine: u32, patience: u64) {
    with(|facts| {
        facts.cut |= patience < PATIENT;
        facts.engines.entry(engine).or_default().stopping = Some((sim::now(), patience));
    });
}

/// A shutdown has returned.
pub fn stopped(engine: u32) {
    with(|facts| facts.engines.entry(engine).or_default().stopped = true);
}

/// An engine deletes a run.
pub fn purges(engine: u32, run: &RunId) {
    if with(|facts| facts.engines.get(&engine).is_some_and(|engine| engine.stopped)) {
        violated("purge-after-shutdown", format!("engine {engine} deletes {run}"));
    }
}

/// A body that was called.
#[derive(Debug)]
pub struct Body {
    engine: u32,
    run: String,
    key: String,
    value: u64,
    returned: bool,
}

/// A body that was called under a key within the store.
#[derive(Debug)]
struct Once {
    key: String,
    failed: bool,
}

impl Facts {
    /// The call under this key within the store that may have happened.
    pub fn may_have_happened(&self, business_key: &str) -> Option<IdempotencyKey> {
        let call = self.once.get(business_key)?.iter().find(|call| !call.failed)?;
        Some(IdempotencyKey::from(call.key.clone()))
    }
}

impl Body {
    /// The error of a body that has definitely not done anything.
    pub fn fails(self) -> Failure {
        self.fails_as(Failure::permanent(FAILS))
    }

    /// The same, with an error of its own.
    pub fn fails_as(mut self, failure: Failure) -> Failure {
        self.returned = true;
        with(|facts| {
            let calls = facts.once.values_mut().flatten();
            calls.filter(|call| call.key == self.key).for_each(|call| call.failed = true);
        });
        failure
    }

    /// The value that it returns, which no other body does.
    pub fn returns(mut self) -> u64 {
        self.returned = true;
        with(|facts| facts.values.entry(self.run.clone()).or_default().insert(self.value));
        self.value
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if !self.returned && !sim::is_over() {
            cut_off(self.engine, &self.key);
        }
    }
}

/// A body is called that must not be called twice under `business_key`, unless the first call has failed.
pub fn called_once(run: &str, key: &str, business_key: &str) -> Body {
    let other = with(|facts| {
        let calls = facts.once.entry(business_key.to_owned()).or_default();
        let other = calls.iter().find(|call| !call.failed).map(|call| call.key.clone());
        calls.push(Once { key: key.to_owned(), failed: false });
        other
    });
    if let Some(other) = other {
        violated("two-bodies-for-one-key", format!("{business_key}: {key} after {other}"));
    }
    called(run, key)
}

/// A body that changes the world is called.
pub fn called(run: &str, key: &str) -> Body {
    begin_call(run, key, false)
}

/// The same, of one that may be called again under its key.
pub fn called_again(run: &str, key: &str) -> Body {
    begin_call(run, key, true)
}

fn begin_call(run: &str, key: &str, repeatable: bool) -> Body {
    let engine = sim::group();
    let (stopped, again, value) = with(|facts| {
        let stopped = facts.engines.get(&engine).is_some_and(|engine| engine.stopped);
        facts.bodies += 1;
        let again = !facts.called.insert(key.to_owned()) && !facts.purged && !repeatable;
        (stopped, again, facts.bodies)
    });
    sim::say(|| format!("engine {engine} calls {key}"));
    if stopped {
        violated("body-after-shutdown", format!("engine {engine} called {key}"));
    }
    if again {
        violated("called-twice", key.to_owned());
    }
    Body { engine, run: run.into(), key: key.into(), value, returned: false }
}

/// A body that only reads is called; returns its value.
pub fn reads(run: &str) -> u64 {
    let engine = sim::group();
    let (stopped, value) = with(|facts| {
        facts.bodies += 1;
        let bodies = facts.bodies;
        facts.values.entry(run.to_owned()).or_default().insert(bodies);
        (facts.engines.get(&engine).is_some_and(|engine| engine.stopped), bodies)
    });
    if stopped {
        violated("body-after-shutdown", format!("engine {engine} read for {run}"));
    }
    value
}

/// A body left its outcome to a callback.
pub fn hand_over(token: String, value: u64) {
    with(|facts| facts.callbacks.push((token, value)));
}

/// The same, while the body still runs: the report comes before anything waits for it.
pub fn hand_over_early(token: &str, value: u64) -> HandingOver {
    hand_over(token.to_owned(), value);
    with(|facts| _ = facts.handing_over.insert(token.to_owned(), value));
    HandingOver(token.to_owned())
}

/// A body that has left its outcome to a callback, and still runs.
#[derive(Debug)]
pub struct HandingOver(String);

impl Drop for HandingOver {
    fn drop(&mut self) {
        with(|facts| _ = facts.handing_over.remove(&self.0));
    }
}

/// The body that hands over this token right now, by its value. Nothing else can be said of its outcome yet.
pub fn handing_over(token: &str) -> Option<u64> {
    if may_lose_runs() { None } else { with(|facts| facts.handing_over.get(token).copied()) }
}

/// What came of a report that nobody had made before, while this body ran all the time.
pub fn reported(token: &str, value: Option<u64>, sent: &Result<Sent, DecideError>) {
    let meanwhile = handing_over(token);
    let is_first = value.is_some_and(|value| with(|facts| !facts.reported.contains(&value)));
    // One that was delivered for the call before keeps its id until somebody has read it.
    let is_first = is_first && with(|facts| !facts.delivered_with.contains(token));
    if is_first && value == meanwhile && came_second(sent) {
        violated("first-report-is-duplicate", token.to_owned());
    }
    with(|facts| {
        facts.reported.extend(value.into_iter().chain(meanwhile));
        if *sent == Ok(Sent::Delivered) {
            facts.delivered_with.insert(token.to_owned());
        }
    });
}

/// Whether a report was taken for one that came behind another word about the same call. A policy may have decided for a
/// worker that was paused in the call.
fn came_second(sent: &Result<Sent, DecideError>) -> bool {
    match sent {
        Ok(sent) => *sent == Sent::Duplicate,
        Err(DecideError::AlreadyDecided { by, .. }) => by != "probe" && !by.starts_with("policy: "),
        Err(error) => matches!(error, DecideError::Expired { .. }),
    }
}

/// A body is dropped before it has returned.
fn cut_off(engine: u32, key: &str) {
    sim::say(|| format!("engine {engine} drops the body of {key}"));
    if may_lose_runs() {
        return;
    }
    let cut = with(|facts| {
        let stopping = facts.engines.get(&engine).filter(|engine| !engine.stopped)?.stopping?;
        (facts.keeps_bodies && facts.trouble.is_none() && sim::now() < stopping.0 + stopping.1 * 1_000)
            .then_some(stopping)
    });
    if let Some((at, patience)) = cut {
        let into = sim::now() - at;
        violated("cut-by-shutdown", format!("engine {engine} dropped {key} {into} us into {patience} ms"));
    }
}

/// Puts a message into an inbox for an engine, or for the outside (0), and notes it once it is there.
///
/// # Errors
/// As the store's own.
pub fn send(memory: &MemoryStore, engine: u32, run: &RunId, message: Message) -> Result<Sent, StoreError> {
    sim::say(|| format!("engine {engine} sends {} to {run}", message.topic));
    if message.topic == "cancel" && message.payload.as_str().contains("its parent `") {
        ends_child(memory, engine, run);
    }
    let note = message.clone();
    let sent = now(memory.send(run, message))?;
    delivered(run, &note, sent);
    Ok(sent)
}

/// Notes a signal that was put into an inbox.
pub fn delivered(run: &RunId, message: &Message, sent: Sent) {
    let topic = message.topic.strip_prefix("signal:s").and_then(|name| name.parse().ok());
    let text: Option<String> = message.payload.decode().ok();
    let number = text.and_then(|text| text.split(':').next()?.parse().ok());
    if let (Sent::Delivered, Some(name), Some(number)) = (sent, topic, number) {
        with(|facts| {
            facts.signals.entry(run.to_string()).or_default().push((name, number));
            facts.delivered.insert((run.to_string(), number), sim::wall());
        });
    }
}

/// An engine asks a child to end because its parent has ended: only the parent's owner may. Unless the end is decided in
/// the parent's journal: then every owner does the same.
fn ends_child(memory: &MemoryStore, engine: u32, child: &RunId) {
    let record = now(memory.run(child)).ok().flatten();
    let Some(parent) = record.and_then(|child| child.parent) else { return };
    let Some(owner) = owned_elsewhere(memory, engine, &parent) else { return };
    let frames = now(memory.load(&parent, 0)).unwrap_or_default();
    let mut events = frames.iter().flat_map(|frame| frame.events().unwrap_or_default());
    if !events.any(|event| matches!(event, Event::RunUnwinding(_))) {
        violated(
            "stale-parent-ends-child",
            format!("engine {engine} ends {child}, of a run owned by {owner:?}"),
        );
    }
}

/// Creates a run for an engine; only the parent's owner may create a child.
///
/// # Errors
/// As the store's own.
pub fn create(memory: &MemoryStore, engine: u32, new: NewRun) -> Result<Created, StoreError> {
    let (run, parent) = (new.id.clone(), new.parent.clone());
    let owner = parent.and_then(|parent| owned_elsewhere(memory, engine, &parent));
    let created = now(memory.create(new))?;
    if let (Created::New, Some(owner)) = (&created, owner) {
        violated(
            "stale-parent-starts-child",
            format!("engine {engine} starts {run}, of a run owned by {owner:?}"),
        );
    }
    Ok(created)
}

/// The owner of an open run, if that is another worker. A run that was released and not claimed since has the same epoch.
fn owned_elsewhere(memory: &MemoryStore, engine: u32, run: &RunId) -> Option<WorkerId> {
    let record = now(memory.run(run)).ok().flatten()?;
    let own = with(|facts| facts.engines.get(&engine).and_then(|engine| engine.worker.clone()));
    let other = record.owner.filter(|owner| Some(owner) != own.as_ref())?;
    (!record.status.is_terminal()).then_some(other)
}

/// A run's status has changed: a run that is suspended has read nothing that it waits for.
pub fn changed(memory: &MemoryStore, run: &RunId, change: &StatusChange) {
    if change.status != Status::Waiting || !change.release {
        return;
    }
    let unread = now(memory.inbox(run, 0)).unwrap_or_default();
    let read: Vec<String> = unread
        .into_iter()
        .filter(|message| message.seq <= change.seen)
        .map(|message| message.topic)
        .collect();
    if read.is_empty() {
        return;
    }
    let (mut on, mut waits, mut unwinds) = (Vec::new(), BTreeMap::new(), false);
    // A report of a call that waits to be sent again is looked at when that wait is over.
    let mut resent = BTreeSet::new();
    for frame in now(memory.load(run, 0)).unwrap_or_default() {
        for event in frame.events().unwrap_or_default() {
            match event {
                Event::RunUnwinding(_) => unwinds = true,
                Event::RunWaiting(event) => on = event.on,
                Event::InvocationResolved(event) if event.resend.is_some() => {
                    resent.insert(event.command);
                }
                Event::WaitStarted(event) => {
                    drop(waits.insert(event.command, format!("signal:{}", event.name)))
                }
                _ => {}
            }
        }
    }
    let is_wanted = |topic: &String| {
        let of = |command: &CommandId| {
            waits.get(command) == Some(topic)
                || *topic == format!("decide:{command}")
                || !resent.contains(command) && topic.starts_with(&format!("callback:{command}#"))
        };
        // A run that is being undone cannot be cancelled any more.
        topic == "cancel" && !unwinds || on.iter().any(of)
    };
    if let Some(topic) = read.iter().find(|topic| is_wanted(topic)) {
        violated("suspended-on-unread", format!("{run} counts {topic} as seen"));
    }
}

/// An append has taken effect: what the store lists of the run's open waits is what the run's journal says.
pub fn listed(memory: &MemoryStore, run: &RunId) {
    let read = (waits_in_journal(memory, run).now_or_never(), now(memory.waits(WaitFilter::default())));
    let (Some(Ok(mut journal)), Ok(rows)) = read else { return };
    let rows = rows.into_iter().filter(|row| row.run == *run);
    let mut listed: Vec<OpenWait> = rows.map(|row| row.wait).collect();
    journal.sort_by(|a, b| a.command.cmp(&b.command));
    listed.sort_by(|a, b| a.command.cmp(&b.command));
    if listed != journal {
        violated("list-of-waits", format!("{run}: {listed:?} are listed, the journal says {journal:?}"));
    }
}

/// A handle says how a run has ended; every handle must say the same.
pub fn has_ended(run: &str, end: String) {
    let other = with(|facts| facts.ends.insert(run.to_owned(), end.clone()));
    if let Some(other) = other.filter(|other| *other != end) {
        violated("two-results", format!("{run} ended as {other} and as {end}"));
    }
}
