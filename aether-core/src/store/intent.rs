//! The right to run a body that may change the world, and what the ledger answers to a request for it.
//!
//! Promise: a [`DurableIntent`] is made from the receipt of a durable append and from nothing else.

use crate::store::ledger::{Acquired, LedgerEntry};
use crate::vocabulary::id::IdempotencyKey;

/// The right to run one world-changing body once. Only a durable append of its started event creates it.
#[derive(Debug)]
pub struct DurableIntent {
    key: IdempotencyKey,
}

impl DurableIntent {
    /// The same intent once more, because its policy says to send it again; `receipt` shows that the decision is
    /// durable.
    pub(crate) fn reissued(key: IdempotencyKey, _receipt: &crate::store::ack::Receipt) -> Self {
        Self { key }
    }

    /// The stable name that the outside world should see.
    pub fn key(&self) -> &IdempotencyKey {
        &self.key
    }
}

/// The ledger's answer to a worker that wants to run a world-changing body.
#[derive(Debug)]
#[non_exhaustive]
pub enum LedgerAnswer {
    /// Run the body.
    Execute(DurableIntent),
    /// It was run; this is its row.
    Recorded(Box<LedgerEntry>),
    /// Somebody started it and its outcome is not known.
    InFlight(Box<LedgerEntry>),
    /// The business key belongs to another invocation.
    Refused(Box<LedgerEntry>),
}

impl LedgerAnswer {
    /// Reads a durable append's answer. `key` is the key that was asked for.
    pub(crate) fn read(key: &IdempotencyKey, acquired: Acquired) -> Option<Self> {
        Some(match acquired {
            Acquired::NotAsked => return None,
            Acquired::Granted => Self::Execute(DurableIntent { key: key.clone() }),
            Acquired::Taken(row) if row.key != *key => Self::Refused(row),
            Acquired::Taken(row) if row.committed => Self::Recorded(row),
            Acquired::Taken(row) => Self::InFlight(row),
        })
    }
}
