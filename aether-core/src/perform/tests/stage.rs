//! A stage for the tests of the effect gate: one step call of one run on a memory store, as often as it is resumed.
//!
//! Promise: store, journal, ledger and replay are the real ones. Each [`Stage::play`] takes the run up from what the
//! store holds, as after a crash; a call that does not end by itself is dropped where it stands.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use jiff::Timestamp;
use tokio::sync::broadcast;

use crate::definition::def::{Probe, StepDef, StepOptions, WorkflowDef};
use crate::inbox::replies::{ExternalReply, Reply};
use crate::inbox::topics::callback_topic;
use crate::journal::event::{Event, RunCreated, StateChanged};
use crate::journal::frame::Frame;
use crate::journal::history::History;
use crate::journal::obligations::Obligations;
use crate::perform::attempts::execute_step;
use crate::perform::call::{CallSpec, CountsIn, any_answer};
use crate::perform::tests::script::{Provided, Script};
use crate::policy::replay::{DefaultPolicy, Mode};
use crate::policy::verifiers::{Inspection, Verifier, Verifiers};
use crate::run::claim::{Origin, Run};
use crate::run::leases::Leases;
use crate::run::shared::EngineShared;
use crate::sched::Mutex;
use crate::step::body::{Body, ProbeResult};
use crate::store::api::Store;
use crate::store::ledger::{LedgerEntry, LedgerStatus};
use crate::store::memory::MemoryStore;
use crate::store::open_waits::OpenWaits;
use crate::store::records::{ClaimRequest, Message, NewRun, Sent};
use crate::store::workers::SilentWorker;
use crate::vocabulary::deps::Deps;
use crate::vocabulary::environment::Environment;
use crate::vocabulary::failure::{Failure, StepError};
use crate::vocabulary::id::{CodeId, CommandId, IdempotencyKey, InvocationId, RunId};
use crate::vocabulary::limits::Limits;
use crate::vocabulary::payload::{Answered, Digest, Payload};

pub(crate) use crate::perform::tests::script::{Act, json, now, run_id};

static FLOW: WorkflowDef = WorkflowDef {
    name: "flow",
    module: "stage",
    doc: "",
    version: 1,
    fingerprint: "",
    file: "",
    line: 0,
    states: &[],
    edges: &[],
    changes: &[],
    allows: &[],
};

/// A clock that stands still but for those who sleep: they wake at once, and it has moved on. That of leases stands still
/// but for pauses.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    slept: Mutex<Vec<Duration>>,
    paused: Mutex<Duration>,
}

impl Environment for Clock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH + self.slept.lock().unwrap().iter().sum::<Duration>()
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }

    fn sleep_until(&self, until: Timestamp) -> BoxFuture<'static, ()> {
        let wait = until.duration_since(self.now()).unsigned_abs();
        self.slept.lock().unwrap().push(wait);
        Box::pin(ready(()))
    }

    fn monotonic(&self) -> Duration {
        *self.paused.lock().unwrap()
    }
}

/// Finds every file unchanged, or none.
#[derive(Debug)]
struct Files {
    as_left: bool,
}

impl Verifier for Files {
    fn name(&self) -> &str {
        "files"
    }

    fn look<'a>(&'a self, _: &'a RunId, _: &'a StateChanged) -> BoxFuture<'a, Result<Inspection, Failure>> {
        let differs = || Inspection::Differs { expected: "a file".into(), found: "nothing".into() };
        Box::pin(ready(Ok(if self.as_left { Inspection::Unchanged } else { differs() })))
    }
}

/// How one [`Stage::play`] ended.
#[derive(Debug)]
pub(crate) enum Scene {
    /// The call has this answer.
    Answered(Answered),
    /// The run was stopped for this reason.
    Stopped(String),
    /// The call keeps waiting.
    Waits,
}

impl Scene {
    pub(crate) fn value(self) -> String {
        match self {
            Self::Answered(Ok(value)) => value.as_str().to_owned(),
            other => panic!("no value: {other:?}"),
        }
    }

    pub(crate) fn error(self) -> StepError<Payload> {
        match self {
            Self::Answered(Err(error)) => error.decode().unwrap(),
            other => panic!("no error: {other:?}"),
        }
    }

    pub(crate) fn waits(&self) -> bool {
        matches!(self, Self::Waits)
    }
}

/// One step call of one run.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) options: StepOptions,
    pub(crate) limits: Limits,
    pub(crate) mode: Mode,
    /// Whether the verifier finds files as they were left.
    pub(crate) as_left: bool,
    pub(crate) args: &'static str,
    clock: Arc<Clock>,
    body: Arc<Script>,
}

impl Stage {
    pub(crate) fn new(options: StepOptions) -> Self {
        let store = Arc::new(MemoryStore::new());
        let digest = Digest::of(&Payload::null()).unwrap();
        let created = RunCreated {
            workflow: FLOW.name.into(),
            module: FLOW.module.into(),
            version: 1,
            fingerprint: String::new(),
            input: Payload::null(),
            digest: digest.clone(),
            seed: String::new(),
            parent: None,
            labels: Default::default(),
            forked_from: None,
            terms: Default::default(),
        };
        let new = NewRun {
            id: run_id(),
            workflow: FLOW.name.into(),
            version: 1,
            code: CodeId::default(),
            digest,
            parent: None,
            labels: Default::default(),
            traceparent: None,
            frame: Frame::encode(&[created.into()]).unwrap(),
            at: Timestamp::UNIX_EPOCH,
            owner: None,
            parent_epoch: None,
            terms: Default::default(),
        };
        now(store.create(new)).unwrap();
        Self {
            store,
            options,
            limits: Limits::default(),
            mode: Mode::Recover,
            as_left: true,
            args: "[1]",
            clock: Arc::default(),
            body: Arc::default(),
        }
    }

    /// What the body does in its next calls.
    pub(crate) fn acts(self, acts: impl IntoIterator<Item = Act>) -> Self {
        self.body.acts.lock().unwrap().extend(acts);
        self
    }

    /// What the probe finds in its next calls; a probe that is used up is no probe.
    pub(crate) fn probes(self, found: impl IntoIterator<Item = ProbeResult>) -> Self {
        self.body.found.lock().unwrap().extend(found);
        self
    }

    /// The probe does not answer.
    pub(crate) fn probe_hangs(self) -> Self {
        *self.body.is_mute.lock().unwrap() = true;
        self
    }

    /// The probe's answer that the call happened, with this result.
    pub(crate) fn happened(value: &str) -> ProbeResult {
        Ok(Ok(Probe::Happened(json(value))))
    }

    /// Takes the run up and performs the call, as far as it goes.
    pub(crate) fn play(&self) -> Scene {
        self.play_on(|| {})
    }

    /// As [`Stage::play`]; where the call waits, `meanwhile` happens, and it continues.
    pub(crate) fn play_on(&self, meanwhile: impl FnOnce()) -> Scene {
        let run = self.take_up();
        self.body.cancelled.lock().unwrap().1 = Arc::downgrade(&run);
        let mut performance = pin!(execute_step(&run, command(), None, self.call()));
        let mut answered = performance.as_mut().now_or_never();
        if answered.is_none() {
            meanwhile();
            now(run.look_into_inbox());
            answered = performance.now_or_never();
        }
        match answered {
            Some(answered) => Scene::Answered(answered),
            None => match run.fault().or_else(|| run.take_misfit()) {
                Some(fault) => Scene::Stopped(fault.to_string()),
                None => Scene::Waits,
            },
        }
    }

    /// The call.
    pub(crate) fn call(&self) -> CallSpec {
        CallSpec {
            name: "send".into(),
            path: "stage::send".into(),
            options: self.options,
            args: Ok(json(self.args)),
            body: Arc::clone(&self.body) as Arc<dyn Body>,
            readable: any_answer,
            counts_in: CountsIn::Budgets(None),
            limit: None,
        }
    }

    /// A claim of the run, with everything that the store holds of it.
    pub(crate) fn take_up(&self) -> Arc<Run> {
        let claim = ClaimRequest {
            worker: "worker".to_owned().into(),
            now: self.clock.now(),
            silent: vec![SilentWorker { id: "worker".to_owned().into(), renewals: 0 }],
            limit: 1,
            codes: vec![CodeId::default()],
            only: Some(run_id()),
            adopt: Vec::new(),
            serves: Default::default(),
            others_first: false,
            lapsed_first: false,
        };
        let lease = now(self.store.claim(claim)).unwrap().remove(0);
        let events = self.events_from(0);
        let origin = Origin {
            adopts: None,
            parked: None,
            same_code: true,
            queued: false,
            read_since: None,
            birth: None,
            generation: Default::default(),
            id: run_id(),
            def: &FLOW,
            epoch: lease.run.epoch,
            mode: self.mode,
            seed: String::new(),
            traceparent: None,
            next: events.len() as u64,
            spending: crate::journal::spending::Spending::default(),
            obligations: Obligations::fold(&events),
            open_waits: OpenWaits::fold(&[], &events),
            history: proven(History::fold(events)),
            inbox: now(self.store.inbox(&run_id(), 0)).unwrap(),
            effects: now(self.store.effects(&run_id())).unwrap(),
            streams: now(self.store.open_streams(&run_id())).unwrap(),
        };
        Run::new(Arc::new(self.shared()), origin)
    }

    fn shared(&self) -> EngineShared {
        let mut verifiers = Verifiers::default();
        verifiers.insert("file".into(), Arc::new(Files { as_left: self.as_left }));
        let def: &'static StepDef = Box::leak(Box::new(StepDef {
            name: "send",
            path: "stage::send",
            doc: "",
            file: "",
            line: 0,
            options: self.options,
            allows: &[],
        }));
        verifiers.know(def);
        let mut deps = Deps::default();
        deps.insert(Provided);
        let store = Arc::clone(&self.store) as Arc<dyn Store>;
        let environment = Arc::clone(&self.clock) as Arc<dyn Environment>;
        EngineShared {
            booking: crate::sched::SharedLock::default(),
            presence: Default::default(),
            streams: crate::stream::hub::StreamHub::new(
                store,
                environment,
                Default::default(),
                Duration::from_millis(100),
                None,
            ),
            store: Arc::clone(&self.store) as Arc<dyn Store>,
            environment: Arc::clone(&self.clock) as Arc<dyn Environment>,
            worker: "worker".to_owned().into(),
            leases: Leases::new(Duration::from_secs(60), self.clock.monotonic()),
            deps: Arc::new(deps),
            policy: Arc::new(DefaultPolicy),
            interceptor: None,
            trace_bodies: None,
            approvals: Default::default(),
            limits: self.limits,
            retries: Default::default(),
            verifiers,
            grace: Duration::ZERO,
            cancel_grace: Duration::ZERO,
            steps: Default::default(),
            workflows: Default::default(),
            observers: broadcast::channel(1).0,
            redaction: Default::default(),
            gauge: Arc::new(crate::vocabulary::measures::Gauge::new(
                Arc::clone(&self.clock) as Arc<dyn Environment>
            )),
        }
    }

    /// Puts a message into the run's inbox.
    pub(crate) fn send(&self, topic: String, payload: Payload) {
        let id = topic.clone() + payload.as_str();
        let message = Message { seq: 0, id, topic, payload, at: Timestamp::UNIX_EPOCH };
        now(self.store.send(&run_id(), message)).unwrap();
    }

    /// The run is cancelled when its body is admitted for this time.
    pub(crate) fn cancelled_at_admission(self, number: usize) -> Self {
        self.body.cancelled.lock().unwrap().0 = number;
        self
    }

    /// Puts a word about the first attempt into the run's inbox, as one of this round.
    pub(crate) fn report(&self, round: u32, reply: Reply, actor: &str) -> Sent {
        now(self.store.send(&run_id(), word(round, reply, actor))).unwrap()
    }

    /// As [`Stage::report`], while the probe looks.
    pub(crate) fn reports_while_probing(self, round: u32, reply: Reply) -> Self {
        let message = word(round, reply, "callback");
        *self.body.meanwhile.lock().unwrap() = Some((Arc::clone(&self.store), message));
        self
    }

    /// Messages that the run has not taken in.
    pub(crate) fn unread(&self) -> usize {
        now(self.store.inbox(&run_id(), 0)).unwrap().len()
    }

    /// The process dies before the first event of this kind, and all after it, is durable.
    pub(crate) fn cut_before(&self, kind: &str) {
        let at = self.events_from(0).iter().position(|event| event.kind() == kind).unwrap();
        self.store.truncate(&run_id(), at as u64).unwrap();
    }

    /// The journal from this position on, whole.
    fn events_from(&self, position: u64) -> Vec<Event> {
        let frames = now(self.store.load(&run_id(), position)).unwrap();
        now(crate::store::read::events(&*self.store, &run_id(), &frames)).unwrap()
    }

    /// What the journal holds of the call.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.events_from(1)
    }

    /// The kinds of [`Stage::events`].
    pub(crate) fn kinds(&self) -> Vec<String> {
        self.events().iter().map(Event::kind).collect()
    }

    /// The journal's text of the call, as it is stored.
    pub(crate) fn text(&self) -> String {
        let frames = now(self.store.load(&run_id(), 1)).unwrap();
        frames.into_iter().map(|frame| frame.text).collect()
    }

    /// The ledger's row of this attempt.
    pub(crate) fn row(&self, attempt: u32) -> LedgerEntry {
        now(self.store.entry(&run_id(), &key(attempt))).unwrap().unwrap()
    }

    /// The attempts for which the body was called, by their keys.
    pub(crate) fn calls(&self) -> Vec<IdempotencyKey> {
        self.body.calls.lock().unwrap().clone()
    }

    /// Lets time pass.
    pub(crate) fn wait(&self, time: Duration) {
        now(self.clock.sleep_until(self.clock.now() + time));
    }

    /// Sets the clock back to where it began.
    pub(crate) fn rewind(&self) {
        self.clock.slept.lock().unwrap().clear();
    }

    /// The process stands still.
    pub(crate) fn pause(&self, time: Duration) {
        *self.clock.paused.lock().unwrap() += time;
    }

    /// How long was slept, each time.
    pub(crate) fn slept(&self) -> Vec<Duration> {
        self.clock.slept.lock().unwrap().clone()
    }
}

pub(crate) fn command() -> CommandId {
    CommandId::new("0", "send")
}

pub(crate) fn key(attempt: u32) -> IdempotencyKey {
    IdempotencyKey::new(&run_id(), &command(), attempt)
}

/// Why a call is in doubt.
pub(crate) fn in_doubt(scene: Scene) -> String {
    match scene.error() {
        StepError::InDoubt(failure) => failure.to_string(),
        other => panic!("not in doubt: {other:?}"),
    }
}

/// What the ledger says of an attempt, and whether it is committed.
pub(crate) fn row(stage: &Stage, attempt: u32) -> (LedgerStatus, bool) {
    let row = stage.row(attempt);
    (row.status, row.committed)
}

/// What somebody says of the first attempt.
fn word(round: u32, reply: Reply, actor: &str) -> Message {
    let topic = callback_topic(&InvocationId::new(&command(), 0));
    ExternalReply { reply, actor: actor.into() }.message(&topic, round, Timestamp::UNIX_EPOCH).unwrap()
}

/// A stage has no driver, which would see that the code asks for all that is recorded.
fn proven(mut history: History) -> History {
    history.prove();
    history
}
