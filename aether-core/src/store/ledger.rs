//! The ledger: a uniquely keyed view of every tool invocation, written in the transaction that appends its events.
//!
//! Promise: of any number of callers that acquire one key, at most one may execute, and only after its started event is
//! durable. A [`DurableIntent`](crate::store::intent::DurableIntent) cannot be made in any other way.

use jiff::Timestamp;

use crate::journal::frame::Frame;
use crate::vocabulary::id::{CommandId, Epoch, IdempotencyKey, InvocationId, RunId};
use crate::vocabulary::payload::{Digest, Payload};

/// Prefix of business keys that are unique in the whole store: they are reserved. The others begin with a run's id, which
/// holds no tab, and are unique within their run.
pub const STORE_WIDE: &str = "store\t";
/// Prefix of a tombstone's key: its run was deleted, and a new run with the same id may use the key itself.
pub const PURGED: &str = "purged:";

impl LedgerEntry {
    /// What remains of this row when its run is purged; `None` unless it holds a store-wide business key.
    pub fn tombstone(self) -> Option<Self> {
        let held = self.business_key.as_ref().is_some_and(|key| key.starts_with(STORE_WIDE));
        let key = IdempotencyKey::from(format!("{PURGED}{}", self.key));
        held.then_some(Self { key, result: None, error: None, ..self })
    }
}

/// Status of an invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LedgerStatus {
    /// The intent is durable; the body may be running.
    Started,
    /// The body returned a value.
    Succeeded,
    /// The body definitely failed. The business key is free again.
    Failed,
    /// The outcome is unknown.
    InDoubt,
    /// Succeeded, and a verifier found the changed resources unchanged since.
    Confirmed,
}

impl LedgerStatus {
    /// The name in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::InDoubt => "in_doubt",
            Self::Confirmed => "confirmed",
        }
    }

    /// Reads the name written by [`LedgerStatus::as_str`].
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Started, Self::Succeeded, Self::Failed, Self::InDoubt, Self::Confirmed]
            .into_iter()
            .find(|status| status.as_str() == name)
    }
}

/// One row of the ledger.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerEntry {
    /// Key of the row, unique in the store.
    pub key: IdempotencyKey,
    /// The run that makes the call.
    pub run: RunId,
    /// The command that makes it.
    pub command: CommandId,
    /// Name of the invocation inside its run.
    pub invocation: InvocationId,
    /// Name of the tool.
    pub tool: String,
    /// Digest of the arguments.
    pub digest: Digest,
    /// A second key, held while the invocation is started, succeeded, in doubt or confirmed. The store keeps it unique
    /// unless it begins with [`STORE_WIDE`]: such a key is reserved before the row is acquired.
    pub business_key: Option<String>,
    /// Current status of the invocation.
    pub status: LedgerStatus,
    /// The value that the body returned. Absent also where a large value is only in the effect store.
    pub result: Option<Payload>,
    /// The step error. Absent also where a large error is only in the effect store.
    pub error: Option<Payload>,
    /// Whether the outcome is final.
    pub committed: bool,
    /// Epoch of the worker that started it.
    pub epoch: Epoch,
    /// When it was started.
    pub started_at: Timestamp,
    /// When its status was last set to anything but `Started`; `None` while it is started.
    pub finished_at: Option<Timestamp>,
}

/// Who holds a business key that begins with [`STORE_WIDE`].
///
/// It is written before the append that acquires the ledger row, and stays: whether the key is taken, the holder's row and
/// run say. See [`Store::reserve`](crate::store::api::Store::reserve).
#[derive(Clone, Debug, PartialEq)]
pub struct Reservation {
    /// The key.
    pub business_key: String,
    /// The run that reserved it.
    pub run: RunId,
    /// Key of the ledger row that is to hold it.
    pub key: IdempotencyKey,
    /// Epoch of the run's worker.
    pub epoch: Epoch,
    /// When it was reserved, by the worker's clock, in whole microseconds.
    pub at: Timestamp,
    /// What is left of the row when its run was purged: then the key is taken for good.
    pub sealed: Option<Box<LedgerEntry>>,
}

impl Reservation {
    /// The reservation that a row needs before it is acquired; `None` unless its business key is store-wide.
    pub fn of_row(row: &LedgerEntry) -> Option<Self> {
        let business_key = row.business_key.clone().filter(|key| key.starts_with(STORE_WIDE))?;
        let (run, key, epoch, at) = (row.run.clone(), row.key.clone(), row.epoch, row.started_at);
        Some(Self { business_key, run, key, epoch, at, sealed: None })
    }

    /// Whether both were made by the same call at the same epoch of its run. A store that compares them compares these
    /// fields, the time, and that neither is sealed.
    pub fn is_same(&self, other: &Self) -> bool {
        self.business_key == other.business_key
            && (&self.run, &self.key, self.epoch, self.at) == (&other.run, &other.key, other.epoch, other.at)
            && self.sealed.is_none()
            && other.sealed.is_none()
    }
}

/// A change of a ledger row, written in the transaction of an append. It replaces all of these fields.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerUpdate {
    /// Key of the row to change. The row must exist, or be acquired by the same append.
    pub key: IdempotencyKey,
    /// Its new status.
    pub status: LedgerStatus,
    /// Its new value.
    pub result: Option<Payload>,
    /// Its new step error.
    pub error: Option<Payload>,
    /// Whether the outcome is final.
    pub committed: bool,
}

/// The conditional insert of a ledger row: the worker whose insert succeeds may run the body.
#[derive(Clone, Debug, PartialEq)]
pub struct Acquire {
    /// The row to insert, with status [`LedgerStatus::Started`].
    pub entry: LedgerEntry,
    /// Appended in place of the append's own frame when `entry.key` is taken, or `entry.business_key` where it does not
    /// begin with [`STORE_WIDE`]. Holds as many events as that frame, so that positions do not depend on the answer.
    pub otherwise: Frame,
}

/// The store's answer to an [`Acquire`].
#[derive(Clone, Debug, PartialEq)]
pub enum Acquired {
    /// The append had no [`Acquire`].
    NotAsked,
    /// The row was inserted and the append's frame is durable.
    Granted,
    /// The key is taken by this row; `otherwise` is durable instead.
    Taken(Box<LedgerEntry>),
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::journal::event::{NodeFinished, RunCreated};
    use crate::store::ack::{Ack, Receipt};
    use crate::store::api::Store;
    use crate::store::append::Append;
    use crate::store::intent::{DurableIntent, LedgerAnswer};
    use crate::store::memory::MemoryStore;
    use crate::store::records::NewRun;
    use crate::vocabulary::id::Position;

    fn run() -> RunId {
        RunId::new("ticket-42").unwrap()
    }

    fn digest() -> Digest {
        Digest::of(&Payload::null()).unwrap()
    }

    fn entry(name: &str, attempt: u32, business_key: Option<&str>) -> LedgerEntry {
        let command = CommandId::new("0", name);
        LedgerEntry {
            key: IdempotencyKey::new(&run(), &command, attempt),
            run: run(),
            invocation: InvocationId::new(&command, attempt),
            command,
            tool: name.into(),
            digest: digest(),
            business_key: business_key.map(str::to_owned),
            status: LedgerStatus::Started,
            result: None,
            error: None,
            committed: false,
            epoch: 1,
            started_at: Timestamp::UNIX_EPOCH,
            finished_at: None,
        }
    }

    fn frame(name: &str) -> Frame {
        Frame::encode(&[NodeFinished { command: CommandId::new("0", name) }.into()]).unwrap()
    }

    /// A store with one run in it, and the run's next position.
    struct Ledger {
        store: MemoryStore,
        next: Position,
    }

    impl Ledger {
        async fn new() -> Self {
            let store = MemoryStore::new();
            let created = RunCreated {
                workflow: "flow".into(),
                module: String::new(),
                version: 1,
                fingerprint: String::new(),
                input: Payload::null(),
                digest: digest(),
                seed: String::new(),
                parent: None,
                labels: Default::default(),
                forked_from: None,
                terms: Default::default(),
            };
            let new = NewRun {
                id: run(),
                workflow: "flow".into(),
                version: 1,
                code: Default::default(),
                digest: digest(),
                parent: None,
                labels: Default::default(),
                traceparent: None,
                frame: Frame::encode(&[created.into()]).unwrap(),
                at: Timestamp::UNIX_EPOCH,
                owner: Some("worker".to_owned().into()),
                parent_epoch: None,
                terms: Default::default(),
            };
            store.create(new).await.unwrap();
            Self { store, next: 1 }
        }

        async fn append(&mut self, acquire: Option<Acquire>, ledger: Vec<LedgerUpdate>) -> Receipt {
            let (ack, reply) = Ack::awaited(run(), self.next + 1, Arc::default());
            self.store.append(Append {
                run: run(),
                epoch: 1,
                expected: self.next,
                at: Timestamp::UNIX_EPOCH,
                frame: frame("granted"),
                work: None,
                acquire,
                ledger,
                status: None,
                consumed: Vec::new(),
                waits: Vec::new(),
                code: None,
                unless_asked_to_end: false,
                renews: None,
                streams: Vec::new(),
                ack,
            });
            self.next += 1;
            reply.await.unwrap().unwrap()
        }

        async fn acquire(&mut self, entry: &LedgerEntry) -> LedgerAnswer {
            let acquire = Acquire { entry: entry.clone(), otherwise: frame("refused") };
            let receipt = self.append(Some(acquire), Vec::new()).await;
            LedgerAnswer::read(&entry.key, receipt.acquired).unwrap()
        }

        async fn settle(&mut self, entry: &LedgerEntry, status: LedgerStatus, committed: bool) {
            let key = entry.key.clone();
            let update = LedgerUpdate { key, status, result: None, error: None, committed };
            self.append(None, vec![update]).await;
        }
    }

    #[tokio::test]
    async fn a_key_is_granted_once_and_whoever_asks_again_learns_where_it_stands() {
        let mut ledger = Ledger::new().await;
        let send = entry("send", 0, None);
        let LedgerAnswer::Execute(intent) = ledger.acquire(&send).await else { panic!("not granted") };
        assert_eq!(intent.key(), &send.key);
        let LedgerAnswer::InFlight(row) = ledger.acquire(&send).await else { panic!("not in flight") };
        assert_eq!(*row, send);
        ledger.settle(&send, LedgerStatus::Succeeded, true).await;
        let LedgerAnswer::Recorded(row) = ledger.acquire(&send).await else { panic!("not recorded") };
        assert_eq!((row.key, row.status), (send.key, LedgerStatus::Succeeded));
    }

    #[tokio::test]
    async fn a_business_key_of_another_invocation_is_refused_whether_or_not_that_one_is_committed() {
        let mut ledger = Ledger::new().await;
        let first = entry("send", 0, Some("invoice-7"));
        let second = entry("send", 1, Some("invoice-7"));
        assert!(matches!(ledger.acquire(&first).await, LedgerAnswer::Execute(_)));
        for committed in [false, true] {
            ledger.settle(&first, LedgerStatus::Succeeded, committed).await;
            let LedgerAnswer::Refused(row) = ledger.acquire(&second).await else { panic!("not refused") };
            assert_eq!(row.key, first.key);
        }
        ledger.settle(&first, LedgerStatus::Failed, true).await;
        assert!(matches!(ledger.acquire(&second).await, LedgerAnswer::Execute(_)));
    }

    #[tokio::test]
    async fn an_append_that_asks_for_nothing_permits_nothing() {
        let receipt = Ledger::new().await.append(None, Vec::new()).await;
        assert!(LedgerAnswer::read(&entry("send", 0, None).key, receipt.acquired).is_none());
    }

    #[tokio::test]
    async fn an_intent_is_issued_again_under_the_key_it_had() {
        let receipt = Ledger::new().await.append(None, Vec::new()).await;
        let key = entry("send", 0, None).key;
        assert_eq!(DurableIntent::reissued(key.clone(), &receipt).key(), &key);
    }

    #[test]
    fn a_tombstone_keeps_a_store_wide_key_and_nothing_that_was_returned() {
        let held = LedgerEntry {
            result: Some(Payload::null()),
            error: Some(Payload::null()),
            ..entry("send", 0, Some("store\tinvoice-7"))
        };
        let tombstone = held.clone().tombstone().unwrap();
        let key = format!("purged:{}", held.key).into();
        assert_eq!(tombstone, LedgerEntry { key, result: None, error: None, ..held });
        assert_eq!(entry("send", 0, Some("ticket-42\tinvoice-7")).tombstone(), None);
        assert_eq!(entry("send", 0, None).tombstone(), None);
    }

    #[test]
    fn a_status_is_read_back_from_the_name_the_store_keeps() {
        let names = [
            (LedgerStatus::Started, "started"),
            (LedgerStatus::Succeeded, "succeeded"),
            (LedgerStatus::Failed, "failed"),
            (LedgerStatus::InDoubt, "in_doubt"),
            (LedgerStatus::Confirmed, "confirmed"),
        ];
        for (status, name) in names {
            assert_eq!((status.as_str(), LedgerStatus::parse(name)), (name, Some(status)));
        }
        assert_eq!(LedgerStatus::parse("lost"), None);
    }
}
