//! One transaction of the writer: appends and calls applied one after the other, made durable together.
//!
//! Promise: what is refused leaves nothing behind; what the cache says of a run was checked against the file in this
//! very transaction, or the file did not change since; nothing is believed after a rollback.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

use aether_core::id::RunId;
use aether_core::journal::chain;
use aether_core::store::ledger::Acquired;
use aether_core::store::{Append, AppendError, StatusChange, StoreError};

use crate::error::{AppendOpError, OpError};
use crate::renewal::begin_generation;
use crate::sched::Instant;
use crate::statements::{Head, Statements};
use crate::streams;

/// More heads than this are forgotten between two transactions.
const HEADS: usize = 50_000;

/// The writer's transaction and what it remembers between transactions.
pub(crate) struct Batch<'c> {
    pub(crate) conn: &'c Connection,
    pub(crate) store: Arc<str>,
    pub(crate) statements: Statements<'c>,
    heads: HashMap<RunId, Head>,
    /// Runs whose rows are to be brought up to date with this transaction.
    behind: Vec<RunId>,
    version: Option<i64>,
    patience: Duration,
}

impl<'c> Batch<'c> {
    /// Prepares for the first transaction. `patience` is how long [`Batch::begin`] keeps trying.
    pub(crate) fn new(conn: &'c Connection, store: &Arc<str>, patience: Duration) -> rusqlite::Result<Self> {
        Ok(Self {
            conn,
            store: store.clone(),
            statements: Statements::prepare(conn)?,
            heads: HashMap::new(),
            behind: Vec::new(),
            version: None,
            patience,
        })
    }

    /// From now on [`Batch::begin`] keeps trying for at most `patience`.
    pub(crate) fn limit_patience(&mut self, patience: Duration) {
        self.patience = self.patience.min(patience);
    }

    /// Takes the write lock and forgets what another connection may have changed.
    pub(crate) fn begin(&mut self) -> rusqlite::Result<()> {
        self.lock()?;
        // Under the lock: were it read before, another process could claim a run between this look and the appends that
        // are admitted by the cache, and a fenced writer would get through.
        let version = self.statements.data_version()?;
        // Another process may have brought the file to the tables of a newer build: what this one would write, that one may
        // not understand.
        if self.version != Some(version)
            && let Err(error) = self.statements.known_tables()
        {
            self.rollback();
            return Err(error);
        }
        // Only here is the cache cut back: within a transaction every append would look for its run again.
        if self.version != Some(version) || self.heads.len() > HEADS {
            self.forget();
        }
        self.version = Some(version);
        Ok(())
    }

    /// Takes the write lock. Another process may hold it for longer than SQLite waits: nothing queued fails
    /// for that until the patience is at its end.
    fn lock(&mut self) -> rusqlite::Result<()> {
        let since = Instant::now();
        loop {
            match self.statements.begin() {
                Err(error) if is_busy(&error) && since.elapsed() < self.patience => {
                    let waited = since.elapsed();
                    tracing::warn!(store = %self.store, ?waited, "another process holds the file; trying again");
                }
                other => return other,
            }
        }
    }

    /// Makes everything durable.
    pub(crate) fn commit(&mut self) -> rusqlite::Result<()> {
        self.flush()?;
        self.statements.commit()
    }

    /// Undoes everything, also after a commit that failed.
    pub(crate) fn rollback(&mut self) {
        // Whether or not the rollback works: the heads moved along with frames that are not in the file.
        self.forget();
        // SQLite rolls back by itself on some errors (a full disk, for one), and a second rollback would be an error.
        if !self.conn.is_autocommit()
            && let Err(error) = self.statements.rollback()
        {
            tracing::error!(store = %self.store, %error, "rollback failed");
        }
    }

    fn forget(&mut self) {
        self.heads.clear();
        self.behind.clear();
        self.version = None;
    }

    /// Writes the rows that were too far behind.
    pub(crate) fn flush(&mut self) -> rusqlite::Result<()> {
        for run in self.behind.drain(..) {
            if let Some(head) = self.heads.get_mut(&run).filter(|head| head.behind) {
                self.statements.touch(head)?;
                head.set_saved();
            }
        }
        Ok(())
    }

    /// Keeps in mind a run that was just created.
    pub(crate) fn remember(&mut self, run: RunId, head: Head) {
        self.heads.insert(run, head);
    }

    /// Forgets a run whose row was just changed by other means than an append.
    pub(crate) fn forget_run(&mut self, run: &RunId) {
        self.heads.remove(run);
    }

    /// Applies one append whole or not at all. The run's row follows when its status changes, and at most a second
    /// later: to write it with every append would cost a fifth of the whole. Who reads it looks at the last frame, too.
    pub(crate) fn append(&mut self, append: &Append) -> Result<Acquired, AppendOpError> {
        self.admit(append)?;
        // A savepoint costs two statements. One statement that can refuse needs none: it comes before anything is
        // written.
        let undoable = append.ledger.len() + usize::from(append.acquire.is_some()) > 1;
        if !undoable {
            return self.write(append);
        }
        self.statements.savepoint()?;
        let written = self.write(append);
        // After an error of the driver the savepoint may be gone with the transaction, which is rolled back anyway.
        if !matches!(written, Err(OpError::Sqlite(_))) {
            self.statements.end_savepoint(written.is_ok())?;
        }
        written
    }

    /// Looks for an append in the journal that an earlier transaction may have written although its commit failed: the
    /// same run, epoch, position and frame. `None`: it is not there.
    pub(crate) fn find(&mut self, append: &Append) -> Result<Option<Acquired>, AppendOpError> {
        let Some((epoch, events)) = self.statements.frame_at(&append.run, append.expected)? else {
            return Ok(None);
        };
        if epoch != append.epoch {
            return Ok(None);
        }
        Ok(match &append.acquire {
            None if events == append.frame.text => Some(Acquired::NotAsked),
            Some(_) if events == append.frame.text => Some(Acquired::Granted),
            Some(ask) if events == ask.otherwise.text => {
                Some(Acquired::Taken(Box::new(self.statements.holder(&ask.entry)?)))
            }
            _ => None,
        })
    }

    /// Checks run, epoch, status and position.
    pub(crate) fn admit(&mut self, append: &Append) -> Result<(), AppendOpError> {
        let run = &append.run;
        if let Some(refused) = append.unborn() {
            return Err(OpError::Refused(refused));
        }
        let head = match self.heads.entry(run.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => match self.statements.head(run)? {
                Some(head) => place.insert(head),
                None => return Err(OpError::Refused(StoreError::UnknownRun { run: run.clone() }.into())),
            },
        };
        let run = run.clone();
        // The epoch first: a writer that lost the run mostly has a wrong position, too, and must be told the cause.
        Err(OpError::Refused(if head.epoch != append.epoch {
            AppendError::StaleEpoch { run, held: append.epoch, found: head.epoch }
        } else if head.status.is_terminal() {
            AppendError::RunEnded { run, status: head.status }
        } else if head.next != append.expected {
            AppendError::WrongPosition { run, expected: append.expected, found: head.next }
        } else if append.unless_asked_to_end && self.statements.is_asked_to_end(head.no)? {
            AppendError::AskedToEnd { run }
        } else {
            return Ok(());
        }))
    }

    /// Writes an admitted append. Whatever can be refused comes first, so that a refusal finds nothing written, or
    /// a savepoint to go back to.
    fn write(&mut self, append: &Append) -> Result<Acquired, AppendOpError> {
        let Some(head) = self.heads.get_mut(&append.run) else {
            return Err(OpError::Row(format!("run `{}` was admitted and is gone", append.run)));
        };
        let (frame, acquired) = match &append.acquire {
            None => (&append.frame, Acquired::NotAsked),
            Some(ask) if self.statements.acquire(head, &ask.entry)? => (&append.frame, Acquired::Granted),
            Some(ask) => (&ask.otherwise, Acquired::Taken(Box::new(self.statements.holder(&ask.entry)?))),
        };
        for update in &append.ledger {
            if !self.statements.settle(update, append.at)? {
                let reason = format!("there is no ledger row `{}` to change", update.key);
                return Err(OpError::Refused(
                    StoreError::Corrupt { store: self.store.to_string(), reason }.into(),
                ));
            }
        }
        // From here on nothing refuses: the head moves with what is written, and undoing a savepoint does not move it
        // back.
        for seq in &append.consumed {
            self.statements.consume(head.no, *seq, append.expected)?;
        }
        for change in &append.waits {
            self.statements.waits.change(head.no, change)?;
        }
        if let Some(change) = &append.code {
            self.statements.code(head.no, change)?;
        }
        let (no, base) = (head.no, head.next);
        if frame.count > 0 {
            let hash = chain(&head.chain, head.next, append.at, &frame.text);
            self.statements.frame(head, frame, append.at, &hash)?;
            head.chain = hash;
            head.next += u64::from(frame.count);
        }
        head.at = append.at;
        streams::end(self.conn, no, append)?;
        if let Some(renewal) = &append.renews {
            begin_generation(self.conn, &append.run, no, base, renewal)?;
        }
        match &append.status {
            Some(change) => self.change(append, change)?,
            None if head.is_far_behind() => {
                head.behind = true;
                self.behind.push(append.run.clone());
            }
            None => {}
        }
        Ok(acquired)
    }

    fn change(&mut self, append: &Append, change: &StatusChange) -> rusqlite::Result<()> {
        if let Some(head) = self.heads.get_mut(&append.run) {
            self.statements.status(head, change)?;
            head.set_saved();
            head.status = change.status;
        }
        match &change.notify {
            Some(other) => self.statements.notify(other, append.at),
            None => Ok(()),
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}
