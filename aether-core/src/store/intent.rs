//! The permission to run a body that may change the world, and the ledger's answer to a request for it.
//!
//! Promise: a [`DurableIntent`] is made from the receipt of a durable append and from nothing else.

use crate::store::ledger::{Acquired, LedgerEntry};
use crate::vocabulary::id::IdempotencyKey;

/// The permission to run one world-changing body once. Only a durable append of its started event creates one.
#[derive(Debug)]
pub struct DurableIntent {
    key: IdempotencyKey,
    is_reissued: bool,
}

impl DurableIntent {
    /// The same intent again, because the step's policy is to retry; `receipt` proves that the decision is durable.
    pub(crate) fn reissued(key: IdempotencyKey, _receipt: &crate::store::ack::Receipt) -> Self {
        Self { key, is_reissued: true }
    }

    /// The idempotency key to give to the receiver.
    pub fn key(&self) -> &IdempotencyKey {
        &self.key
    }

    /// Whether the body may have been run under this key before.
    pub fn is_reissued(&self) -> bool {
        self.is_reissued
    }
}

/// The ledger's answer to a worker that wants to run a world-changing body.
#[derive(Debug)]
#[non_exhaustive]
pub enum LedgerAnswer {
    /// The key was free: run the body.
    Execute(DurableIntent),
    /// The body has run; its row holds the outcome.
    Recorded(Box<LedgerEntry>),
    /// The body was started under this key before, and its outcome is not known.
    InFlight(Box<LedgerEntry>),
    /// The business key belongs to another invocation, whose row this is.
    Refused(Box<LedgerEntry>),
}

impl LedgerAnswer {
    /// Reads the answer to a durable append. `key` is the key it asked for; `None` where it asked for none.
    pub(crate) fn read(key: &IdempotencyKey, acquired: Acquired) -> Option<Self> {
        Some(match acquired {
            Acquired::NotAsked => return None,
            Acquired::Granted => Self::Execute(DurableIntent { key: key.clone(), is_reissued: false }),
            Acquired::Taken(row) if row.key != *key => Self::Refused(row),
            Acquired::Taken(row) if row.committed => Self::Recorded(row),
            Acquired::Taken(row) => Self::InFlight(row),
        })
    }
}
