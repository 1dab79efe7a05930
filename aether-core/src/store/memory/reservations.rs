//! Store-wide business keys in memory: who has reserved which.
//!
//! Promise: of two that replace one reservation, one does; a sealed reservation is never replaced.

use crate::sched::{HashMap, mutated};
use crate::store::ledger::{LedgerEntry, Reservation, STORE_WIDE};

#[derive(Debug, Default)]
pub(super) struct Reservations(HashMap<String, Reservation>);

impl Reservations {
    pub(super) fn get(&self, business_key: &str) -> Option<&Reservation> {
        self.0.get(business_key)
    }

    /// Writes `wanted` where nothing is, or exactly `replaces`; answers what is there afterwards.
    pub(super) fn reserve(&mut self, wanted: Reservation, replaces: Option<&Reservation>) -> Reservation {
        let fits = |found: &Reservation| match replaces {
            Some(replaces) => replaces.is_same(found) || mutated("reserves-without-comparing"),
            None => false,
        };
        match self.0.get(&wanted.business_key) {
            Some(found) if !fits(found) => found.clone(),
            _ => {
                self.0.insert(wanted.business_key.clone(), wanted.clone());
                wanted
            }
        }
    }

    /// Seals the key that a row holds, before the row is deleted.
    pub(super) fn seal(&mut self, row: LedgerEntry) {
        let Some(reservation) = Reservation::of_row(&row) else { return };
        let sealed = row.tombstone().map(Box::new);
        self.0.insert(reservation.business_key.clone(), Reservation { sealed, ..reservation });
    }
}

/// Whether a business key is unique in its run, and so a second key of its row.
pub(super) fn is_of_run(business_key: &str) -> bool {
    !business_key.starts_with(STORE_WIDE)
}
