//! What the rows are written with: every kind of store, call counters, and journals that are recorded once, cut at any event,
//! and planted in another store as a crash would leave them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aether::definition::Workflow;
use aether::effect::Payload;
use aether::encryption::{CodedStore, Encryption, Keys, SecretKey};
use aether::engine::{EngineBuilder, RunEnd};
use aether::error::RunError;
use aether::id::{CodeId, Epoch, IdempotencyKey, Position, RunId, WorkerId};
use aether::prelude::*;
use aether::sqlite::SqliteStore;
use aether::store::MemoryStore;
use aether::store::event::{Event, RunCreated};
use aether::store::journal::{Frame, read_verified};
use aether::store::ledger::{Acquire, LedgerEntry, LedgerStatus, LedgerUpdate};
use aether::store::read;
use aether::store::{Ack, Append, AppendError, NewRun, Receipt, RunFilter, RunRecord, StatusChange, Store};
use aether::view::Status;
use aether_core::payload::Digest;
use aether_core::store::AppendReply;
use aether_pg_tests::Database;
use jiff::Timestamp;

use crate::postgres::way::{Way, block_on};

/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// A store, and where it lives.
pub(crate) struct Place {
    pub(crate) store: Arc<dyn Store>,
    medium: Medium,
}

enum Medium {
    Memory,
    /// In memory, behind a codec that encrypts.
    Encrypted(Arc<dyn Store>),
    File(tempfile::TempDir),
    Postgres(Way, Database<'static>),
}

/// Makes an empty place.
pub(crate) type Make = fn() -> Place;

/// Of so many crash points of a row that has many, one is tried on Postgres.
const STRIDE: usize = 4;

/// Every kind of store; where `AETHER_STORE` names one, only that.
pub(crate) fn stores() -> Vec<Make> {
    match asked().as_deref() {
        None => vec![Place::memory, Place::sqlite, Place::postgres],
        Some("memory") => vec![Place::memory],
        Some("sqlite") => vec![Place::sqlite],
        Some("encrypted") => vec![Place::encrypted],
        Some(_) => vec![Place::postgres],
    }
}

/// The kinds of stores in which a row tries its crash point of this number: every [`STRIDE`]th one also on Postgres, and all
/// of them where `AETHER_STORE` asks for it.
pub(crate) fn stores_at(point: usize) -> Vec<Make> {
    let mut stores = stores();
    if asked().is_none() && point % STRIDE != 1 {
        stores.pop();
    }
    stores
}

/// What `AETHER_STORE` says, if anything.
fn asked() -> Option<String> {
    std::env::var("AETHER_STORE").ok().filter(|asked| !asked.is_empty())
}

impl Place {
    pub(crate) fn memory() -> Self {
        Self { store: Arc::new(MemoryStore::new()), medium: Medium::Memory }
    }

    pub(crate) fn encrypted() -> Self {
        let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
        Self { store: encrypted(&inner), medium: Medium::Encrypted(inner) }
    }

    pub(crate) fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path().join("agent.db")).unwrap();
        Self { store: Arc::new(store), medium: Medium::File(folder) }
    }

    pub(crate) fn postgres() -> Self {
        let way = Way::chosen();
        let (store, database) = block_on(async {
            let database = way.database().await;
            (way.open(&way.url(&database)).await, database)
        });
        Self { store: Arc::new(store), medium: Medium::Postgres(way, database) }
    }

    /// The same place as another worker reaches it: by a connection of its own, where there is a file or a server.
    /// The file of a store in one.
    pub(crate) fn file(&self) -> std::path::PathBuf {
        let Medium::File(folder) = &self.medium else { panic!("it is in no file") };
        folder.path().join("agent.db")
    }

    /// The store without its codec.
    pub(crate) fn bare(&self) -> Arc<dyn Store> {
        if let Medium::Encrypted(inner) = &self.medium { inner.clone() } else { self.store.clone() }
    }

    pub(crate) fn again(&self) -> Arc<dyn Store> {
        match &self.medium {
            Medium::Memory => self.store.clone(),
            Medium::Encrypted(inner) => encrypted(inner),
            Medium::File(folder) => Arc::new(SqliteStore::open(folder.path().join("agent.db")).unwrap()),
            Medium::Postgres(way, database) => Arc::new(block_on(way.open(&way.url(database)))),
        }
    }
}

/// A store in which everything is encrypted, in front of `inner`.
fn encrypted(inner: &Arc<dyn Store>) -> Arc<dyn Store> {
    let key = |number: u8| SecretKey::from([number; 32]);
    let codec = Encryption::new(Keys::new("test", key(1), key(2)));
    Arc::new(CodedStore::new(inner.clone(), Some(Arc::new(codec))))
}

/// Counts body calls by the name of the step, with the keys they were made under.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls(Arc<Mutex<BTreeMap<String, Vec<String>>>>);

impl Calls {
    /// Called first thing in every body.
    pub(crate) fn note(cx: &StepCx) -> Result<()> {
        cx.dep::<Self>()?.add(cx.command_id().name(), cx.idempotency_key().as_str());
        Ok(())
    }

    pub(crate) fn add(&self, name: &str, key: &str) {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.entry(name.to_owned()).or_default().push(key.to_owned());
    }

    pub(crate) fn of(&self, name: &str) -> usize {
        self.keys(name).len()
    }

    pub(crate) fn keys(&self, name: &str) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned().unwrap_or_default()
    }

    pub(crate) fn all(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().map(Vec::len).sum()
    }
}

/// Whether a test that mostly tries some of its cases tries all: `AETHER_SWEEP=full`.
pub(crate) fn is_full_sweep() -> bool {
    std::env::var_os("AETHER_SWEEP").is_some_and(|value| value == "full")
}

/// An engine that looks for work often, on `store`, with `calls` provided.
pub(crate) fn builder(store: &Arc<dyn Store>, calls: &Calls) -> EngineBuilder {
    // All engines of all tests ask one server.
    let poll = Duration::from_millis(if store.describe().starts_with("postgres") { 50 } else { 10 });
    Engine::builder().store(store.clone()).provide(calls.clone()).provide(store.clone()).poll_interval(poll)
}

/// An engine on `store` and what is recorded there under `run`, advanced to its end.
pub(crate) async fn resume<W: Workflow>(
    store: &Arc<dyn Store>,
    run: &str,
    calls: &Calls,
) -> (Engine, std::result::Result<W::Output, RunError<W::Error>>) {
    let engine = builder(store, calls).start().await.unwrap();
    let handle = engine.handle::<W>(run).await.unwrap();
    let result = in_time(handle.result()).await;
    (engine, result)
}

/// Waits until what was queued so far is written: a store decides the appends of a run in the order in which it got them, and
/// those that it must refuse too: of a former epoch, or to a run that does not exist.
pub(crate) async fn flushed(store: &Arc<dyn Store>) {
    let runs = store.runs(RunFilter::default()).await.unwrap();
    let runs = runs.into_iter().map(|record| record.id).chain([run_id("nobody")]);
    let refused: Vec<_> = runs
        .map(|run| {
            let mut late = Hand { store: store.clone(), run, epoch: 0, next: 1 };
            late.send_frame(Frame { text: "[]".into(), count: 0 }, None, Vec::new())
        })
        .collect();
    for refused in refused {
        assert!(refused.await.unwrap().is_err(), "an append that must be refused was taken");
    }
}

/// Fails where something takes for ever.
pub(crate) async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it takes too long")
}

/// An engine that evicts and polls soon.
pub(crate) async fn eager_engine(path: &std::path::Path) -> Engine {
    let poll = Duration::from_millis(10);
    Engine::builder().sqlite(path).poll_interval(poll).eviction_grace(poll).start().await.unwrap()
}

pub(crate) async fn until_waiting<W>(run: &RunHandle<W>) {
    while run.status().await.unwrap() != Status::Waiting {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn run_id(name: &str) -> RunId {
    RunId::new(name).unwrap()
}

/// What a planted run's ledger holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    /// What its events say.
    Follow,
    /// Nothing.
    Absent,
}

/// The events of one run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Journal {
    pub(crate) run: String,
    pub(crate) events: Vec<Event>,
}

impl Journal {
    /// The journal as if code in this module had recorded it: how a test hands a run to another build.
    pub(crate) fn in_module(&self, of: &str) -> Self {
        let mut moved = self.clone();
        for event in &mut moved.events {
            match event {
                Event::RunCreated(created) => created.module = of.to_owned(),
                Event::CodeAdopted(adopted) => adopted.code.module = of.to_owned(),
                _ => {}
            }
        }
        moved
    }

    /// Runs `W` once in memory, to its end, whatever that is.
    pub(crate) async fn record<W: Workflow>(run: &str, input: W::Input) -> Self {
        Self::record_with::<W>(run, input, |builder| builder).await
    }

    /// Like [`Journal::record`], on a changed engine.
    pub(crate) async fn record_with<W: Workflow>(
        run: &str,
        input: W::Input,
        change: impl FnOnce(EngineBuilder) -> EngineBuilder,
    ) -> Self {
        let place = Place::memory();
        let engine = change(builder(&place.store, &Calls::default())).start().await.unwrap();
        let handle = engine.start::<W>(input).id(run).await.unwrap();
        let end = in_time(handle.end()).await.unwrap();
        assert!(!matches!(end, RunEnd::Stopped(_)), "{end:?}");
        Self::read(&place.store, run).await
    }

    /// What `store` holds.
    pub(crate) async fn read(store: &Arc<dyn Store>, run: &str) -> Self {
        flushed(store).await;
        let frames = store.load(&run_id(run), 0).await.unwrap();
        let mut events = read_verified(&frames).unwrap();
        read::fill(&**store, &run_id(run), &frames, &mut events).await.unwrap();
        Self { run: run.into(), events }
    }

    /// The same journal as another run's.
    pub(crate) fn renamed(&self, run: &str) -> Self {
        let (old, new) = (format!("aether:{}:", self.run), format!("aether:{run}:"));
        let (old_child, new_child) = (format!("\"{}/", self.run), format!("\"{run}/"));
        let rename = |event: &Event| {
            let text = serde_json::to_string(event).unwrap();
            serde_json::from_str(&text.replace(&old, &new).replace(&old_child, &new_child)).unwrap()
        };
        Self { run: run.into(), events: self.events.iter().map(rename).collect() }
    }

    /// The events as a planted journal holds them.
    pub(crate) fn dated(&self) -> Vec<(Timestamp, Event)> {
        self.events.iter().map(|event| (past(), event.clone())).collect()
    }

    pub(crate) fn kinds(&self) -> Vec<String> {
        self.events.iter().map(Event::kind).collect()
    }

    /// Kinds of the events of the command of this name, in order.
    pub(crate) fn kinds_of(&self, name: &str) -> Vec<String> {
        self.of(name).iter().map(Event::kind).collect()
    }

    /// The events of the command of this name, in order.
    pub(crate) fn of(&self, name: &str) -> Vec<Event> {
        let named = |event: &&Event| event.command().is_some_and(|command| command.name() == name);
        self.events.iter().filter(named).cloned().collect()
    }

    pub(crate) fn count(&self, kind: &str, name: &str) -> usize {
        self.kinds_of(name).iter().filter(|found| *found == kind).count()
    }

    fn at(&self, kind: &str, name: &str) -> usize {
        let found = |event: &Event| {
            event.kind() == kind && event.command().is_none_or(|command| command.name() == name)
        };
        self.events
            .iter()
            .position(found)
            .unwrap_or_else(|| panic!("no {kind} of {name}: {:?}", self.kinds()))
    }

    /// The first `count` events.
    pub(crate) fn first(&self, count: usize) -> Self {
        Self { run: self.run.clone(), events: self.events[..count].to_vec() }
    }

    /// Everything through the first event of this kind of the command `name`.
    pub(crate) fn through(&self, kind: &str, name: &str) -> Self {
        self.first(self.at(kind, name) + 1)
    }

    /// Everything but the event that ended the run.
    pub(crate) fn open(&self) -> Self {
        self.first(self.events.iter().position(Event::is_terminal).unwrap_or(self.events.len()))
    }

    /// The same facts without what tells who wrote them and when: for comparing two executions.
    pub(crate) fn facts(&self) -> Vec<Event> {
        let anonymous = self.events.iter().filter(|event| !matches!(event, Event::RunRequeued(_))).cloned();
        anonymous
            .map(|mut event| {
                match &mut event {
                    Event::RunCreated(e) => e.seed = String::new(),
                    Event::CommandCommitted(e) => e.caught_up = false,
                    Event::ToolInvocationFinished(e) => e.caught_up = false,
                    _ => {}
                }
                event
            })
            .collect()
    }

    /// Writes these events as a process that then died would have: due, and owned by nobody.
    pub(crate) async fn plant(&self, store: &Arc<dyn Store>, rows: Rows) {
        self.hold(store, rows).await.let_go().await;
    }

    /// Writes these events, and keeps the run.
    pub(crate) async fn hold(&self, store: &Arc<dyn Store>, rows: Rows) -> Hand {
        let mut hand = Hand::create(store, &self.run, &self.events[0]).await;
        let mut replies = Vec::new();
        for event in &self.events[1..] {
            let acquire = self.acquire(event).filter(|_| rows == Rows::Follow);
            let update = self.row_update(event).filter(|_| rows == Rows::Follow);
            let frame = Frame::encode(std::slice::from_ref(event)).unwrap();
            replies.push(hand.send_frame(frame, acquire, update.into_iter().collect()));
        }
        for reply in replies {
            reply.await.unwrap().unwrap();
        }
        hand
    }

    /// The ledger row that a started event comes with.
    pub(crate) fn acquire(&self, event: &Event) -> Option<Acquire> {
        let Event::ToolInvocationStarted(e) = event else { return None };
        let digest = self.events.iter().find_map(|known| match known {
            Event::NodeStarted(node) if node.command == e.command => Some(node.digest.clone()),
            _ => None,
        })?;
        let entry = LedgerEntry {
            key: e.key.clone(),
            run: run_id(&self.run),
            command: e.command.clone(),
            invocation: e.invocation.clone(),
            tool: e.tool.clone(),
            digest,
            business_key: None,
            status: LedgerStatus::Started,
            result: None,
            error: None,
            committed: false,
            epoch: 1,
            started_at: past(),
            finished_at: None,
        };
        Some(Acquire { entry, otherwise: Frame::encode(std::slice::from_ref(event)).unwrap() })
    }

    /// The ledger change that a finished event comes with.
    pub(crate) fn row_update(&self, event: &Event) -> Option<LedgerUpdate> {
        let Event::ToolInvocationFinished(e) = event else { return None };
        let (_, attempt) = e.invocation.as_str().rsplit_once('#')?;
        let status = if e.outcome.is_complete() { LedgerStatus::Succeeded } else { LedgerStatus::Failed };
        Some(LedgerUpdate {
            key: IdempotencyKey::new(&run_id(&self.run), &e.command, attempt.parse().ok()?),
            status,
            result: e.result.clone(),
            error: e.error.clone(),
            committed: true,
        })
    }
}

/// A time that is over.
pub(crate) fn past() -> Timestamp {
    Timestamp::from_second(1_760_000_000).unwrap()
}

/// Frees a run from its worker, as if that had let it go.
pub(crate) async fn take_from_owner(store: &Arc<dyn Store>, held: &RunRecord, wake_at: Timestamp) {
    if let Some(owner) = &held.owner {
        store.release(owner, &held.id, held.epoch, wake_at).await.unwrap();
    }
}

/// Appends to one run through the store's own interface.
pub(crate) struct Hand {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) run: RunId,
    pub(crate) epoch: Epoch,
    pub(crate) next: Position,
}

impl Hand {
    /// Creates the run that `created` tells of, owned by this hand.
    pub(crate) async fn create(store: &Arc<dyn Store>, run: &str, created: &Event) -> Self {
        let Event::RunCreated(e) = created else { panic!("a journal begins with run_created") };
        let new = NewRun {
            id: run_id(run),
            workflow: e.workflow.clone(),
            version: e.version,
            code: CodeId::of(&e.module, &e.workflow, e.version, &e.fingerprint),
            digest: e.digest.clone(),
            parent: e.parent.clone(),
            labels: e.labels.clone(),
            traceparent: None,
            frame: Frame::encode(std::slice::from_ref(created)).unwrap(),
            at: past(),
            owner: Some(WorkerId::from("hand".to_owned())),
            parent_epoch: None,
            terms: Default::default(),
        };
        // Held until it is let go: no engine takes it up meanwhile.
        store.renew(&WorkerId::from("hand".to_owned()), Duration::MAX, Vec::new()).await.unwrap();
        store.create(new).await.unwrap();
        Self { store: store.clone(), run: run_id(run), epoch: 1, next: 1 }
    }

    /// Creates a run of a workflow of this name, with this input.
    pub(crate) async fn begin(store: &Arc<dyn Store>, run: &str, workflow: &str, input: &str) -> Self {
        Self::create(store, run, &created(workflow, input)).await
    }

    pub(crate) async fn append(
        &mut self,
        events: &[Event],
        acquire: Option<Acquire>,
        ledger: Vec<LedgerUpdate>,
    ) -> Receipt {
        self.append_frame(Frame::encode(events).unwrap(), acquire, ledger).await
    }

    pub(crate) async fn append_frame(
        &mut self,
        frame: Frame,
        acquire: Option<Acquire>,
        ledger: Vec<LedgerUpdate>,
    ) -> Receipt {
        self.try_append_frame(frame, acquire, ledger).await.unwrap()
    }

    pub(crate) async fn try_append_frame(
        &mut self,
        frame: Frame,
        acquire: Option<Acquire>,
        ledger: Vec<LedgerUpdate>,
    ) -> Result<Receipt, AppendError> {
        self.send_frame(frame, acquire, ledger).await.unwrap()
    }

    /// Appends without waiting for the answer.
    fn send_frame(
        &mut self,
        frame: Frame,
        acquire: Option<Acquire>,
        ledger: Vec<LedgerUpdate>,
    ) -> AppendReply {
        let expected = self.next;
        self.next += Position::from(frame.count);
        let (ack, reply) = Ack::awaited(self.run.clone(), self.next, Arc::default());
        let run = self.run.clone();
        let (epoch, at) = (self.epoch, past());
        let (status, consumed) = (terminal(&frame), Vec::new());
        self.store.append(Append {
            run,
            epoch,
            expected,
            at,
            frame,
            acquire,
            ledger,
            status,
            consumed,
            waits: Vec::new(),
            code: None,
            work: None,
            unless_asked_to_end: false,
            renews: None,
            streams: Vec::new(),
            ack,
        });
        reply
    }

    /// Leaves the run to be claimed.
    pub(crate) async fn let_go(self) {
        self.store.release(&WorkerId::from("hand".to_owned()), &self.run, self.epoch, past()).await.unwrap();
    }
}

/// The status that a frame's terminal event comes with.
fn terminal(frame: &Frame) -> Option<StatusChange> {
    let status = match frame.text.as_str() {
        text if text.contains("{\"run_unwinding\":") => return None,
        text if text.contains("{\"run_completed\":") => Status::Completed,
        text if text.contains("{\"run_failed\":") => Status::Failed,
        _ => return None,
    };
    Some(StatusChange { status, wake_at: None, release: true, seen: 0, notify: None })
}

/// The first event of a run of a workflow of this name.
pub(crate) fn created(workflow: &str, input: &str) -> Event {
    let input = json(input);
    let digest = Digest::of(&input).unwrap();
    RunCreated {
        module: String::new(),
        workflow: workflow.into(),
        version: 1,
        fingerprint: String::new(),
        input,
        digest,
        seed: "00".repeat(16),
        parent: None,
        labels: Default::default(),
        forked_from: None,
        terms: Default::default(),
    }
    .into()
}

pub(crate) fn json(text: &str) -> Payload {
    Payload::from_text(text.into()).unwrap()
}

/// The message of a failed run.
pub(crate) fn failed<T: std::fmt::Debug>(result: std::result::Result<T, RunError>) -> Failure {
    match result {
        Err(RunError::Failed(failure)) => failure,
        other => panic!("the run should have failed, but: {other:?}"),
    }
}
