//! Creating runs.
//!
//! Promise: a run without a queue is on its way to the writer before the call returns. A child whose parent ended while it was
//! created is removed again, so that no child is left of a parent that never asked for it. One that somebody has claimed or
//! written to by then stays, and so does one whose parent another worker has taken: its creator gives it up, and who claims
//! it looks at the parent before it begins.

use std::sync::Arc;
use std::time::{Duration, Instant};

use aether_core::id::{Epoch, RunId, WorkerId};
use aether_core::store::ledger::LedgerEntry;
use aether_core::store::{Created, Decision, NewRun, StoreError};
use tokio::sync::oneshot;

use crate::database::{Database, ask};
use crate::error::gone;
use crate::placement::search::Doubtful;
use crate::queues::limits::Admission;
use crate::row::{self, get};
use crate::shard::shard;
use crate::writer::Op;
use crate::writer::batch::Creation;
use crate::writer::columns::Acquires;

/// A run's epoch, and whether it has ended, as its journal says.
const END: &str =
    "SELECT epoch, final FROM journal WHERE shard = $1::int2 AND run = $2::text ORDER BY frame DESC LIMIT 1";

/// Locks a run: whoever claims it or has just done so goes first, or finds that it is gone.
const LOCK_RUN: &str = "SELECT 1 FROM runs WHERE shard = $1::int2 AND id = $2::text FOR UPDATE";

/// Whether somebody has claimed a run, appended to it, or sent it a message. A statement of its own: it sees what was
/// committed until the run was locked.
const TOUCHED: &str =
    "SELECT EXISTS (SELECT 1 FROM journal WHERE shard = $1::int2 AND run = $2::text AND frame > 0)
    OR EXISTS (SELECT 1 FROM inbox WHERE shard = $1 AND run = $2)";

/// All that a run has that was just created.
const REMOVE: [&str; 5] = [
    "DELETE FROM journal WHERE shard = $1::int2 AND run = $2::text",
    "DELETE FROM labels WHERE shard = $1::int2 AND run = $2::text",
    "DELETE FROM due WHERE shard = $1::int2 AND run = $2::text",
    "DELETE FROM inbox WHERE shard = $1::int2 AND run = $2::text",
    "DELETE FROM runs WHERE shard = $1::int2 AND id = $2::text",
];

/// What has become of the parent of a child that was just created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParentNow {
    /// Its creator holds it.
    Held,
    /// Another claim was made of it.
    Lost,
    /// It has ended, or is not there.
    Ended,
}

impl ParentNow {
    /// From what [`Database::end_of`] found; the creator holds it at `epoch`.
    pub(crate) fn of(found: Option<(Epoch, bool)>, epoch: Epoch) -> Self {
        match found {
            None | Some((_, true)) => Self::Ended,
            Some((held, false)) if held == epoch => Self::Held,
            Some(_) => Self::Lost,
        }
    }
}

/// What became of a run that was to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    /// It was removed.
    Removed,
    /// It is not there: an earlier try may have removed it.
    NotThere,
    /// Somebody has claimed it, appended to it, or sent it a message. It stays.
    Touched,
}

impl Removal {
    /// Whether the run is not there any more.
    pub(crate) fn is_gone(self) -> bool {
        !matches!(self, Self::Touched)
    }
}

/// It may be in another database.
impl Doubtful for Removal {
    fn is_doubtful(&self) -> bool {
        matches!(self, Self::NotThere)
    }
}

impl Database {
    /// See [`Store::create`](aether_core::store::Store::create) and
    /// [`Store::create_fork`](aether_core::store::Store::create_fork). Queued before this returns. `None`: it was not
    /// created, and is not there.
    pub(crate) fn create(
        self: Arc<Self>,
        new: NewRun,
        ledger: Vec<LedgerEntry>,
        decision: Option<Decision>,
    ) -> impl Future<Output = Result<Option<Created>, StoreError>> + Send + 'static {
        let id = new.id.clone();
        let checked = new.parent.clone().zip(new.parent_epoch);
        let (owner, at) = (new.owner.clone(), row::micros(new.at));
        // A run without a queue is queued here at once: appends to it may follow.
        let written = match new.terms.queue.clone() {
            None => Ok(self.queue(new, ledger, decision)),
            Some(place) => Err((place, new, ledger, decision)),
        };
        async move {
            let new = match written {
                Ok(written) => written.await.unwrap_or_else(|_| Err(gone(&self.name)))?,
                // One that is there already is no new one that a limit counts.
                Err((_, new, ledger, decision)) if self.run_record(&id).await?.is_some() => {
                    self.queue(new, ledger, decision).await.unwrap_or_else(|_| Err(gone(&self.name)))?
                }
                Err((place, new, ledger, decision)) => {
                    let database = Arc::clone(&self);
                    let create = async move { database.queue(new, ledger, decision).await };
                    match Arc::clone(&self).admitted(place, create).await? {
                        Admission::Admitted(written) => written.unwrap_or_else(|_| Err(gone(&self.name)))?,
                        Admission::Over { limit, open } => {
                            return Ok(Some(Created::OverLimit { limit, open }));
                        }
                    }
                }
            };
            let now = match (new, checked) {
                (false, _) => {
                    let record = self.run_record(&id).await?;
                    return Ok(record.map(|record| Created::Existing(Box::new(record))));
                }
                (true, Some((parent, epoch))) => ParentNow::of(self.end_of(&parent).await?, epoch),
                (true, None) => ParentNow::Held,
            };
            if now == ParentNow::Held {
                return Ok(Some(Created::New));
            }
            if now == ParentNow::Lost || !self.remove(&id).await?.is_gone() {
                self.give_up(owner.as_ref(), &id, at).await?;
            }
            Ok(Some(Created::ParentLost))
        }
    }

    /// How long a creation may take that is with the writer; zero where there is no limit.
    pub(crate) fn creation_limit(&self) -> Duration {
        let (one, patience) = (self.options.statement_timeout, self.options.patience);
        if one.is_zero() { one } else { one.saturating_add(patience) }
    }

    fn queue(
        &self,
        new: NewRun,
        ledger: Vec<LedgerEntry>,
        decision: Option<Decision>,
    ) -> oneshot::Receiver<Result<bool, StoreError>> {
        let (reply, written) = oneshot::channel();
        let run = new.id.clone();
        let creation =
            Creation { new, ledger, decision, reply, since: Instant::now(), place: 0, lost: Vec::new() };
        if let Some(writers) = self.writers.get() {
            // A writer that has ended drops the operation, and with it the reply.
            drop(writers.send(run.as_str(), Op::Create(Box::new(creation))));
        }
        written
    }

    /// The epoch of a run, and whether it has ended; `None` where it is not there.
    pub(crate) async fn end_of(&self, run: &RunId) -> Result<Option<(Epoch, bool)>, StoreError> {
        ask!(self, |conn| {
            let found = conn.query_opt(END, &[&shard(run.as_str()), &run.as_str()]).await?;
            found.map(|row| Ok((row::nat(get(&row, 0)?, "epoch")?, get(&row, 1)?))).transpose()
        })
    }

    /// The creator of a child does not advance it; says whether it is there.
    pub(crate) async fn give_up(
        &self,
        owner: Option<&WorkerId>,
        child: &RunId,
        at: i64,
    ) -> Result<bool, StoreError> {
        match owner {
            Some(owner) => self.release_row(owner.as_str(), child.as_str(), 1, at).await,
            None => Ok(true),
        }
    }

    /// Removes a run that was just created and that nobody has touched since.
    pub(crate) async fn remove(&self, run: &RunId) -> Result<Removal, StoreError> {
        let (shard, run) = (shard(run.as_str()), run.as_str());
        ask!(self, |conn| {
            let transaction = conn.begin().await?;
            let is_there = !transaction.query(LOCK_RUN, &[&shard, &run]).await?.is_empty();
            let touched = match is_there {
                true => transaction.query(TOUCHED, &[&shard, &run]).await?,
                false => Vec::new(),
            };
            let is_touched = touched.first().map_or(Ok(false), |row| get(row, 0))?;
            if !is_there || is_touched {
                transaction.rollback().await?;
                return Ok(if is_touched { Removal::Touched } else { Removal::NotThere });
            }
            for sql in REMOVE {
                transaction.execute(sql, &[&shard, &run]).await?;
            }
            transaction.commit().await?;
            Ok(Removal::Removed)
        })
    }
}

/// The ledger rows of a fork, as its own.
pub(crate) fn ledger_rows(creation: &Creation) -> Acquires<'_> {
    let (mut rows, run) = (Acquires::default(), creation.new.id.as_str());
    for (seq, entry) in (0_i64..).zip(&creation.ledger) {
        rows.add(seq, run, seq.saturating_sub(i64::from(u32::MAX)), entry);
    }
    rows
}
