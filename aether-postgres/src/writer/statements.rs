//! Sending a batch: the statements that create runs and append to them, in one transaction.
//!
//! Promise: after an error nothing of the batch is there, unless the connection was lost: then the numbers under which its
//! frames may be there are noted.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use aether_core::store::Renewal;
use futures_util::future::join_all;
use tokio_postgres::Error;

use crate::connection::{Connection, Param, Transaction};
use crate::database::Database;
use crate::error::OpError;
use crate::row::{self, get};
use crate::shard::shard;
use crate::streams::HOLD;
use crate::writer::arrays::{Arrays, CreateArrays};
use crate::writer::batch::{Batch, Creation, Group, first_head};
use crate::writer::columns::Given;
use crate::writer::streams::{self, StreamEnds};
use crate::writer::{Head, sql};

/// What of a batch was written.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    /// The places of the runs that were created.
    pub(crate) places: HashSet<i64>,
    /// The numbers of the groups that were admitted.
    pub(crate) groups: HashSet<i64>,
    /// Where the journal of each group ends, had it been admitted.
    pub(crate) after: Vec<Head>,
}

/// What a batch is written with. It goes along with the batch: its writer looks after the next one meanwhile.
#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) database: Arc<Database>,
    pub(crate) conn: Arc<Connection>,
}

impl Link {
    /// Writes a batch in one transaction. All of its statements are sent together, unless it [needs steps](needs_steps).
    pub(crate) async fn write(&self, batch: &mut Batch) -> Result<Passed, OpError> {
        for creation in &mut batch.creations {
            creation.place = self.database.clock.next(shard(creation.new.id.as_str()));
        }
        let heads = self.heads_of(batch).await?;
        let written = match needs_steps(batch) {
            true => self.send_in_steps(batch, &heads).await,
            false => self.send(batch, &heads).await,
        };
        // Whatever was answered decides: only a lost connection leaves it open.
        if matches!(&written, Err(OpError::Driver(error)) if is_open(error)) {
            note(batch, &heads);
        }
        written
    }

    /// Where the journals end. What is not known is looked up.
    async fn heads_of(&self, batch: &Batch) -> Result<Vec<Head>, OpError> {
        let new: std::collections::HashMap<_, _> =
            batch.creations.iter().map(|creation| (&creation.new.id, first_head(&creation.new))).collect();
        let known = |run| self.database.heads.get(run).or_else(|| new.get(run).copied());
        let unknown = batch.groups.values().filter(|group| known(&group.run).is_none());
        for facts in self.look(unknown).await?.into_values() {
            self.database.heads.set(&facts.run, facts.head);
        }
        Ok(batch.groups.values().map(|group| known(&group.run).unwrap_or(Head::NONE)).collect())
    }

    async fn send(&self, batch: &Batch, heads: &[Head]) -> Result<Passed, OpError> {
        let creates = CreateArrays::of(&batch.creations, &self.database.options);
        let groups = batch.groups.values().zip(heads.iter().copied());
        let arrays = Arrays::of(groups, &self.database);
        let (create_sql, append_sql) = (creates.sql(), arrays.sql());
        let (create_params, append_params) = (creates.params(), arrays.params());
        let ends = StreamEnds::of(batch.groups.values().zip(heads.iter().copied()));
        let (held, end_params) = (ends.held(), ends.params());
        let mut statements: Vec<(&str, &[Param<'_>])> = Vec::new();
        if !batch.creations.is_empty() {
            statements.push((&create_sql, &create_params));
        }
        if !batch.groups.is_empty() {
            statements.push((&append_sql, &append_params));
        }
        if !ends.is_empty() {
            statements.extend([(HOLD, held.as_slice()), (streams::end(), end_params.as_slice())]);
        }
        let hurry = self.hurry(batch);
        // Before the transaction begins: preparing is a round trip of its own.
        for (sql, _) in &statements {
            self.prepare(sql, hurry).await?;
        }
        let mut answers = match statements.as_slice() {
            [(sql, params)] if hurry.is_none() => vec![self.conn.query(sql, params).await?],
            _ => self.together(&statements, hurry).await?,
        }
        .into_iter();
        let mut numbers = |there: bool| -> Result<HashSet<i64>, OpError> {
            let rows = if there { answers.next() } else { None };
            rows.unwrap_or_default().iter().map(|row| get(row, 0)).collect()
        };
        let places = numbers(!batch.creations.is_empty())?;
        let groups = numbers(!batch.groups.is_empty())?;
        drop(append_params);
        Ok(Passed { places, groups, after: arrays.after })
    }

    /// Prepares a statement, which waits for locks on whole tables.
    async fn prepare(&self, sql: &str, hurry: Option<&str>) -> Result<(), OpError> {
        let Some(hurry) = hurry.filter(|_| !self.conn.is_prepared(sql)) else {
            return self.conn.prepare(sql).await;
        };
        let transaction = self.conn.begin().await?;
        let prepared = match self.conn.word(hurry).await {
            Ok(()) => self.conn.prepare(sql).await,
            Err(error) => Err(error.into()),
        };
        // A statement stays prepared, whatever becomes of the transaction.
        transaction.rollback().await?;
        prepared
    }

    /// What limits how long a hurried batch waits for locks. A server that is only compatible may not know it.
    fn hurry(&self, batch: &Batch) -> Option<&'static str> {
        (batch.hurried && !self.database.options.portable).then_some("SET LOCAL lock_timeout = 20")
    }

    /// Several statements as one transaction. All are sent at once, and the server works them off in order; after an error
    /// in one the rest does nothing.
    async fn together(
        &self,
        statements: &[(&str, &[Param<'_>])],
        hurry: Option<&str>,
    ) -> Result<Vec<Vec<tokio_postgres::Row>>, OpError> {
        let rows = join_all(statements.iter().map(|(sql, params)| self.conn.rows(sql, params)));
        let begin = match hurry {
            Some(hurry) => Cow::from(format!("{}; {hurry}", self.conn.beginning())),
            None => Cow::from(self.conn.beginning()),
        };
        let word = |sql| self.conn.word(sql);
        let (begun, rows, committed) = futures_util::future::join3(word(&begin), rows, word("COMMIT")).await;
        begun?;
        let rows = rows.into_iter().collect::<Result<Vec<_>, Error>>()?;
        committed?;
        Ok(rows)
    }

    /// A batch with a fork or a new generation: what belongs to them goes in the same transaction, one after the other.
    async fn send_in_steps(&self, batch: &Batch, heads: &[Head]) -> Result<Passed, OpError> {
        let transaction = self.conn.begin().await?;
        match self.steps(&transaction, batch, heads).await {
            Ok(passed) => transaction.commit().await.map(|()| passed),
            Err(error) => {
                // The connection is used again. Where this fails it is not, because the transaction may still be open.
                let _undone = transaction.rollback().await;
                Err(error)
            }
        }
    }

    async fn steps(
        &self,
        transaction: &Transaction<'_>,
        batch: &Batch,
        heads: &[Head],
    ) -> Result<Passed, OpError> {
        let arrays = Arrays::of(batch.groups.values().zip(heads.iter().copied()), &self.database);
        if let Some(hurry) = self.hurry(batch) {
            self.conn.word(hurry).await?;
        }
        let (mut places, mut groups) = (HashSet::new(), HashSet::new());
        if !batch.creations.is_empty() {
            let creates = CreateArrays::of(&batch.creations, &self.database.options);
            let rows = transaction.query(&creates.sql(), &creates.params()).await?;
            places = rows.iter().map(|row| get(row, 0)).collect::<Result<_, _>>()?;
        }
        let copies = |creation: &&Creation| places.contains(&creation.place) && !creation.ledger.is_empty();
        for creation in batch.creations.iter().filter(copies) {
            let rows = crate::create::ledger_rows(creation);
            let mut params = Vec::new();
            rows.params(Given::Arrays, &mut params);
            transaction.execute(&sql::copy_ledger(), &params).await?;
        }
        if !batch.groups.is_empty() {
            let rows = transaction.query(&arrays.sql(), &arrays.params()).await?;
            groups = rows.iter().map(|row| get(row, 0)).collect::<Result<_, _>>()?;
        }
        let ends = StreamEnds::of(batch.groups.values().zip(heads.iter().copied()));
        if !ends.is_empty() {
            transaction.query(HOLD, &ends.held()).await?;
            transaction.execute(streams::end(), &ends.params()).await?;
        }
        for ((no, group), after) in (0..).zip(batch.groups.values()).zip(&arrays.after) {
            let renewals = group.items.iter().filter_map(|item| item.append.renews.as_ref());
            for renewal in renewals.filter(|_| groups.contains(&no)) {
                renew(transaction, group, *after, renewal).await?;
            }
        }
        Ok(Passed { places, groups, after: arrays.after })
    }
}

/// Deletes what belongs to the generation of a run that ends with the frame before `head`.
async fn renew(
    transaction: &Transaction<'_>,
    group: &Group,
    head: Head,
    renewal: &Renewal,
) -> Result<(), OpError> {
    let (shard, run) = (group.shard, group.run.as_str());
    let began = row::int(renewal.began);
    sql::RENEW_JOURNAL.delete(transaction, (shard, run), head.frame).await?;
    transaction.execute(sql::RENEW_NEWEST, &[&shard, &run, &began]).await?;
    for rows in sql::RENEW_REST {
        rows.delete(transaction, (shard, run), began).await?;
    }
    let version = i64::from(renewal.version);
    transaction.execute(sql::RENEW_RUN, &[&shard, &run, &renewal.workflow, &version]).await.map(drop)
}

/// Whether the answer of a statement is unknown. A pooler that lost its server says so in its own way.
fn is_open(error: &Error) -> bool {
    crate::error::failure(error) == crate::error::Failure::Lost || crate::error::is_of_a_part(error)
}

/// Whether its statements follow from each other, and are asked one by one in an open transaction.
pub(super) fn needs_steps(batch: &Batch) -> bool {
    batch.creations.iter().any(|creation| !creation.ledger.is_empty())
        || batch.groups.values().any(|group| group.items.iter().any(|item| item.append.renews.is_some()))
}

/// Notes under which numbers and places the batch may be found: its answer was lost.
fn note(batch: &mut Batch, heads: &[Head]) {
    for creation in &mut batch.creations {
        creation.lost.push(creation.place);
    }
    for (group, head) in batch.groups.values_mut().zip(heads) {
        for (frame, item) in (head.frame + 1..).zip(&mut group.items) {
            item.lost.push(frame);
        }
    }
}
