//! What the tests of the SQLite store are written with: fixed times, small frames, runs of one workflow, appends.

use std::sync::Arc;
use std::time::Duration;

use aether_core::id::{CodeId, CommandId, RunId, WorkerId};
use aether_core::journal::Frame;
use aether_core::journal::event::NodeFinished;
use aether_core::payload::{Digest, Payload};
use aether_core::store::{Ack, Append, AppendReply, ClaimRequest, NewRun, Store};
use aether_sqlite::SqliteStore;
use jiff::Timestamp;

pub(crate) fn at(seconds: u64) -> Timestamp {
    Timestamp::from_microsecond(1_700_000_000_123_456).unwrap() + Duration::from_secs(seconds)
}

pub(crate) fn id(name: &str) -> RunId {
    RunId::new(name).unwrap()
}

pub(crate) fn frame(name: &str) -> Frame {
    Frame::encode(&[NodeFinished { command: CommandId::new("0", name) }.into()]).unwrap()
}

/// A run of workflow `flow`, held by worker `first`.
pub(crate) fn new_run(name: &str) -> NewRun {
    NewRun {
        id: id(name),
        workflow: "flow".into(),
        version: 1,
        code: CodeId::default(),
        digest: Digest::of(&Payload::null()).unwrap(),
        parent: None,
        labels: Default::default(),
        traceparent: None,
        frame: frame("created"),
        at: at(0),
        owner: Some(WorkerId::from("first".to_owned())),
        parent_epoch: None,
        terms: Default::default(),
    }
}

#[allow(dead_code, reason = "not every test program appends")]
/// An append of one frame and nothing else.
pub(crate) fn append(name: &str, epoch: u64, expected: u64, frame: Frame) -> Append {
    Append {
        run: id(name),
        epoch,
        expected,
        at: at(3),
        frame,
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
        ack: Ack::silent(id(name), expected + 1, Arc::default()),
    }
}

#[allow(dead_code, reason = "not every test program appends")]
pub(crate) fn queue(store: &SqliteStore, mut append: Append) -> AppendReply {
    let next = append.expected + u64::from(append.frame.count);
    let (ack, reply) = Ack::awaited(append.run.clone(), next, Arc::default());
    append.ack = ack;
    store.append(append);
    reply
}

#[allow(dead_code, reason = "not every test program claims")]
/// A claim at second `now` of all due runs that nobody holds.
pub(crate) fn claim(worker: &str, now: u64) -> ClaimRequest {
    ClaimRequest {
        worker: WorkerId::from(worker.to_owned()),
        now: at(now),
        silent: Vec::new(),
        limit: 10,
        codes: vec![CodeId::default()],
        only: None,
        adopt: Vec::new(),
        serves: Default::default(),
        others_first: false,
        lapsed_first: false,
    }
}
