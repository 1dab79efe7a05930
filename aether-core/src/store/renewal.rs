//! The next generation of a run, as an append carries it to a store.
//!
//! Promise: plain values; what a store deletes for it is said here.

use crate::store::ledger::{LedgerEntry, LedgerStatus};
use crate::vocabulary::id::Position;

/// The append that carries this begins a new generation of its run: the workflow continued as new. In the same write the
/// store
///
/// 1. deletes all frames of the run that stand before the append's own, whose chain hash follows the last of them,
/// 2. deletes the run's ledger rows for which [`Renewal::drops`] holds, and the stored effects under keys that have no
///    ledger row any more,
/// 3. forgets the messages that were consumed before position [`Renewal::began`], so that their ids are free again,
/// 4. deletes the run's snapshot and the progress of its bodies,
/// 5. lists the run under the workflow and version given here.
///
/// Unread messages, labels, id and digest stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// Name of the workflow that the new generation runs.
    pub workflow: String,
    /// Version of its definition.
    pub version: u32,
    /// Position of the first event of the generation that ends.
    pub began: Position,
}

impl Renewal {
    /// Whether a ledger row goes with its generation: its outcome is known, and it holds no business key that is to stay
    /// taken.
    pub fn drops(entry: &LedgerEntry) -> bool {
        let open = matches!(entry.status, LedgerStatus::Started | LedgerStatus::InDoubt);
        !open && entry.business_key.is_none()
    }
}
