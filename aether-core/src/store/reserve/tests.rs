//! Every state in which a reservation can be found, and whether its key is free then.

#![allow(clippy::unwrap_used, reason = "a broken promise panics with what it saw")]

use std::sync::Arc;

use jiff::Timestamp;

use super::*;
use crate::journal::event::{Event, NodeFinished, RunContinued};
use crate::journal::frame::Frame;
use crate::store::ack::Ack;
use crate::store::append::{Append, StatusChange};
use crate::store::ledger::{Acquire, LedgerUpdate};
use crate::store::memory::MemoryStore;
use crate::store::purge::Purged;
use crate::store::records::{ClaimRequest, NewRun};
use crate::store::renewal::Renewal;
use crate::store::workers::SilentWorker;
use crate::vocabulary::contract::Status;
use crate::vocabulary::id::{Epoch, InvocationId, Position};
use crate::vocabulary::payload::{Digest, Payload};

const KEY: &str = "store\tshop::pay:7";

fn run_id(name: &str) -> RunId {
    RunId::new(name).unwrap()
}

fn row(run: &str, command: &str, epoch: Epoch) -> LedgerEntry {
    let command = CommandId::from(command.to_owned());
    LedgerEntry {
        key: IdempotencyKey::new(&run_id(run), &command, 0),
        run: run_id(run),
        invocation: InvocationId::new(&command, 0),
        command,
        tool: "pay".into(),
        digest: Digest::of(&Payload::null()).unwrap(),
        business_key: Some(KEY.into()),
        status: LedgerStatus::Started,
        result: None,
        error: None,
        committed: false,
        epoch,
        started_at: Timestamp::UNIX_EPOCH,
        finished_at: None,
    }
}

fn frame(events: &[Event]) -> Frame {
    Frame::encode(events).unwrap()
}

fn event() -> Event {
    NodeFinished { command: CommandId::new("0", "x") }.into()
}

/// A store, and where each run's journal ends.
struct Place {
    store: MemoryStore,
    next: Position,
}

impl Place {
    /// With the open runs `one` and `two`, both at epoch 1.
    async fn new() -> Self {
        let place = Self { store: MemoryStore::new(), next: 1 };
        place.create("one").await;
        place.create("two").await;
        place
    }

    async fn create(&self, run: &str) {
        let new = NewRun {
            id: run_id(run),
            workflow: "flow".into(),
            version: 1,
            code: Default::default(),
            digest: Digest::of(&Payload::null()).unwrap(),
            parent: None,
            labels: Default::default(),
            traceparent: None,
            frame: frame(&[event()]),
            at: Timestamp::UNIX_EPOCH,
            owner: Some("first".to_owned().into()),
            parent_epoch: None,
            terms: Default::default(),
        };
        self.store.create(new).await.unwrap();
    }

    /// Appends to run `one` at epoch 1.
    async fn append(&mut self, change: impl FnOnce(&mut Append)) {
        let (run, expected) = (run_id("one"), self.next);
        let (ack, reply) = Ack::awaited(run.clone(), expected + 1, Arc::default());
        let mut append = Append {
            run,
            epoch: 1,
            expected,
            at: Timestamp::UNIX_EPOCH,
            frame: frame(&[event()]),
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
            ack,
        };
        change(&mut append);
        self.next += Position::from(append.frame.count);
        self.store.append(append);
        reply.await.unwrap().unwrap();
    }

    /// Run `one` reserves the key, as its first command.
    async fn reserved(&self) -> LedgerEntry {
        let row = row("one", "0:pay", 1);
        assert!(matches!(self.ask(&row).await, Reserved::Granted));
        row
    }

    /// Run `one` reserves the key and begins the call, which then stands as `status`.
    async fn called(&mut self, status: LedgerStatus) -> LedgerEntry {
        let row = self.reserved().await;
        let acquire = Some(Acquire { entry: row.clone(), otherwise: frame(&[event()]) });
        self.append(|append| append.acquire = acquire).await;
        let committed = matches!(status, LedgerStatus::Succeeded | LedgerStatus::Failed);
        let update = LedgerUpdate { key: row.key.clone(), status, result: None, error: None, committed };
        self.append(|append| append.ledger = vec![update]).await;
        row
    }

    async fn end(&mut self) {
        let change =
            StatusChange { status: Status::Completed, wake_at: None, release: true, seen: 0, notify: None };
        self.append(|append| append.status = Some(change)).await;
    }

    /// Another worker takes both runs from the first one.
    async fn take_over(&self) {
        let silent = vec![SilentWorker { id: "first".to_owned().into(), renewals: 0 }];
        let request = ClaimRequest {
            worker: "second".to_owned().into(),
            now: Timestamp::UNIX_EPOCH,
            silent,
            limit: 10,
            codes: vec![Default::default()],
            only: None,
            adopt: Vec::new(),
            serves: Default::default(),
            others_first: false,
            lapsed_first: false,
        };
        assert_eq!(self.store.claim(request).await.unwrap().len(), 2);
    }

    async fn ask(&self, row: &LedgerEntry) -> Reserved {
        reserve(&self.store, &Reservation::of_row(row).unwrap()).await.unwrap()
    }

    /// Who holds the key against run `two`, which then has it or has it not.
    async fn against_two(&self, epoch: Epoch) -> Option<Holder> {
        let found = holder(&self.store, &run_id("two"), KEY).await.unwrap();
        let row = row("two", "0:pay", epoch);
        match self.ask(&row).await {
            Reserved::Granted => assert_eq!(found, None),
            Reserved::Taken(other) => assert_eq!(found, Some(*other)),
        }
        let held = self.store.reservation(KEY).await.unwrap().unwrap();
        assert_eq!(held.run == run_id("two"), found.is_none());
        found
    }
}

#[tokio::test]
async fn a_key_that_is_about_to_be_used_is_taken() {
    let place = Place::new().await;
    let row = place.reserved().await;
    let holder = place.against_two(1).await.unwrap();
    assert_eq!((holder.run.as_str(), &holder.key, &holder.row), ("one", &row.key, &None));
    assert_eq!((holder.command(), holder.is_committed()), (row.command.clone(), false));
    assert!(matches!(place.ask(&row).await, Reserved::Granted), "its own call finds what it has written");
}

#[tokio::test]
async fn only_a_failed_call_frees_its_key() {
    for status in [
        LedgerStatus::Started,
        LedgerStatus::InDoubt,
        LedgerStatus::Succeeded,
        LedgerStatus::Confirmed,
        LedgerStatus::Failed,
    ] {
        for ends in [false, true] {
            let mut place = Place::new().await;
            place.called(status).await;
            if ends {
                place.end().await;
            }
            let holder = place.against_two(1).await;
            assert_eq!(holder.is_none(), status == LedgerStatus::Failed, "{status:?}, {ends}: {holder:?}");
        }
    }
}

#[tokio::test]
async fn a_run_that_ended_without_the_call_holds_no_key() {
    let mut place = Place::new().await;
    place.reserved().await;
    place.end().await;
    assert_eq!(place.against_two(1).await, None);
    let mut place = Place::new().await;
    place.reserved().await;
    place.end().await;
    assert_eq!(place.store.purge(&run_id("one"), None).await, Ok(Purged::Deleted));
    assert_eq!(place.against_two(1).await, None, "nor does one that is gone");
}

#[tokio::test]
async fn a_worker_that_lost_its_run_holds_no_key_for_it() {
    let place = Place::new().await;
    place.take_over().await;
    // It reserves late: it does not know that it is stale.
    let stale = place.reserved().await;
    assert_eq!(place.against_two(2).await, None);
    assert!(matches!(place.ask(&stale).await, Reserved::Taken(_)), "and takes it from nobody");
    assert_eq!(place.store.reservation(KEY).await.unwrap().unwrap().run, run_id("two"));
}

#[tokio::test]
async fn the_next_worker_of_the_run_reserves_again_and_the_stale_one_cannot() {
    let place = Place::new().await;
    let stale = place.reserved().await;
    place.take_over().await;
    let mine = row("one", "0:pay", 2);
    assert!(matches!(place.ask(&mine).await, Reserved::Granted));
    let Reserved::Taken(holder) = place.ask(&stale).await else { panic!("the stale worker got it back") };
    assert_eq!((holder.run.as_str(), holder.row), ("one", None));
    assert_eq!(place.store.reservation(KEY).await.unwrap().unwrap().epoch, 2);
    assert!(place.against_two(2).await.is_some());
}

#[tokio::test]
async fn a_generation_that_is_over_holds_no_key_without_a_row() {
    let mut place = Place::new().await;
    place.called(LedgerStatus::Failed).await;
    let (base, renewal) = (place.next, Renewal { workflow: "flow".into(), version: 1, began: 0 });
    let continued = RunContinued {
        generation: 1,
        previous: "0".repeat(64),
        started_as: "flow".into(),
        started_at: Timestamp::UNIX_EPOCH,
        carried: None,
        first_input: None,
        spent: None,
    };
    place
        .append(|append| {
            append.frame = frame(&[event(), continued.into()]);
            append.renews = Some(renewal);
        })
        .await;
    let rows = place.store.entries(&run_id("one")).await.unwrap();
    assert_eq!((rows, place.store.load(&run_id("one"), 0).await.unwrap()[0].position), (Vec::new(), base));
    // The row of the failed call went with its generation. Of the present one, a call may be about to begin.
    let present = row("one", "c1.0:pay", 1);
    let before = place.store.reservation(KEY).await.unwrap();
    assert_eq!(holder(&place.store, &run_id("two"), KEY).await, Ok(None));
    let wanted = Reservation::of_row(&present).unwrap();
    place.store.reserve(wanted.clone(), before).await.unwrap();
    assert!(holder(&place.store, &run_id("two"), KEY).await.unwrap().is_some());
    // Of a place that does not tell its generation, nothing is known.
    let unclear = Reservation::of_row(&row("one", "undo.2:pay", 1)).unwrap();
    place.store.reserve(unclear, Some(wanted)).await.unwrap();
    assert!(place.against_two(1).await.is_some());
}

#[tokio::test]
async fn a_key_whose_run_was_purged_stays_taken() {
    let mut place = Place::new().await;
    place.called(LedgerStatus::Succeeded).await;
    place.end().await;
    let before = holder(&place.store, &run_id("two"), KEY).await.unwrap().unwrap();
    assert_eq!(place.store.purge(&run_id("one"), None).await, Ok(Purged::Deleted));
    let holder = place.against_two(1).await.unwrap();
    assert_eq!((&holder.run, holder.command()), (&before.run, before.command()));
    // Also for a run that has the id of the one that is gone.
    place.create("one").await;
    assert!(matches!(place.ask(&row("one", "0:pay", 1)).await, Reserved::Taken(_)));
}

#[tokio::test]
async fn a_new_run_with_the_id_of_an_old_one_inherits_no_reservation() {
    let mut place = Place::new().await;
    place.reserved().await;
    place.end().await;
    assert_eq!(place.store.purge(&run_id("one"), None).await, Ok(Purged::Deleted));
    place.create("one").await;
    // The same key and epoch, and another row under it: of a step that asks for no key in the store.
    place.next = 1;
    let entry = LedgerEntry { business_key: None, ..row("one", "0:pay", 1) };
    place.append(|append| append.acquire = Some(Acquire { entry, otherwise: frame(&[event()]) })).await;
    assert_eq!(place.against_two(1).await, None);
}

#[tokio::test]
async fn a_key_within_a_run_is_held_by_a_row_of_that_run() {
    let mut place = Place::new().await;
    let entry = LedgerEntry { business_key: Some("one/pay:7".into()), ..row("one", "0:pay", 1) };
    let acquire = Some(Acquire { entry: entry.clone(), otherwise: frame(&[event()]) });
    place.append(|append| append.acquire = acquire).await;
    let found = holder(&place.store, &run_id("one"), "one/pay:7").await.unwrap();
    assert_eq!(found, Some(Holder::of(entry)));
    assert_eq!(holder(&place.store, &run_id("one"), "one/pay:8").await, Ok(None));
    assert_eq!(holder(&place.store, &run_id("two"), KEY).await, Ok(None));
}
