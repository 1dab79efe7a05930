//! Limits on steps in a store: a record for each, which is changed by compare-and-swap.
//!
//! Promise: no change is lost, however many processes make one at the same time. The records are among those of keyed
//! starts, under a workflow of a name that no workflow can have, and never due.

use jiff::Timestamp;

use crate::store::api::Store;
use crate::store::error::StoreError;
use crate::store::queues::{DueStarts, KeyedStart};
use crate::store::step_limits::{Bookings, StepLimit};
use crate::vocabulary::payload::Payload;

/// What stands in the place of a workflow's name.
const KIND: &str = "limit on steps";
/// The most limits that are listed.
const MOST: usize = 1_000;

fn key(name: &str) -> String {
    format!("{KIND} {name}")
}

fn read(row: &KeyedStart) -> Result<Bookings, StoreError> {
    row.record.decode().map_err(|error| StoreError::Corrupt {
        store: "of limits on steps".into(),
        reason: format!("`{}` cannot be read: {error}", row.name),
    })
}

fn row(name: &str, bookings: &Bookings, revision: u64) -> Result<KeyedStart, StoreError> {
    let record = Payload::encode(bookings).map_err(|error| StoreError::Unencodable {
        what: format!("limit `{name}`"),
        reason: error.to_string(),
    })?;
    Ok(KeyedStart { name: key(name), workflow: KIND.into(), due_at: Timestamp::MAX, record, revision })
}

/// The limit of this name; `None` where there is none.
pub(crate) async fn find(store: &dyn Store, name: &str) -> Result<Option<Bookings>, StoreError> {
    store.keyed_start(&key(name)).await?.as_ref().map(read).transpose()
}

/// Changes the limit of this name; `None` where there is none.
pub(crate) async fn change<T>(
    store: &dyn Store,
    name: &str,
    change: impl Fn(&mut Bookings) -> T + Send + Sync,
) -> Result<Option<T>, StoreError> {
    loop {
        let Some(found) = store.keyed_start(&key(name)).await? else { return Ok(None) };
        let mut bookings = read(&found)?;
        let value = change(&mut bookings);
        let changed = row(name, &bookings, found.revision.saturating_add(1))?;
        // Where another one was quicker, it is made on what that one wrote.
        if store.put_keyed_start(changed, found.revision).await? {
            return Ok(Some(value));
        }
    }
}

/// Sets a limit, in place of the one of that name.
pub(crate) async fn set(store: &dyn Store, limit: &StepLimit, now: Timestamp) -> Result<(), StoreError> {
    loop {
        if change(store, &limit.name, |bookings| bookings.replace(now, limit.clone())).await?.is_some() {
            return Ok(());
        }
        // A removed one of that name began elsewhere: who read that one must not change this one.
        let first = u64::try_from(now.as_microsecond()).unwrap_or(0).max(1);
        let new = row(&limit.name, &Bookings::new(limit.clone(), now), first)?;
        if store.put_keyed_start(new, 0).await? {
            return Ok(());
        }
    }
}

/// Removes the limit of this name; says whether there was one.
pub(crate) async fn remove(store: &dyn Store, name: &str) -> Result<bool, StoreError> {
    loop {
        let Some(found) = store.keyed_start(&key(name)).await? else { return Ok(false) };
        if store.remove_keyed_start(&found.name, found.revision).await? {
            return Ok(true);
        }
    }
}

/// All limits, by name.
pub(crate) async fn list(store: &dyn Store) -> Result<Vec<Bookings>, StoreError> {
    let query = DueStarts { now: Timestamp::MAX, workflows: [KIND.into()].into(), after: None, limit: MOST };
    let mut rows = store.due_starts(query).await?;
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    rows.iter().map(read).collect()
}
