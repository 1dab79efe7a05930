//! What the rules are written with: fixed times, small frames, and a `Hand` that appends to one run.
//!
//! Promise: nothing here depends on the time at which a test runs.

use std::sync::Arc;
use std::time::Duration;

use aether_core::contract::Status;
use aether_core::id::{CodeId, CommandId, Epoch, IdempotencyKey, InvocationId, Position, RunId, WorkerId};
use aether_core::journal::Frame;
use aether_core::journal::event::NodeFinished;
use aether_core::payload::{Digest, Payload};
use aether_core::store::AppendReply;
use aether_core::store::ledger::{Acquire, LedgerEntry, LedgerStatus, LedgerUpdate, Reservation};
use aether_core::store::{
    Ack, Append, AppendError, ClaimRequest, DurableWatermark, Lease, Message, NewRun, OpenWait, Receipt,
    SilentWorker, StatusChange, Store, holder,
};
use aether_core::waiting::Waiting;
use jiff::Timestamp;

/// `seconds` after a fixed beginning, with microseconds, which a store must not round.
pub(super) fn at(seconds: u64) -> Timestamp {
    let start = Timestamp::from_microsecond(1_700_000_000_123_456).unwrap();
    start + Duration::from_secs(seconds)
}

pub(super) fn run_id(name: &str) -> RunId {
    RunId::new(name).unwrap()
}

pub(super) fn worker(name: &str) -> WorkerId {
    WorkerId::from(name.to_owned())
}

/// The code of a definition of workflow `name`.
pub(super) fn code(name: &str) -> CodeId {
    CodeId::of("shop", name, 3, "0011223344556677")
}

pub(super) fn json(text: &str) -> Payload {
    Payload::from_text(text.to_owned()).unwrap()
}

pub(super) fn digest(text: &str) -> Digest {
    Digest::of(&Payload::encode(text).unwrap()).unwrap()
}

/// One event for each of `names`.
pub(super) fn frame(names: &[&str]) -> Frame {
    let event = |name: &&str| NodeFinished { command: CommandId::new("0", name) }.into();
    Frame::encode(&names.iter().map(event).collect::<Vec<_>>()).unwrap()
}

/// A run of workflow `flow`, created at second 0, held by worker `first`.
pub(super) fn new_run(name: &str) -> NewRun {
    NewRun {
        id: run_id(name),
        workflow: "flow".into(),
        version: 3,
        code: code("flow"),
        digest: digest(name),
        parent: None,
        labels: Default::default(),
        traceparent: None,
        frame: frame(&["created"]),
        at: at(0),
        owner: Some(worker("first")),
        parent_epoch: None,
        terms: Default::default(),
    }
}

pub(super) fn message(id: &str, seconds: u64) -> Message {
    Message {
        seq: 0,
        id: id.into(),
        topic: format!("signal:{id}"),
        payload: json("{\"b\": 1,\"a\":2}"),
        at: at(seconds),
    }
}

pub(super) fn entry(run: &RunId, name: &str, business: Option<&str>) -> LedgerEntry {
    let command = CommandId::new("1", name);
    LedgerEntry {
        key: IdempotencyKey::new(run, &command, 0),
        run: run.clone(),
        invocation: InvocationId::new(&command, 0),
        command,
        tool: "send_email".into(),
        digest: digest(name),
        business_key: business.map(str::to_owned),
        status: LedgerStatus::Started,
        result: None,
        error: None,
        committed: false,
        epoch: 1,
        started_at: at(2),
        finished_at: None,
    }
}

/// What the call of [`entry`] reserves.
pub(super) fn reservation(run: &str, name: &str, business_key: &str) -> Reservation {
    let row = entry(&run_id(run), name, Some(business_key));
    let (run, key, epoch, at) = (row.run, row.key, row.epoch, row.started_at);
    Reservation { business_key: business_key.into(), run, key, epoch, at, sealed: None }
}

/// The row that holds a business key, of which `run` asks.
pub(super) async fn held(store: &Arc<dyn Store>, run: &RunId, business_key: &str) -> Option<LedgerEntry> {
    holder(&**store, run, business_key).await.unwrap().and_then(|holder| holder.row)
}

pub(super) fn acquire(run: &RunId, name: &str, business: Option<&str>) -> Acquire {
    Acquire { entry: entry(run, name, business), otherwise: frame(&["refused"]) }
}

pub(super) fn update(key: &IdempotencyKey, status: LedgerStatus) -> LedgerUpdate {
    LedgerUpdate { key: key.clone(), status, result: None, error: None, committed: true }
}

pub(super) fn becomes(status: Status, wake_at: Option<Timestamp>, release: bool) -> StatusChange {
    StatusChange { status, wake_at, release, seen: 0, notify: None }
}

/// An open wait, the `place`-th of its run.
pub(super) fn wait(place: u32, waiting: Waiting, name: &str) -> OpenWait {
    OpenWait {
        command: CommandId::new(&place.to_string(), name),
        waiting,
        name: name.into(),
        since: at(u64::from(place)),
        until: place.is_multiple_of(2).then(|| at(900)),
        site: (!place.is_multiple_of(2)).then(|| "src/flow.rs:7".into()),
        detail: Payload::from_text(format!("{{\"place\":{place}}}")).unwrap(),
    }
}

/// A claim at second `now` of all due runs that nobody holds.
pub(super) fn claim(name: &str, now: u64) -> ClaimRequest {
    ClaimRequest {
        worker: worker(name),
        now: at(now),
        silent: Vec::new(),
        limit: 10,
        codes: vec![code("flow")],
        only: None,
        adopt: Vec::new(),
        serves: Default::default(),
        others_first: false,
        lapsed_first: false,
    }
}

/// A claim as [`claim`], by a worker that has seen `former` silent since its first `renewals`.
pub(super) fn takeover(name: &str, now: u64, former: &str, renewals: u64) -> ClaimRequest {
    ClaimRequest { silent: vec![SilentWorker { id: worker(former), renewals }], ..claim(name, now) }
}

/// Ids of the claimed runs.
pub(super) fn names(leases: &[Lease]) -> Vec<&str> {
    leases.iter().map(|lease| lease.run.id.as_str()).collect()
}

/// Appends to one run in order, as a worker does: it keeps epoch and next position.
pub(super) struct Hand {
    pub(super) store: Arc<dyn Store>,
    pub(super) run: RunId,
    pub(super) epoch: Epoch,
    pub(super) next: Position,
    pub(super) watermark: Arc<DurableWatermark>,
}

impl Hand {
    /// Creates [`new_run`]; appends as its owner.
    pub(super) async fn create(store: &Arc<dyn Store>, name: &str) -> Self {
        store.create(new_run(name)).await.unwrap();
        Self::of(store, name, 1, 1)
    }

    pub(super) fn of(store: &Arc<dyn Store>, name: &str, epoch: Epoch, next: Position) -> Self {
        Self { store: store.clone(), run: run_id(name), epoch, next, watermark: Arc::default() }
    }

    fn make(&mut self, change: impl FnOnce(&mut Append)) -> Append {
        let expected = self.next;
        let mut append = Append {
            run: self.run.clone(),
            epoch: self.epoch,
            expected,
            at: at(3),
            frame: frame(&[&format!("event{expected}")]),
            work: None,
            acquire: None,
            ledger: Vec::new(),
            status: None,
            consumed: Vec::new(),
            waits: Vec::new(),
            code: None,
            unless_asked_to_end: false,
            renews: None,
            streams: Vec::new(),
            ack: Ack::silent(self.run.clone(), expected, Arc::default()),
        };
        change(&mut append);
        self.next = append.expected + Position::from(append.frame.count);
        append
    }

    /// Queues an append without waiting for its answer.
    pub(super) fn silent(&mut self, change: impl FnOnce(&mut Append)) {
        let mut append = self.make(change);
        append.ack = Ack::silent(self.run.clone(), self.next, self.watermark.clone());
        self.store.append(append);
    }

    /// Queues an append; the answer comes through the returned reply.
    pub(super) fn queue(&mut self, change: impl FnOnce(&mut Append)) -> AppendReply {
        let mut append = self.make(change);
        let (ack, reply) = Ack::awaited(self.run.clone(), self.next, self.watermark.clone());
        append.ack = ack;
        self.store.append(append);
        reply
    }

    /// Appends, and waits until it is durable or refused.
    pub(super) async fn append(&mut self, change: impl FnOnce(&mut Append)) -> Result<Receipt, AppendError> {
        self.queue(change).await.expect("every append is answered")
    }

    /// Appends a status, and waits until it is durable.
    pub(super) async fn status(&mut self, change: StatusChange) {
        self.append(|append| append.status = Some(change)).await.unwrap();
    }
}
