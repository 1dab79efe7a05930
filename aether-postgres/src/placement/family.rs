//! Creating children whose parents may be in another database.
//!
//! Promise: nothing crosses databases in one transaction. The parent is looked at before its child is created and once
//! more behind that: a child whose parent has ended meanwhile is removed again, so that none is left of a parent that
//! never asked for it. Where another worker holds the parent meanwhile, the child stays: its journal asks for it.

use aether_core::id::RunId;
use aether_core::store::ledger::LedgerEntry;
use aether_core::store::{Created, Decision, NewRun, StoreError};

use crate::database::{Database, ask};
use crate::placement::search::at;
use crate::placement::shared::Shared;
use crate::row::{self, get};
use crate::shard::shard;

const END: &str =
    "SELECT epoch, final FROM journal WHERE shard = $1::int2 AND run = $2::text ORDER BY frame DESC LIMIT 1";

/// Creates a run in whichever database has its bucket.
pub(crate) async fn create(
    shared: &Shared,
    new: NewRun,
    ledger: Vec<LedgerEntry>,
    decision: Option<Decision>,
) -> Result<Created, StoreError> {
    if let Some(decision) = decision {
        return decided(shared, new, ledger, &decision).await;
    }
    let (Some(parent), Some(epoch)) = (new.parent.clone(), new.parent_epoch) else {
        return placed(shared, new, ledger).await;
    };
    let (held, ended) = parent_now(shared, &parent).await?;
    if ended || held != Some(epoch) {
        // Who asks again after a lost answer is told what is there.
        let there = at!(shared, new.id.as_str(), |db| db.run_record(&new.id))?;
        return Ok(there.map_or(Created::ParentLost, |record| Created::Existing(Box::new(record))));
    }
    let id = new.id.clone();
    let created = placed(shared, NewRun { parent_epoch: None, ..new }, ledger).await?;
    if created == Created::New
        && parent_now(shared, &parent).await?.1
        && at!(shared, id.as_str(), |db| db.remove(&id))?
    {
        return Ok(Created::ParentLost);
    }
    Ok(created)
}

/// Creates a run that rests on a record of the first database. Where that has changed meanwhile the run is removed again,
/// unless somebody has claimed it.
async fn decided(
    shared: &Shared,
    new: NewRun,
    ledger: Vec<LedgerEntry>,
    decision: &Decision,
) -> Result<Created, StoreError> {
    let id = new.id.clone();
    if !shared.home().stands(decision).await? {
        let there = at!(shared, id.as_str(), |db| db.run_record(&id))?;
        return Ok(there.map_or(Created::DecisionGone, |record| Created::Existing(Box::new(record))));
    }
    let created = placed(shared, new, ledger).await?;
    if created == Created::New
        && !shared.home().stands(decision).await?
        && at!(shared, id.as_str(), |db| db.remove(&id))?
    {
        return Ok(Created::DecisionGone);
    }
    Ok(created)
}

async fn placed(shared: &Shared, new: NewRun, ledger: Vec<LedgerEntry>) -> Result<Created, StoreError> {
    let id = new.id.clone();
    let created = at!(shared, id.as_str(), |db| db.clone().create(new.clone(), ledger.clone(), None))?;
    created.ok_or_else(|| purged(shared.of(id.as_str()), &id))
}

/// A run was there when another one of its id was to be created, and is not there any more.
pub(crate) fn purged(database: &Database, run: &RunId) -> StoreError {
    let reason = format!("run `{run}` was there and was purged meanwhile");
    StoreError::Unavailable { store: database.name.to_string(), reason }
}

/// The epoch of a run, and whether it has ended or is not there.
async fn parent_now(shared: &Shared, run: &RunId) -> Result<(Option<u64>, bool), StoreError> {
    let found = at!(shared, run.as_str(), |db| end(db, run))?;
    Ok(found.map_or((None, true), |(epoch, ended)| (Some(epoch), ended)))
}

async fn end(database: &Database, run: &RunId) -> Result<Option<(u64, bool)>, StoreError> {
    ask!(database, |conn| {
        let found = conn.query_opt(END, &[&shard(run.as_str()), &run.as_str()]).await?;
        found.map(|row| Ok((row::nat(get(&row, 0)?, "epoch")?, get(&row, 1)?))).transpose()
    })
}
