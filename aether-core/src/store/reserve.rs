//! Whether a store-wide business key is free: the decision over a reservation, the holder's run and its ledger row.
//!
//! Promise: a key is given to another call only where the one that reserved it definitely failed, or can never acquire its
//! row any more; a key whose holder failed, or whose run ended without the call, is free.

use crate::journal::generation::Generation;
use crate::sched::mutated;
use crate::store::api::Store;
use crate::store::error::StoreError;
use crate::store::ledger::{LedgerEntry, LedgerStatus, Reservation, STORE_WIDE};
use crate::store::records::RunRecord;
use crate::vocabulary::id::{CommandId, IdempotencyKey, RunId};

/// The call that holds a business key.
#[derive(Clone, Debug, PartialEq)]
pub struct Holder {
    /// The run that makes the call.
    pub run: RunId,
    /// Key of the attempt.
    pub key: IdempotencyKey,
    /// Its ledger row, or what is left of it; `None` while it is only reserved, and about to begin.
    pub row: Option<LedgerEntry>,
}

impl Holder {
    /// The command that makes the call.
    pub fn command(&self) -> CommandId {
        let of_row = self.row.as_ref().map(|row| row.command.clone());
        let of_key = || self.key.attempt().map(|(command, _)| command);
        of_row.or_else(of_key).unwrap_or_else(|| CommandId::from(self.key.as_str().to_owned()))
    }

    /// Whether its outcome is final.
    pub fn is_committed(&self) -> bool {
        self.row.as_ref().is_some_and(|row| row.committed)
    }

    /// The call of a ledger row.
    pub(crate) fn of(row: LedgerEntry) -> Self {
        Self { run: row.run.clone(), key: row.key.clone(), row: Some(row) }
    }
}

/// The answer to a call that wants a store-wide business key.
#[derive(Debug)]
pub(crate) enum Reserved {
    /// The key is reserved for it; the append that acquires its row comes next.
    Granted,
    /// Another call holds the key.
    Taken(Box<Holder>),
}

/// Reserves a store-wide business key. Asked again after an error, it finds what it has written before.
pub(crate) async fn reserve(store: &dyn Store, wanted: &Reservation) -> Result<Reserved, StoreError> {
    let mut replaces = None;
    loop {
        let found = store.reserve(wanted.clone(), replaces.take()).await?;
        if found.is_same(wanted) {
            return Ok(Reserved::Granted);
        }
        if !is_own(&found, wanted)
            && let Some(holder) = holder_of(store, &found).await?
        {
            return Ok(Reserved::Taken(Box::new(holder)));
        }
        // Compared with what was judged: of two that find a key free, one gets it, and the other one judges that one.
        replaces = Some(found);
    }
}

/// Whether a reservation was made for the same attempt, by this worker or by one that it took the run from.
fn is_own(found: &Reservation, wanted: &Reservation) -> bool {
    found.sealed.is_none()
        && (&found.run, &found.key) == (&wanted.run, &wanted.key)
        && found.epoch <= wanted.epoch
}

/// The call that holds a business key which `run` asks for; `None` where it is free.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub async fn holder(
    store: &dyn Store,
    run: &RunId,
    business_key: &str,
) -> Result<Option<Holder>, StoreError> {
    if business_key.starts_with(STORE_WIDE) {
        return match store.reservation(business_key).await? {
            Some(found) => holder_of(store, &found).await,
            None => Ok(None),
        };
    }
    let rows = store.entries(run).await?.into_iter();
    Ok(rows.into_iter().find(|row| holds(store, row, business_key)).map(Holder::of))
}

/// The call for which a key is reserved; `None` where it has failed, or can never begin.
async fn holder_of(store: &dyn Store, found: &Reservation) -> Result<Option<Holder>, StoreError> {
    if let Some(tombstone) = &found.sealed {
        return Ok(Some(Holder::of((**tombstone).clone())));
    }
    if mutated("row-before-run") {
        let row = store.holder_entry(&found.run, &found.key).await?;
        let begins = may_begin(store, found, store.run(&found.run).await?).await?;
        return Ok(judged(store, found, row, begins));
    }
    // The run first. Where it can acquire the row no more, a look at the row afterwards finds whatever it did before; the
    // other way round, it could acquire the row between the two looks.
    let begins = may_begin(store, found, store.run(&found.run).await?).await?;
    let row = store.holder_entry(&found.run, &found.key).await?;
    Ok(judged(store, found, row, begins))
}

fn judged(store: &dyn Store, found: &Reservation, row: Option<LedgerEntry>, begins: bool) -> Option<Holder> {
    match row {
        Some(row) if holds(store, &row, &found.business_key) => Some(Holder::of(row)),
        // It failed; or it is the row of another call, of a run whose id was used before.
        Some(_) => None,
        None => begins.then(|| Holder { run: found.run.clone(), key: found.key.clone(), row: None }),
    }
}

fn holds(store: &dyn Store, row: &LedgerEntry, business_key: &str) -> bool {
    let is_named = |stored: &String| store.is_business_key(stored, business_key);
    row.status != LedgerStatus::Failed && row.business_key.as_ref().is_some_and(is_named)
}

/// Whether the row for which the key is reserved may still be acquired: its run is open, at the epoch of the reservation,
/// and in the generation of the call. A later epoch fences the worker that reserved, and the new one reserves again before
/// it calls anything.
async fn may_begin(
    store: &dyn Store,
    found: &Reservation,
    run: Option<RunRecord>,
) -> Result<bool, StoreError> {
    if !run.is_some_and(|run| !run.status.is_terminal() && run.epoch == found.epoch) {
        return Ok(false);
    }
    let Some(generation) = found.key.attempt().and_then(|(command, _)| Generation::of_command(&command))
    else {
        return Ok(true);
    };
    let frames = store.load_page(&found.run, 0, 2).await?;
    let Some(first) = frames.first() else { return Ok(false) };
    // A journal that cannot be read says nothing about its generation.
    let events = first.events().unwrap_or_default();
    Ok(Generation::of(first.position, &events).number <= generation)
}

#[cfg(test)]
mod tests;
