//! Answering a batch that was written: what passed, and why the rest was refused.
//!
//! Promise: a refusal is answered only by what stands in committed rows. Of a group of several appends that was refused,
//! each is tried alone, so that a good one before a bad one takes effect.

use std::collections::HashMap;

use aether_core::contract::Status;
use aether_core::id::{Epoch, IdempotencyKey, InvocationId, Position, RunId};
use aether_core::store::ledger::{LedgerEntry, STORE_WIDE};
use aether_core::store::{AppendError, StoreError};
use tokio_postgres::Row;

use crate::database::Database;
use crate::error::OpError;
use crate::row::{self, get};
use crate::writer::batch::{Batch, Group, Item, Write, first_head};
use crate::writer::recover::answer;
use crate::writer::statements::{Link, Passed};
use crate::writer::{Head, Writer, sql};

/// What is known of a run whose append was refused.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) run: RunId,
    pub(crate) head: Head,
    status: Status,
    next: Position,
    epoch: Epoch,
    asked_to_end: bool,
}

/// After how many refusals without a reason an append fails.
const REFUSALS: u32 = 20;

impl Database {
    /// The appends of a group are durable; the journal ends at `after`. Their runs are still to be told.
    pub(crate) fn passed(&self, group: &Group, after: Head) {
        let ends =
            |item: &Item| item.append.status.as_ref().is_some_and(|it| it.release || it.status.is_terminal());
        if group.items.iter().any(ends) {
            self.heads.forget(&group.run);
        } else {
            self.heads.set(&group.run, after);
        }
        let tells = |item: &Item| item.append.status.as_ref().is_some_and(|change| change.notify.is_some());
        if group.items.iter().any(tells) {
            self.notices.notify_one();
        }
    }
}

impl Writer {
    /// Answers what passed, and what was refused with a reason. Gives what is to be written again, in reverse order. An
    /// error comes with what is not answered.
    pub(crate) async fn answer(
        &mut self,
        mut batch: Batch,
        passed: &Passed,
    ) -> Result<Vec<Batch>, (OpError, Batch)> {
        // A try whose answer was lost may have been carried out only now, before this one, which found the run there.
        let mut unknown = None;
        if batch.creations.iter().any(|creation| !creation.lost.is_empty())
            && let Err(error) = self.link().recover_runs(&mut batch).await
        {
            tracing::warn!(?error, "cannot look for a run that was created late");
            unknown = Some(error.into_store_error(&self.database.name));
        }
        let refused = self.decided(batch, passed, unknown);
        if refused.is_empty() {
            return Ok(Vec::new());
        }
        // Who waits for what is written does not wait for the questions about the rest.
        self.tell_written();
        self.sort_out(refused).await
    }

    /// Answers creations, and takes what is written out of a batch, to be told. Gives the groups that were refused. Of
    /// creations that may be of an earlier try, `unknown` is the answer.
    pub(super) fn decided(&mut self, batch: Batch, passed: &Passed, unknown: Option<StoreError>) -> Batch {
        for creation in batch.creations {
            let new = passed.places.contains(&creation.place);
            if new {
                self.database.heads.set(&creation.new.id, first_head(&creation.new));
            }
            // Who is told that nobody knows looks before it asks again.
            let is_unknown = !new && !creation.lost.is_empty();
            let answer = unknown.clone().filter(|_| is_unknown).map_or(Ok(new), Err);
            let _asker_gone = creation.reply.send(answer);
        }
        let mut refused = Batch::default();
        for ((no, group), after) in (0..).zip(batch.groups.into_values()).zip(&passed.after) {
            if passed.groups.contains(&no) {
                self.database.passed(&group, *after);
                self.written.extend(group.items);
            } else {
                refused.insert(group);
            }
        }
        refused
    }

    /// Looks at why groups were refused.
    async fn sort_out(&mut self, mut refused: Batch) -> Result<Vec<Batch>, (OpError, Batch)> {
        let link = self.link();
        let looked = match link.look(refused.groups.values()).await {
            Ok(facts) => link.find(refused.groups.values()).await.map(|found| (facts, found)),
            Err(error) => Err(error),
        };
        let (facts, mut found) = match looked {
            Ok(looked) => looked,
            Err(error) => return Err((error, refused)),
        };
        let runs = refused.groups.values().map(|group| group.run.clone());
        let strays: Vec<RunId> = runs.filter(|run| !facts.contains_key(run)).collect();
        if let Err(error) = self.set_strays_aside(&mut refused, &strays).await {
            return Err((error, refused));
        }
        let (mut firsts, mut rests) = (Batch::default(), Batch::default());
        for (_, group) in refused.groups {
            let (run, shard) = (group.run.clone(), group.shard);
            let facts = facts.get(&run);
            match facts {
                Some(facts) => self.database.heads.set(&run, facts.head),
                None => self.database.heads.forget(&run),
            }
            let mut items = group.items.into_iter().peekable();
            while let Some(item) = items.peek() {
                let there = found.remove(&(run.clone(), item.append.expected, item.lost.clone())).is_some();
                let refusal = if there { None } else { refusal(&item.append, facts) };
                if !there && refusal.is_none() {
                    break;
                }
                let Some(item) = items.next() else { break };
                match refusal {
                    Some(error) => item.append.ack.failed(error),
                    None => answer(item),
                }
            }
            if let Some(first) = items.next() {
                firsts.insert(Group { run: run.clone(), shard, items: vec![first] });
            }
            let rest: Vec<Item> = items.collect();
            if !rest.is_empty() {
                rests.insert(Group { run, shard, items: rest });
            }
        }
        link.look_at_ledger(firsts, rests).await
    }
}

impl Link {
    /// For appends that nothing but their ledger rows stands in the way of.
    async fn look_at_ledger(&self, firsts: Batch, rests: Batch) -> Result<Vec<Batch>, (OpError, Batch)> {
        let mut again = Batch::default();
        let mut groups = firsts.groups.into_values();
        while let Some(mut group) = groups.next() {
            let Some(mut item) = group.items.pop() else { continue };
            item.refusals += 1;
            match self.ledger(&group, &mut item).await {
                Ok(None) => {
                    group.items.push(item);
                    again.insert(group);
                }
                Ok(Some(error)) => item.append.ack.failed(error),
                Err(error) => {
                    group.items.push(item);
                    let mut all = again;
                    all.insert(group);
                    groups.for_each(|group| all.insert(group));
                    for (key, rest) in rests.groups {
                        match all.groups.get_mut(&key) {
                            Some(group) => group.items.extend(rest.items),
                            None => all.insert(rest),
                        }
                    }
                    return Err((error, all));
                }
            }
        }
        Ok(vec![rests, again])
    }

    /// Why the ledger refuses an append, if it does so for good; a key that is taken makes it append `otherwise`.
    async fn ledger(&self, group: &Group, item: &mut Item) -> Result<Option<AppendError>, OpError> {
        let (shard, run) = (group.shard, group.run.as_str());
        let append = &item.append;
        let own = append.acquire.as_ref().map(|acquire| &acquire.entry.key);
        let keys: Vec<&str> = append
            .ledger
            .iter()
            .filter(|update| own != Some(&update.key))
            .map(|update| update.key.as_str())
            .collect();
        if !keys.is_empty()
            && let Some(found) = self.conn.query_opt(sql::MISSING, &[&shard, &run, &keys]).await?
        {
            let reason = format!("there is no ledger row `{}` to change", get::<String>(&found, 0)?);
            return Ok(Some(self.database.corrupt(reason).into()));
        }
        if let (Some(acquire), None) = (&append.acquire, &item.taken) {
            let within = acquire.entry.business_key.as_deref().filter(|key| !key.starts_with(STORE_WIDE));
            let params: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
                [&shard, &run, &acquire.entry.key.as_str(), &within];
            if let Some(found) = self.conn.query_opt(sql::TAKEN, &params).await? {
                item.taken = Some(Box::new(entry(&found)?));
                return Ok(None);
            }
        }
        let store = self.database.name.to_string();
        let reason =
            format!("an append of run `{}` was refused {REFUSALS} times and nobody says why", group.run);
        Ok((item.refusals >= REFUSALS).then(|| StoreError::Unavailable { store, reason }.into()))
    }

    /// Where journals end, and what else decides about appends to them.
    pub(crate) async fn look<'g>(
        &self,
        groups: impl Iterator<Item = &'g Group>,
    ) -> Result<HashMap<RunId, Facts>, OpError> {
        let groups: Vec<&Group> = groups.collect();
        if groups.is_empty() {
            return Ok(HashMap::new());
        }
        let numbers: Vec<i64> = (0..).take(groups.len()).collect();
        let shards: Vec<i16> = groups.iter().map(|group| group.shard).collect();
        let runs: Vec<&str> = groups.iter().map(|group| group.run.as_str()).collect();
        let rows = self.conn.query(sql::LOOK, &[&numbers, &shards, &runs]).await?;
        let mut found = HashMap::new();
        for row in &rows {
            let number = usize::try_from(get::<i64>(row, 0)?).unwrap_or(usize::MAX);
            if let Some(group) = groups.get(number) {
                found.insert(group.run.clone(), facts(row, &group.run)?);
            }
        }
        Ok(found)
    }
}

pub(crate) fn facts(row: &Row, run: &RunId) -> Result<Facts, OpError> {
    Ok(Facts {
        run: run.clone(),
        status: row::status(get(row, 1)?)?,
        head: Head { frame: get(row, 2)?, chain: row::chain(get(row, 5)?)? },
        next: row::nat(get(row, 3)?, "position")?,
        epoch: row::nat(get(row, 4)?, "epoch")?,
        asked_to_end: get(row, 6)?,
    })
}

/// Why an append is refused, ledger aside.
pub(crate) fn refusal(append: &Write, facts: Option<&Facts>) -> Option<AppendError> {
    let run = append.run.clone();
    let Some(facts) = facts else { return Some(StoreError::UnknownRun { run }.into()) };
    // The epoch first: a worker that lost the run mostly has a wrong position, too, and must be told the cause.
    if facts.epoch != append.epoch {
        Some(AppendError::StaleEpoch { run, held: append.epoch, found: facts.epoch })
    } else if facts.status.is_terminal() {
        Some(AppendError::RunEnded { run, status: facts.status })
    } else if facts.next != append.expected {
        Some(AppendError::WrongPosition { run, expected: append.expected, found: facts.next })
    } else if append.unless_asked_to_end && facts.asked_to_end {
        Some(AppendError::AskedToEnd { run })
    } else {
        None
    }
}

/// Reads a row of [`sql::TAKEN`].
fn entry(row: &Row) -> Result<LedgerEntry, OpError> {
    Ok(LedgerEntry {
        key: IdempotencyKey::from(get::<String>(row, 0)?),
        run: row::run_id(get(row, 1)?)?,
        command: get::<String>(row, 2)?.into(),
        invocation: InvocationId::from(get::<String>(row, 3)?),
        tool: get(row, 4)?,
        digest: row::digest(get(row, 5)?)?,
        business_key: get(row, 6)?,
        status: row::ledger_status(get(row, 7)?)?,
        result: get::<Option<String>>(row, 8)?.map(row::payload).transpose()?,
        error: get::<Option<String>>(row, 9)?.map(row::payload).transpose()?,
        committed: get(row, 10)?,
        epoch: row::nat(get(row, 11)?, "epoch")?,
        started_at: row::time(get(row, 12)?)?,
        finished_at: get::<Option<i64>>(row, 13)?.map(row::time).transpose()?,
    })
}
