//! A batch as the parameters of its statements: one array per column, or single values where it is small.
//!
//! Promise: what one statement would change twice is folded: a statement sees the rows as they were before it.

use std::collections::BTreeMap;
use std::sync::Arc;

use aether_core::contract::Status;
use aether_core::id::RunId;
use aether_core::journal::chain;
use aether_core::store::ledger::{LedgerEntry, LedgerStatus, LedgerUpdate, STORE_WIDE};
use aether_core::store::{CodeChange, Decision, WaitChange};

use crate::clock::PlaceClock;
use crate::connection::Param;
use crate::database::Database;
use crate::options::PostgresOptions;
use crate::row;
use crate::shard::shard;
use crate::writer::Head;
use crate::writer::batch::{Creation, Group, Item, Write, first_head};
use crate::writer::columns::{
    Acquires, Changes, Closes, Consumes, Creates, Frames, Given, Groups, Hash, Labels, Opens, Settles,
};
use crate::writer::sql::{self, Changed, Created, ENDS, Parts, RUNS, WAITS};

/// Each number of frames has a statement of its own, which is prepared once.
const FEW: usize = 3;

/// What the creations of a batch send.
#[derive(Debug, Default)]
pub(crate) struct CreateArrays<'a> {
    runs: Creates<'a>,
    labels: Labels<'a>,
    arrays_only: bool,
}

impl<'a> CreateArrays<'a> {
    pub(crate) fn of(creations: &'a [Creation], options: &PostgresOptions) -> Self {
        let mut all = Self { arrays_only: options.arrays_only, ..Self::default() };
        for creation in creations {
            all.add(creation);
        }
        all
    }

    fn add(&mut self, creation: &'a Creation) {
        let (new, place) = (&creation.new, creation.place);
        let run = new.id.as_str();
        let (shard, owned) = (shard(run), new.owner.is_some());
        let at = row::micros(new.at);
        let checked = new.parent.as_ref().zip(new.parent_epoch);
        let queue = new.terms.queue.as_ref();
        let (key, schedule, revision) = match &creation.decision {
            Some(Decision::KeyedStart { name, revision }) => (Some(name.as_str()), None, Some(*revision)),
            Some(Decision::Schedule { name, revision }) => (None, Some(name.as_str()), Some(*revision)),
            None => (None, None, None),
        };
        self.runs.push(
            shard,
            run,
            place,
            &new.workflow,
            i64::from(new.version),
            new.code.as_str(),
            row::status_number(if owned { Status::Running } else { Status::Pending }),
            new.digest.as_str(),
            new.parent.as_ref().map(RunId::as_str),
            at,
            serde_json::to_string(&new.labels).unwrap_or_default(),
            new.traceparent.as_deref(),
            i64::from(owned),
            new.owner.as_ref().map(|owner| owner.as_str()),
            i64::from(new.frame.count),
            &new.frame.text,
            Hash(first_head(new).chain),
            checked.map(|(parent, _)| crate::shard::shard(parent.as_str())),
            checked.map(|(_, epoch)| row::int(epoch)),
            row::micros(new.terms.begins(new.at)),
            (!new.terms.is_default()).then(|| serde_json::to_string(&new.terms).unwrap_or_default()),
            queue.map(|queue| &*queue.queue),
            queue.map(|queue| &*queue.key),
            queue.map(|queue| queue.rank(new.at)),
            queue.and(new.terms.expires_at).filter(|_| !owned).map(row::micros),
            key,
            schedule,
            revision.map(row::int),
        );
        for (key, value) in new.labels.iter() {
            self.labels.push(key, value, place, shard, run);
        }
    }

    /// The statement for these runs.
    pub(crate) fn sql(&self) -> Arc<str> {
        let (given, runs) = (self.given(), &self.runs);
        let is_plain = runs.owner.iter().all(Option::is_some)
            && runs.queue.iter().all(Option::is_none)
            && runs.parent_epoch.iter().all(Option::is_none)
            && runs.decided.iter().all(Option::is_none);
        sql::create(Created {
            given,
            labelled: self.labels.rows > 0,
            plain: given != Given::Arrays && is_plain,
        })
    }

    fn given(&self) -> Given {
        if self.runs.rows == 1 && !self.arrays_only { Given::Rows(1) } else { Given::Arrays }
    }

    pub(crate) fn params(&self) -> Vec<Param<'_>> {
        let mut params = Vec::new();
        self.runs.params(self.given(), &mut params);
        if self.labels.rows > 0 {
            self.labels.params(Given::Arrays, &mut params);
        }
        params
    }
}

impl<'a> Acquires<'a> {
    /// Adds the row of a call. `no` is that of its group, `seq` its place among the rows of its run.
    pub(crate) fn add(&mut self, no: i64, run: &'a str, seq: i64, entry: &'a LedgerEntry) {
        let business_key = entry.business_key.as_deref();
        self.push(
            no,
            shard(run),
            run,
            entry.key.as_str(),
            seq,
            entry.command.as_str(),
            entry.invocation.as_str(),
            &entry.tool,
            entry.digest.as_str(),
            business_key,
            business_key.is_some_and(|key| key.starts_with(STORE_WIDE)),
            row::ledger_number(entry.status),
            entry.result.as_ref().map(|value| value.as_str()),
            entry.error.as_ref().map(|value| value.as_str()),
            entry.committed,
            row::int(entry.epoch),
            row::micros(entry.started_at),
            entry.finished_at.map(row::micros),
        );
    }
}

/// What the groups of a batch send, and where their journals end afterwards.
#[derive(Debug, Default)]
pub(crate) struct Arrays<'a> {
    groups: Groups<'a>,
    frames: Frames<'a>,
    acquires: Acquires<'a>,
    settles: Settles<'a>,
    changes: Changes<'a>,
    consumes: Consumes<'a>,
    opens: Opens<'a>,
    closes: Closes<'a>,
    arrays_only: bool,
    pub(crate) after: Vec<Head>,
}

impl<'a> Arrays<'a> {
    /// `heads` says where the journal of each group ends now.
    pub(crate) fn of(groups: impl Iterator<Item = (&'a Group, Head)>, database: &Database) -> Self {
        let mut all = Self { arrays_only: database.options.arrays_only, ..Self::default() };
        for (no, (group, head)) in (0..).zip(groups) {
            all.group(no, group, head, &database.clock);
        }
        all
    }

    fn group(&mut self, no: i64, group: &'a Group, mut head: Head, clock: &PlaceClock) {
        let (shard, run) = (group.shard, group.run.as_str());
        let Some(first) = group.items.first() else { return };
        let (epoch, expected) = (row::int(first.append.epoch), row::int(first.append.expected));
        self.groups.push(no, shard, run, epoch, head.frame, expected);
        let acquired = self.acquires.run.len();
        let settled = self.settles.run.len();
        let mut waits: BTreeMap<&str, &'a WaitChange> = BTreeMap::new();
        for item in &group.items {
            let append = &*item.append;
            self.frame(no, group, item, &mut head);
            if let (Some(acquire), None) = (&append.acquire, &item.taken) {
                self.acquires.add(no, run, row::int(append.expected), &acquire.entry);
            }
            for update in &append.ledger {
                let refused = append.acquire.as_ref().is_some_and(|acquire| acquire.entry.key == update.key)
                    && item.taken.as_ref().is_some_and(|row| row.key != update.key);
                if !refused {
                    self.settle(no, group, update, append, (acquired, settled));
                }
            }
            for seq in &append.consumed {
                self.consumes.push(no, shard, run, row::int(*seq), row::int(append.expected));
            }
            for change in &append.waits {
                let command = match change {
                    WaitChange::Opened(wait) => wait.command.as_str(),
                    WaitChange::Closed(command) => command.as_str(),
                };
                waits.insert(command, change);
            }
            self.change(no, group, append);
        }
        for (command, change) in waits {
            self.wait(no, group, command, change, clock);
        }
        self.after.push(head);
    }

    fn frame(&mut self, no: i64, group: &'a Group, item: &'a Item, head: &mut Head) {
        let (append, frame) = (&*item.append, item.frame());
        head.frame += 1;
        // A frame without events only says that something was appended: readers never see it.
        if frame.count > 0 {
            head.chain = chain(&head.chain, append.expected, append.at, &frame.text);
        }
        self.frames.push(
            no,
            group.shard,
            group.run.as_str(),
            head.frame,
            row::int(append.expected),
            i64::from(frame.count),
            row::micros(append.at),
            row::int(append.epoch),
            append.status.as_ref().is_some_and(|change| change.status.is_terminal()),
            &frame.text,
            Hash(head.chain),
        );
    }

    /// A row that the same group inserts is inserted as it will be; of two changes of one row the last counts, but a
    /// business key that was freed stays free.
    fn settle(
        &mut self,
        no: i64,
        group: &'a Group,
        update: &'a LedgerUpdate,
        append: &Write,
        (acquired, settled): (usize, usize),
    ) {
        let key = update.key.as_str();
        let result = update.result.as_ref().map(|value| value.as_str());
        let error = update.error.as_ref().map(|value| value.as_str());
        let status = row::ledger_number(update.status);
        let finished = (update.status != LedgerStatus::Started).then(|| row::micros(append.at));
        let freed = update.status == LedgerStatus::Failed;
        let place = |keys: &[&str], from: usize| {
            keys.iter().skip(from).position(|known| *known == key).map(|at| from + at)
        };
        if let Some(at) = place(&self.acquires.key, acquired) {
            let rows = &mut self.acquires;
            (rows.status[at], rows.result[at], rows.error[at]) = (status, result, error);
            (rows.committed[at], rows.finished_at[at]) = (update.committed, finished);
            if freed {
                rows.business_key[at] = None;
            }
        } else if let Some(at) = place(&self.settles.key, settled) {
            let rows = &mut self.settles;
            (rows.status[at], rows.result[at], rows.error[at]) = (status, result, error);
            (rows.committed[at], rows.finished_at[at]) = (update.committed, finished);
            rows.freed[at] |= freed;
        } else {
            let run = group.run.as_str();
            self.settles.push(
                no,
                group.shard,
                run,
                key,
                status,
                result,
                error,
                update.committed,
                finished,
                freed,
            );
        }
    }

    fn change(&mut self, no: i64, group: &'a Group, append: &'a Write) {
        if append.status.is_none() && append.code.is_none() && !append.unless_asked_to_end {
            return;
        }
        let at = row::micros(append.at);
        let change = append.status.as_ref();
        let ends = change.is_some_and(|change| change.status.is_terminal());
        let (due, seen) = match change {
            None => (0, 0),
            Some(_) if ends => (ENDS, 0),
            Some(change) if change.status == Status::Waiting => (WAITS, row::int(change.seen)),
            // A run that is held and not waiting needs no row, whenever it is due: its status says that it is, when its owner
            // dies. A row would be in the way of claims.
            Some(change) if change.release => (RUNS, 0),
            Some(_) => (0, 0),
        };
        let code = match &append.code {
            Some(CodeChange::Adopted(code)) => Some(code.as_str()),
            _ => None,
        };
        let parked = match &append.code {
            _ if ends => Some(false),
            Some(CodeChange::Adopted(_)) => Some(false),
            Some(CodeChange::Parked) => Some(true),
            None => None,
        };
        self.changes.push(
            no,
            group.shard,
            group.run.as_str(),
            append.unless_asked_to_end,
            change.map(|change| row::status_number(change.status)),
            ends.then_some(at),
            change.is_some_and(|change| ends || change.release),
            code,
            parked,
            due,
            change.and_then(|change| change.wake_at).map(row::micros),
            seen,
            at,
            change.and_then(|change| change.notify.as_ref()).map(RunId::as_str),
        );
    }

    fn wait(
        &mut self,
        no: i64,
        group: &'a Group,
        command: &'a str,
        change: &'a WaitChange,
        clock: &PlaceClock,
    ) {
        let (shard, run) = (group.shard, group.run.as_str());
        let WaitChange::Opened(wait) = change else { return self.closes.push(no, shard, run, command) };
        self.opens.push(
            no,
            shard,
            run,
            command,
            clock.next(shard),
            wait.waiting.as_str(),
            &wait.name,
            row::micros(wait.since),
            wait.until.map(row::micros),
            wait.site.as_deref(),
            wait.detail.as_str(),
        );
    }

    /// The statement for these groups.
    pub(crate) fn sql(&self) -> Arc<str> {
        sql::append(self.parts())
    }

    /// Which parts the statement needs.
    fn parts(&self) -> Parts {
        let within = |(key, store_wide): (&Option<&str>, &bool)| key.is_some() && !store_wide;
        let (frames, small, changes) = (self.frames.rows, self.is_small(), &self.changes);
        let is_end = changes.due.iter().all(|due| *due == ENDS)
            && changes.code.iter().all(Option::is_none)
            && changes.parent.iter().all(Option::is_none);
        Parts {
            given: if small { Given::Rows(1) } else { Given::Arrays },
            frames: if small && frames <= FEW { Given::Rows(frames) } else { Given::Arrays },
            acquires: self.acquires.rows > 0,
            business: self.acquires.business_key.iter().zip(&self.acquires.store_wide).any(within),
            settles: self.settles.rows > 0,
            changes: (self.changes.rows > 0).then_some(match small && is_end {
                true => Changed::End,
                false => Changed::Any,
            }),
            consumes: self.consumes.rows > 0,
            opens: self.opens.rows > 0,
            closes: self.closes.rows > 0,
        }
    }

    /// Whether it is about one run, with no more than one row of each kind beside the frames.
    fn is_small(&self) -> bool {
        let others = [
            self.acquires.rows,
            self.settles.rows,
            self.changes.rows,
            self.consumes.rows,
            self.opens.rows,
            self.closes.rows,
        ];
        !self.arrays_only && self.groups.rows == 1 && others.iter().all(|rows| *rows <= 1)
    }

    /// The parameters of the statement.
    pub(crate) fn params(&self) -> Vec<Param<'_>> {
        let (parts, mut params) = (self.parts(), Vec::with_capacity(64));
        let given = parts.given;
        self.groups.params(given, &mut params);
        self.frames.params(parts.frames, &mut params);
        if parts.acquires {
            self.acquires.params(given, &mut params);
        }
        if parts.settles {
            self.settles.params(given, &mut params);
        }
        if parts.consumes {
            self.consumes.params(given, &mut params);
        }
        if parts.changes.is_some() {
            self.changes.params(given, &mut params);
        }
        if parts.opens {
            self.opens.params(given, &mut params);
        }
        if parts.closes {
            self.closes.params(given, &mut params);
        }
        params
    }
}
