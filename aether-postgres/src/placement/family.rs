//! Creating runs that rest on what may be in another database: children on their parents, and decided starts.
//!
//! Promise: nothing crosses databases in one transaction. The parent is looked at before its child is created and once
//! more behind that: a child whose parent has ended meanwhile is removed again, so that none is left of a parent that
//! never asked for it. Where another worker holds the parent meanwhile, the child stays, because the parent's journal asks
//! for it, and its creator gives it up. Whoever claims it looks at the parent before it begins: so also where the creator
//! was gone before the second look.
//!
//! A decision is locked in the first database until the run that rests on it is created, so that nobody notes, replaces or
//! frees it meanwhile. A run that was created is never removed for a decision that has changed since: whoever changed it may
//! have found the run.

use std::sync::Arc;

use aether_core::id::{Epoch, RunId};
use aether_core::store::ledger::LedgerEntry;
use aether_core::store::{Created, Decision, NewRun, StoreError};
use futures_util::future::BoxFuture;

use crate::create::ParentNow;
use crate::database::{Database, ask};
use crate::error::gone;
use crate::network;
use crate::placement::search::{Doubtful as _, at};
use crate::placement::shared::Shared;
use crate::row;

/// Creates a run in whichever database has its bucket. One that rests on nothing is queued before this returns. Appends to
/// any of them may be queued from then on.
pub(crate) fn create(
    shared: &Shared,
    new: NewRun,
    ledger: Vec<LedgerEntry>,
    decision: Option<Decision>,
) -> BoxFuture<'_, Result<Created, StoreError>> {
    let birth = shared.births.begin(&new.id);
    let created: BoxFuture<'_, _> = match (decision, new.parent.clone(), new.parent_epoch) {
        (Some(decision), ..) => Box::pin(decided(shared, new, ledger, decision)),
        (None, Some(parent), Some(epoch)) => Box::pin(born(shared, new, ledger, parent, epoch)),
        (None, ..) => Box::pin(placed(shared, new, ledger)),
    };
    Box::pin(async move {
        let _until_it_is_answered = birth;
        created.await
    })
}

/// Creates a child of a parent that its creator holds in this epoch.
async fn born(
    shared: &Shared,
    new: NewRun,
    ledger: Vec<LedgerEntry>,
    parent: RunId,
    epoch: Epoch,
) -> Result<Created, StoreError> {
    let now = async || Ok(ParentNow::of(at!(shared, parent.as_str(), |db| db.end_of(&parent))?, epoch));
    if now().await? != ParentNow::Held {
        // Who asks again after a lost answer is told what is there.
        let there = at!(shared, new.id.as_str(), |db| db.run_record(&new.id))?;
        return Ok(there.map_or(Created::ParentLost, |record| Created::Existing(Box::new(record))));
    }
    let (id, owner, at) = (new.id.clone(), new.owner.clone(), row::micros(new.at));
    let created = placed(shared, NewRun { parent_epoch: None, ..new }, ledger).await?;
    if created != Created::New {
        return Ok(created);
    }
    match now().await? {
        ParentNow::Held => return Ok(Created::New),
        ParentNow::Ended if at!(shared, id.as_str(), |db| db.remove(&id))?.is_gone() => {}
        ParentNow::Lost | ParentNow::Ended => {
            at!(shared, id.as_str(), |db| db.give_up(owner.as_ref(), &id, at))?;
        }
    }
    Ok(Created::ParentLost)
}

/// Locks a keyed start in a revision against every change.
const LOCK_KEYED: &str = "SELECT 1 FROM keyed_starts WHERE name = $1::text AND revision = $2::int8 FOR SHARE";

/// Locks a schedule in a revision against every change.
const LOCK_SCHEDULE: &str = "SELECT 1 FROM schedules WHERE name = $1::text AND revision = $2::int8 FOR SHARE";

/// Creates a run that rests on a record of the first database.
async fn decided(
    shared: &Shared,
    new: NewRun,
    ledger: Vec<LedgerEntry>,
    decision: Decision,
) -> Result<Created, StoreError> {
    let (home, id) = (shared.home(), new.id.clone());
    let mut search = shared.search(id.as_str());
    loop {
        let database = search.database();
        let (new, ledger) = (new.clone(), ledger.clone());
        let created = match Arc::ptr_eq(database, home) {
            // There the statement that creates it looks at the decision.
            true => database.clone().create(new, ledger, Some(decision.clone())).await,
            false => {
                let database = database.clone();
                // To its end, whoever waits for it: a creation that is under way needs the lock.
                let creating = while_it_stands(home.clone(), decision.clone(), database, new, ledger);
                network::runtime().spawn(creating).await.unwrap_or_else(|_| Err(gone(&home.name)))
            }
        };
        if !created.is_doubtful() || search.was_right().await? {
            return Ok(created?.unwrap_or(Created::DecisionGone));
        }
    }
}

/// Creates a run in `database` while its decision is locked in `home`; `None` where it was not created and is not there. Of the decided starts of this process with runs in one database, one at a time has its decision locked, on a
/// connection beside the pool: who has the lock may wait for one of the pool.
async fn while_it_stands(
    home: Arc<Database>,
    decision: Decision,
    database: Arc<Database>,
    new: NewRun,
    ledger: Vec<LedgerEntry>,
) -> Result<Option<Created>, StoreError> {
    let (lock, name, revision) = match &decision {
        Decision::KeyedStart { name, revision } => (LOCK_KEYED, name, row::int(*revision)),
        Decision::Schedule { name, revision } => (LOCK_SCHEDULE, name, row::int(*revision)),
    };
    let id = new.id.clone();
    let created: Option<Option<Created>> = ask!(at home.asking_beside(&database.deciding), |conn| {
        let transaction = conn.begin_for(home.creation_limit()).await?;
        if transaction.query(lock, &[&name, &revision]).await?.is_empty() {
            transaction.rollback().await?;
            return Ok(None);
        }
        let created = database.clone().create(new.clone(), ledger.clone(), None).await;
        // It has only locked: whether that is told to the server or the connection is lost is the same.
        let _only_locked = transaction.rollback().await;
        Ok(Some(created?))
    })?;
    Ok(match created {
        Some(created) => created,
        // Who asks again after a lost answer is told what is there.
        None => database.run_record(&id).await?.map(|record| Created::Existing(Box::new(record))),
    })
}

/// Creates a run that rests on nothing. Queued before this returns.
fn placed(
    shared: &Shared,
    new: NewRun,
    ledger: Vec<LedgerEntry>,
) -> impl Future<Output = Result<Created, StoreError>> + Send + '_ {
    let (id, mut search) = (new.id.clone(), shared.search(new.id.as_str()));
    let queue = move |database: &Arc<Database>| database.clone().create(new.clone(), ledger.clone(), None);
    let mut queued = search.queued(&queue);
    async move {
        loop {
            let created = queued.await;
            if !created.is_doubtful() || search.was_right().await? {
                return created?.ok_or_else(|| purged(shared.of(id.as_str()), &id));
            }
            queued = search.queued(&queue);
        }
    }
}

/// A run was there when another one of its id was to be created, and is not there any more.
pub(crate) fn purged(database: &Database, run: &RunId) -> StoreError {
    let reason = format!("run `{run}` was there and was purged meanwhile");
    StoreError::Unavailable { store: database.name.to_string(), reason }
}
