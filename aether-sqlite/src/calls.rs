//! What the writer does besides appends: creating, claiming, renewing, releasing, sending, and keeping blobs and
//! snapshots.
//!
//! Promise: each function runs inside the writer's transaction, sees every append queued before it, and answers
//! after that transaction is durable. A refused one leaves nothing behind.

use rusqlite::{OptionalExtension as _, Row, params};

use aether_core::contract::Status;
use aether_core::id::{CodeId, CommandId, Epoch, Position, RunId, WorkerId};
use aether_core::journal::LargeValue;
use aether_core::journal::{CHAIN_START, chain};
use aether_core::payload::Payload;
use aether_core::store::StoredEffect;
use aether_core::store::ledger::{LedgerEntry, LedgerStatus};
use aether_core::store::queueing::{TakenRun, places_of_queues};
use aether_core::store::{
    AppendError, ClaimRequest, Created, Decision, END_REQUESTS, Lease, Message, NewRun, OpenWait, RunRecord,
    Sent, Snapshot, StoreError,
};
use jiff::Timestamp;

use crate::batch::Batch;
use crate::error::OpError;
use crate::reader::{self, LATE};
use crate::row::{self, DAMAGED};
use crate::statements::Head;
use crate::waits;

const OVER: &str = "status IN ('completed', 'failed', 'rejected', 'cancelled')";

/// Due runs outside of queues.
const DUE: &str = "
SELECT wake_at, no FROM aether_runs
WHERE owner IS NULL AND wake_at IS NOT NULL AND wake_at <= ?1 AND parked = 0 AND queue IS NULL
    AND code IN (SELECT value FROM json_each(?2))
ORDER BY wake_at, no LIMIT ?3";

/// Due runs of silent workers. One that was being advanced is due, whatever the time of its claim.
const DUE_OF_SILENT: &str = "
SELECT wake_at, no, queue, queue_key FROM aether_runs
WHERE owner IS NOT NULL AND owner IN (SELECT value FROM json_each(?3))
    AND (wake_at <= ?1 OR status = 'running') AND parked = 0 AND code IN (SELECT value FROM json_each(?2))
ORDER BY wake_at, no";

/// A due run that can be read, and who holds it.
struct Due {
    /// `None`: it was being advanced, and nothing says since when.
    wake_at: Option<i64>,
    no: i64,
    owner: Option<WorkerId>,
}

impl Batch<'_> {
    /// Replaces what is listed of a run's open waits, unless its journal is not at `next` any more.
    pub(crate) fn list_waits(
        &mut self,
        run: &RunId,
        next: Position,
        open: &[OpenWait],
    ) -> Result<bool, OpError> {
        let Some(head) = self.statements.head(run)? else {
            return Err(OpError::Refused(StoreError::UnknownRun { run: run.clone() }));
        };
        let is_current = head.next == next;
        if is_current {
            waits::forget(self.conn, head.no)?;
            waits::insert(self.conn, head.no, open)?;
        }
        Ok(is_current)
    }

    /// As [`Batch::create`], as long as `decision` stands.
    pub(crate) fn create_decided(&mut self, new: &NewRun, decision: &Decision) -> Result<Created, OpError> {
        let (sql, name, revision) = match decision {
            Decision::KeyedStart { name, revision } => {
                ("SELECT 1 FROM aether_keyed_starts WHERE name = ?1 AND revision = ?2", name, revision)
            }
            Decision::Schedule { name, revision } => {
                ("SELECT 1 FROM aether_schedules WHERE name = ?1 AND revision = ?2", name, revision)
            }
        };
        let stands = self.conn.prepare_cached(sql)?.exists(params![name, row::int(*revision)])?;
        match self.record(&new.id)? {
            None if !stands => self.refuse(new, Created::DecisionGone),
            _ => self.create(new),
        }
    }

    /// Creates a run unless its id is taken.
    pub(crate) fn create(&mut self, new: &NewRun) -> Result<Created, OpError> {
        if let Some(record) = self.record(&new.id)? {
            return Ok(Created::Existing(Box::new(record)));
        }
        if let (Some(parent), Some(epoch)) = (&new.parent, new.parent_epoch)
            && !self
                .statements
                .head::<StoreError>(parent)?
                .is_some_and(|parent| parent.epoch == epoch && !parent.status.is_terminal())
        {
            return self.refuse(new, Created::ParentLost);
        }
        if let Some((limit, open)) = self.over_open(new)? {
            return self.refuse(new, Created::OverLimit { limit, open });
        }
        let owned = new.owner.is_some();
        let status = if owned { Status::Running } else { Status::Pending };
        let hash = match new.frame.count {
            0 => CHAIN_START,
            _ => chain(&CHAIN_START, 0, new.at, &new.frame.text),
        };
        let next = u64::from(new.frame.count);
        let at = new.at.as_microsecond();
        let labels = (!new.labels.is_empty()).then(|| serde_json::to_string(&new.labels)).transpose();
        let labels = labels.map_err(|error| OpError::Row(format!("labels: {error}")))?;
        let wake_at = new.terms.begins(new.at).as_microsecond();
        let terms = (!new.terms.is_default()).then(|| serde_json::to_string(&new.terms)).transpose();
        let terms = terms.map_err(|error| OpError::Row(format!("terms: {error}")))?;
        let place = new.terms.queue.as_ref();
        self.conn
            .prepare_cached(
                "INSERT INTO aether_runs(id, workflow, version, status, digest, parent, created_at, updated_at, next,
                     chain, epoch, owner, wake_at, labels, code, terms, queue, queue_key, rank, begun, first_taken_at,
                     lapses_at, slot, traceparent)
                 VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?8, ?9, ?10, ?11, ?14, ?12, ?13, ?15, ?16, ?17, ?18, ?19,
                     CASE WHEN ?16 IS NOT NULL AND ?19 THEN ?7 END, ?20, ?16 IS NOT NULL AND ?19, ?21)",
            )?
            .execute(params![
                new.id.as_str(),
                new.workflow,
                new.version,
                status.as_str(),
                new.digest.as_str(),
                new.parent.as_ref().map(RunId::as_str),
                at,
                row::int(next),
                &hash[..],
                i64::from(owned),
                new.owner.as_ref().map(WorkerId::as_str),
                labels,
                new.code.as_str(),
                wake_at,
                terms,
                place.map(|place| &place.queue),
                place.map(|place| &place.key),
                place.map(|place| place.rank(new.at)),
                owned,
                place.and(new.terms.expires_at).filter(|_| !owned).map(Timestamp::as_microsecond),
                new.traceparent,
            ])?;
        let no = self.conn.last_insert_rowid();
        for (key, value) in new.labels.iter() {
            self.conn
                .prepare_cached("INSERT INTO aether_labels(key, value, run_no) VALUES(?1, ?2, ?3)")?
                .execute(params![key, value, no])?;
        }
        if let Some(place) = place.filter(|_| !owned && wake_at <= at) {
            self.make_ready(no, place, wake_at)?;
        }
        let mut head = Head {
            no,
            next: 0,
            saved: next,
            chain: hash,
            epoch: Epoch::from(owned),
            status,
            at: new.at,
            saved_at: new.at,
            behind: false,
        };
        if next > 0 {
            self.statements.frame(&head, &new.frame, new.at, &hash)?;
            head.next = next;
        }
        self.remember(new.id.clone(), head);
        Ok(Created::New)
    }

    /// Refuses a run of which there is none. What was stored for it in advance goes: no purge would ever find it.
    fn refuse(&self, new: &NewRun, why: Created) -> Result<Created, OpError> {
        self.delete_blobs(&new.id)?;
        Ok(why)
    }

    /// Creates a fork unless its id is taken, with the ledger rows of the calls that it has copied.
    pub(crate) fn create_fork(&mut self, new: &NewRun, ledger: &[LedgerEntry]) -> Result<Created, OpError> {
        let created = self.create(new)?;
        if created == Created::New {
            let head = self.known(&new.id)?;
            for row in ledger {
                // One whose key is taken is left out.
                let _inserted = self.statements.acquire(&head, row)?;
            }
        }
        Ok(created)
    }

    fn record(&self, run: &RunId) -> Result<Option<RunRecord>, OpError> {
        let sql = format!("SELECT {} FROM aether_runs WHERE id = ?1", *row::RUN);
        let mut statement = self.conn.prepare_cached(&sql)?;
        let mut rows = statement.query([run.as_str()])?;
        rows.next()?.map(row::run).transpose()
    }

    fn known(&mut self, run: &RunId) -> Result<Head, OpError> {
        let head = self.statements.head(run)?;
        head.ok_or_else(|| OpError::Refused(StoreError::UnknownRun { run: run.clone() }))
    }

    /// Claims runs that no worker holds. One damaged run keeps no other from being claimed.
    pub(crate) fn claim(&mut self, request: &ClaimRequest) -> Result<Vec<Lease>, OpError> {
        let mut silent = Vec::new();
        for worker in &request.silent {
            if self.renewals(&worker.id)? == worker.renewals {
                silent.push(worker.id.as_str());
            }
        }
        let silent = row::json_list(silent);
        if request.only.is_some() || !request.adopt.is_empty() {
            return self.claim_chosen(request, &silent);
        }
        let mut due = self.due(request, &silent)?;
        let room = places_of_queues(request.limit, due.len(), request.others_first);
        let queued = self.take_queued(request, room)?;
        due.truncate(request.limit.saturating_sub(queued.len()));
        let due = due.into_iter().map(|Due { no, owner, .. }| (no, owner, true));
        let queued = queued.into_iter().map(|TakenRun { run, slot }| (run, None, slot));
        due.chain(queued).map(|(no, owner, slot)| self.lease(no, owner, request, slot)).collect()
    }

    /// Claims the runs that a request names, as far as it may have them.
    fn claim_chosen(&mut self, request: &ClaimRequest, silent: &str) -> Result<Vec<Lease>, OpError> {
        let is_one_of_many = request.adopt.len() > 1;
        let mut leases = Vec::new();
        for no in self.chosen(request, silent)? {
            match reader::holder(self.conn, no) {
                Ok(_) if !self.may_take(no, request)? => {}
                Ok(owner) => leases.push(self.lease(no, owner, request, true)?),
                Err(OpError::Row(reason)) if is_one_of_many => {
                    tracing::warn!(number = no, %reason, "a damaged run is left alone");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(leases)
    }

    /// Numbers of the runs that a request names and may get; `silent` are names of workers, as JSON.
    fn chosen(&self, request: &ClaimRequest, silent: &str) -> Result<Vec<i64>, OpError> {
        let number = |row: &Row<'_>| row.get(0);
        let free = "(owner IS NULL OR owner IN (SELECT value FROM json_each(?2)))";
        let found = if let Some(run) = request.only.as_ref().filter(|_| request.adopt.is_empty()) {
            let codes = row::json_list(request.codes.iter().map(CodeId::as_str));
            let sql = format!(
                "SELECT no FROM aether_runs WHERE id = ?1 AND NOT {OVER} AND {free}
                 AND parked = 0 AND code IN (SELECT value FROM json_each(?3))"
            );
            let mut statement = self.conn.prepare_cached(&sql)?;
            statement.query_map(params![run.as_str(), silent, codes], number)?.collect::<Result<_, _>>()?
        } else {
            let runs = row::json_list(request.adopt.iter().map(RunId::as_str));
            let sql = format!(
                "SELECT no FROM aether_runs WHERE id IN (SELECT value FROM json_each(?1)) AND NOT {OVER} AND {free}
                 ORDER BY no"
            );
            let mut statement = self.conn.prepare_cached(&sql)?;
            statement.query_map(params![runs, silent], number)?.collect::<Result<_, _>>()?
        };
        Ok(found)
    }

    /// Due runs outside of queues, and those of silent workers: the longest due first. A damaged one takes no place.
    fn due(&self, request: &ClaimRequest, silent: &str) -> Result<Vec<Due>, OpError> {
        let (now, limit) = (request.now.as_microsecond(), request.limit);
        let codes = row::json_list(request.codes.iter().map(CodeId::as_str));
        let read = |row: &Row<'_>| {
            let (wake_at, no) = (row.get(0)?, row.get(1)?);
            Ok(Due { wake_at, no, owner: reader::holder(self.conn, no)? })
        };
        let mut found = Vec::new();
        if request.serves.others {
            let mut statement = self.conn.prepare_cached(DUE)?;
            let most = row::int(limit.saturating_add(DAMAGED) as u64);
            let rows = statement.query(params![now, codes, most])?;
            found = row::readable(rows, limit, "a due run", |row| read(row).map(Some))?;
        }
        let mut statement = self.conn.prepare_cached(DUE_OF_SILENT)?;
        let rows = statement.query(params![now, codes, silent])?;
        found.append(&mut row::readable(rows, limit, "a run of a silent worker", |row| {
            let is_taken = request.serves.takes(row::place(row, 2)?.as_ref());
            is_taken.then(|| read(row)).transpose()
        })?);
        found.sort_unstable_by_key(|due| (due.wake_at, due.no));
        found.truncate(limit);
        Ok(found)
    }

    fn lease(
        &mut self,
        no: i64,
        taken_from: Option<WorkerId>,
        request: &ClaimRequest,
        slot: bool,
    ) -> Result<Lease, OpError> {
        // A worker that never registered has nobody who could notice.
        self.conn
            .prepare_cached(
                "INSERT INTO aether_lost(worker, run_no, epoch)
                 SELECT aether_runs.owner, aether_runs.no, aether_runs.epoch FROM aether_runs
                 JOIN aether_workers ON aether_workers.worker = aether_runs.owner WHERE aether_runs.no = ?1
                 ON CONFLICT DO NOTHING",
            )?
            .execute([no])?;
        let sql = format!(
            "UPDATE aether_runs SET epoch = epoch + 1, owner = ?2, notified = 0,
                 slot = CASE WHEN queue IS NULL THEN 0 WHEN owner IS NULL THEN ?3 ELSE slot END,
                 begun = CASE WHEN queue IS NOT NULL AND owner IS NULL AND ?3 THEN 1 ELSE begun END,
                 first_taken_at = CASE WHEN queue IS NOT NULL AND owner IS NULL AND ?3
                     THEN coalesce(first_taken_at, ?4) ELSE first_taken_at END,
                 lapses_at = CASE WHEN owner IS NULL AND ?3 THEN NULL ELSE lapses_at END
             WHERE no = ?1 RETURNING {}",
            *row::RUN
        );
        let mut statement = self.conn.prepare_cached(&sql)?;
        let run = {
            let mut rows =
                statement.query(params![no, request.worker.as_str(), slot, request.now.as_microsecond()])?;
            let Some(row) = rows.next()? else {
                return Err(OpError::Row(format!("run number {no} was free and is not")));
            };
            let run = row::run(row)?;
            while rows.next()?.is_some() {}
            run
        };
        self.forget_run(&run.id);
        Ok(Lease { run, taken_from })
    }

    /// Releases a run; does nothing when `worker` does not hold it, `epoch` is not the run's, or the run is over.
    pub(crate) fn release(
        &mut self,
        worker: &WorkerId,
        run: &RunId,
        epoch: Epoch,
        wake_at: Timestamp,
    ) -> Result<(), OpError> {
        let head = self.known(run)?;
        self.conn
            .prepare_cached(&format!(
                "UPDATE aether_runs SET owner = NULL, wake_at = ?3, lapses_at = max(lapses_at, ?3)
                 WHERE no = ?1 AND epoch = ?2 AND owner = ?4 AND NOT {OVER}"
            ))?
            .execute(params![head.no, row::int(epoch), wake_at.as_microsecond(), worker.as_str()])?;
        Ok(())
    }

    /// See [`Store::hasten`](aether_core::store::Store::hasten).
    pub(crate) fn hasten(&mut self, now: Timestamp, beyond: Timestamp) -> Result<usize, OpError> {
        let sql = format!("UPDATE aether_runs SET wake_at = ?2 WHERE no IN ({LATE} LIMIT 500)");
        let mut hastened = self.conn.prepare_cached(&sql)?;
        Ok(hastened.execute(params![beyond.as_microsecond(), now.as_microsecond()])?)
    }

    /// Puts a message into an inbox and makes its run due.
    pub(crate) fn send(&mut self, run: &RunId, message: &Message) -> Result<Sent, OpError> {
        let head = self.known(run)?;
        let known = self
            .conn
            .prepare_cached("SELECT 1 FROM aether_inbox WHERE run_no = ?1 AND id = ?2")?
            .query_row(params![head.no, message.id], |_| Ok(()))
            .optional()?;
        if known.is_some() {
            return Ok(Sent::Duplicate);
        }
        if head.status.is_terminal() {
            return Ok(Sent::RunEnded(head.status));
        }
        let at = message.at.as_microsecond();
        self.conn
            .prepare_cached(
                "INSERT INTO aether_inbox(run_no, id, topic, payload, at) VALUES(?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![head.no, message.id, message.topic, message.payload.as_str(), at])?;
        let asks_to_end = END_REQUESTS.contains(&&*message.topic);
        // One that has not begun, and begins at a time, keeps the message until then.
        self.conn
            .prepare_cached(
                "UPDATE aether_runs SET wake_at = min(coalesce(wake_at, ?2), ?2) WHERE no = ?1
                     AND (?3 OR status <> 'pending' OR terms IS NULL OR json_extract(terms, '$.not_before') IS NULL)",
            )?
            .execute(params![head.no, at, asks_to_end])?;
        if asks_to_end {
            // Before its first turn a run of a queue needs no turn to end.
            self.conn
                .prepare_cached(
                    "UPDATE aether_runs SET lapses_at = min(coalesce(lapses_at, ?2), ?2)
                     WHERE no = ?1 AND queue IS NOT NULL AND begun = 0",
                )?
                .execute([head.no, at])?;
        }
        Ok(Sent::Delivered)
    }

    /// Keeps bytes of a run under their hash.
    pub(crate) fn put_blob(&mut self, run: &RunId, hash: &str, bytes: &[u8]) -> Result<(), OpError> {
        self.conn
            .prepare_cached("INSERT INTO aether_blobs(hash, bytes) VALUES(?1, ?2) ON CONFLICT DO NOTHING")?
            .execute(params![hash, bytes])?;
        self.conn
            .prepare_cached(
                "INSERT INTO aether_blob_owners(run, hash) VALUES(?1, ?2) ON CONFLICT DO NOTHING",
            )?
            .execute(params![run.as_str(), hash])?;
        Ok(())
    }

    /// Keeps an outcome under its key, unless there is one, and the values it refers to.
    pub(crate) fn put_effect(
        &mut self,
        effect: &StoredEffect,
        epoch: Epoch,
        values: &[LargeValue],
    ) -> Result<Result<(), AppendError>, OpError> {
        let head = self.known(&effect.run)?;
        if head.epoch != epoch {
            let (run, found) = (effect.run.clone(), head.epoch);
            return Ok(Err(AppendError::StaleEpoch { run, held: epoch, found }));
        }
        for LargeValue { value, at } in values {
            self.put_blob(&effect.run, &at.sha256, value.as_str().as_bytes())?;
        }
        let StoredEffect { key, frame, status, .. } = effect;
        self.conn
            .prepare_cached(
                "INSERT INTO aether_effects(key, run_no, count, events, status) VALUES(?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT DO NOTHING",
            )?
            .execute(params![
                key.as_str(),
                head.no,
                frame.count,
                frame.text,
                status.map(LedgerStatus::as_str)
            ])?;
        Ok(Ok(()))
    }

    /// Keeps a snapshot unless a newer one is there.
    pub(crate) fn save_snapshot(&mut self, run: &RunId, snapshot: &Snapshot) -> Result<(), OpError> {
        let head = self.known(run)?;
        self.conn
            .prepare_cached(
                "INSERT INTO aether_snapshots(run_no, position, state) VALUES(?1, ?2, ?3)
                 ON CONFLICT(run_no) DO UPDATE SET position = excluded.position, state = excluded.state
                 WHERE excluded.position >= aether_snapshots.position",
            )?
            .execute(params![head.no, row::int(snapshot.position), snapshot.state.as_str()])?;
        Ok(())
    }

    /// Keeps how far a body has come.
    pub(crate) fn save_progress(
        &mut self,
        run: &RunId,
        epoch: Epoch,
        command: &CommandId,
        progress: &Payload,
    ) -> Result<(), OpError> {
        self.conn
            .prepare_cached(&format!(
                "INSERT INTO aether_progress(run_no, command, value)
                 SELECT no, ?3, ?4 FROM aether_runs WHERE id = ?1 AND epoch = ?2 AND NOT {OVER}
                 ON CONFLICT(run_no, command) DO UPDATE SET value = excluded.value"
            ))?
            .execute(params![run.as_str(), row::int(epoch), command.as_str(), progress.as_str()])?;
        Ok(())
    }

    /// Deletes every snapshot.
    pub(crate) fn delete_snapshots(&mut self) -> Result<(), OpError> {
        self.conn.prepare_cached("DELETE FROM aether_snapshots")?.execute([])?;
        Ok(())
    }
}
