//! What one batch sends: the appends of each run as a group, and one array per column.
//!
//! Promise: groups are sorted by shard and run, so that two writers lock rows in the same order. What one statement would
//! change twice is folded: a statement sees the rows as they were before it.

use std::collections::BTreeMap;
use std::time::Instant;

use aether_core::contract::Status;
use aether_core::id::{Epoch, Position, RunId};
use aether_core::journal::{CHAIN_START, Frame, chain};
use aether_core::store::ledger::{Acquire, LedgerEntry, LedgerStatus, LedgerUpdate, STORE_WIDE};
use aether_core::store::{Ack, Append, CodeChange, NewRun, Renewal, StatusChange, StoreError, WaitChange};
use jiff::Timestamp;
use tokio::sync::oneshot;

use crate::clock::PlaceClock;
use crate::connection::Param;
use crate::row;
use crate::shard::shard;
use crate::writer::Head;
use crate::writer::sql::{ENDS, Parts, RUNS, WAITS};

/// An [`Append`] without a unit of work, which could not be shared between threads.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) run: RunId,
    pub(crate) epoch: Epoch,
    pub(crate) expected: Position,
    pub(crate) at: Timestamp,
    pub(crate) frame: Frame,
    pub(crate) acquire: Option<Acquire>,
    pub(crate) ledger: Vec<LedgerUpdate>,
    pub(crate) status: Option<StatusChange>,
    pub(crate) consumed: Vec<u64>,
    pub(crate) waits: Vec<WaitChange>,
    pub(crate) code: Option<CodeChange>,
    pub(crate) unless_asked_to_end: bool,
    pub(crate) renews: Option<Renewal>,
    pub(crate) ack: Ack,
}

impl From<Append> for Write {
    fn from(append: Append) -> Self {
        let Append {
            run,
            epoch,
            expected,
            at,
            frame,
            work: _,
            acquire,
            ledger,
            status,
            consumed,
            waits,
            code,
            unless_asked_to_end,
            renews,
            ack,
        } = append;
        Self {
            run,
            epoch,
            expected,
            at,
            frame,
            acquire,
            ledger,
            status,
            consumed,
            waits,
            code,
            unless_asked_to_end,
            renews,
            ack,
        }
    }
}

/// An append on its way.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) append: Box<Write>,
    /// The row that has its key: `otherwise` is written instead of its frame.
    pub(crate) taken: Option<Box<LedgerEntry>>,
    /// The numbers under which its frame may have been written by a statement whose answer was lost.
    pub(crate) lost: Vec<i64>,
    /// How often it was refused without a reason.
    pub(crate) refusals: u32,
}

impl Item {
    pub(crate) fn new(append: Box<Write>) -> Self {
        Self { append, taken: None, lost: Vec::new(), refusals: 0 }
    }

    /// The frame to be written.
    pub(crate) fn frame(&self) -> &Frame {
        match (&self.append.acquire, &self.taken) {
            (Some(acquire), Some(_)) => &acquire.otherwise,
            _ => &self.append.frame,
        }
    }

    /// Whether it must be the last of its group: what it changes of the run is changed once in a statement.
    fn ends_group(&self) -> bool {
        let append = &self.append;
        append.status.is_some()
            || append.code.is_some()
            || append.unless_asked_to_end
            || append.renews.is_some()
    }

    /// Whether it opens a wait that `other` closes, which must be listed in another place.
    fn reopens(&self, other: &Self) -> bool {
        self.append.waits.iter().any(|change| match change {
            WaitChange::Opened(wait) => other
                .append
                .waits
                .iter()
                .any(|change| matches!(change, WaitChange::Closed(command) if *command == wait.command)),
            WaitChange::Closed(_) => false,
        })
    }
}

/// The appends of one run in a batch: admitted whole or not at all. Never empty.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) run: RunId,
    pub(crate) shard: i16,
    pub(crate) items: Vec<Item>,
}

impl Group {
    pub(crate) fn new(item: Item) -> Self {
        let run = item.append.run.clone();
        Self { shard: shard(run.as_str()), run, items: vec![item] }
    }

    /// Whether `item` may be written by the same statement.
    pub(crate) fn takes(&self, item: &Item) -> bool {
        let follows = |last: &Item| {
            let next = last.append.expected.saturating_add(u64::from(last.append.frame.count));
            (last.append.epoch, next) == (item.append.epoch, item.append.expected)
        };
        // A new generation is written alone.
        item.append.renews.is_none()
            && self.items.last().is_none_or(follows)
            && self.items.iter().all(|earlier| !earlier.ends_group() && !item.reopens(earlier))
    }
}

/// A run to be created.
#[derive(Debug)]
pub(crate) struct Creation {
    pub(crate) new: NewRun,
    /// Rows of the calls that a fork has copied.
    pub(crate) ledger: Vec<LedgerEntry>,
    pub(crate) reply: oneshot::Sender<Result<bool, StoreError>>,
    pub(crate) since: Instant,
    /// The place of the last try.
    pub(crate) place: i64,
    /// Places under which it may have been created by a statement whose answer was lost.
    pub(crate) lost: Vec<i64>,
}

/// One transaction: runs to create, and groups of appends.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) creations: Vec<Creation>,
    pub(crate) groups: BTreeMap<(i16, RunId), Group>,
    /// How often it was tried as it is.
    pub(crate) tries: u32,
    /// Another transaction was in the way: this one waits for locks for a moment only, because others wait behind it.
    pub(crate) hurried: bool,
}

impl Batch {
    pub(crate) fn len(&self) -> usize {
        self.creations.len() + self.groups.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn insert(&mut self, group: Group) {
        self.groups.insert((group.shard, group.run.clone()), group);
    }

    /// Two batches that may be written one after the other in its place; `None` where it is one append or creation.
    pub(crate) fn halves(mut self) -> Result<(Self, Self), Self> {
        if self.len() > 1 {
            let half = self.len() / 2;
            let creations = self.creations.split_off(half.min(self.creations.len()));
            let first_groups = half.saturating_sub(self.creations.len());
            let mut groups = std::mem::take(&mut self.groups).into_iter();
            let first = Self {
                creations: std::mem::take(&mut self.creations),
                groups: groups.by_ref().take(first_groups).collect(),
                tries: 0,
                hurried: self.hurried,
            };
            return Ok((
                first,
                Self { creations, groups: groups.collect(), tries: 0, hurried: self.hurried },
            ));
        }
        // A group of several: its first append, and the others.
        let Some(mut group) = self.groups.first_entry().filter(|group| group.get().items.len() > 1) else {
            return Err(self);
        };
        let rest = group.get_mut().items.split_off(1);
        let (run, shard) = (group.get().run.clone(), group.get().shard);
        let mut second = Self { hurried: self.hurried, ..Self::default() };
        second.insert(Group { run, shard, items: rest });
        self.tries = 0;
        Ok((self, second))
    }
}

/// A column's name as SQL has it.
const fn column_name(name: &'static str) -> &'static str {
    match name.as_bytes() {
        b"r#final" => "final",
        _ => name,
    }
}

/// Columns of one of the tables that a statement gets as arrays.
macro_rules! columns {
    ($(#[$doc:meta])* $table:ident { $($column:ident: $rust:ty = $kind:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub(crate) struct $table<'a> {
            $(pub(crate) $column: Vec<$rust>,)+
            lifetime: std::marker::PhantomData<&'a ()>,
        }

        impl<'a> $table<'a> {
            /// Names and types, in the order of the parameters.
            pub(crate) const COLUMNS: &'static [(&'static str, &'static str)] =
                &[$((column_name(stringify!($column)), $kind)),+];

            #[allow(clippy::too_many_arguments, reason = "one per column")]
            pub(crate) fn push(&mut self, $($column: $rust),+) {
                $(self.$column.push($column);)+
            }

            pub(crate) fn params<'p>(&'p self, params: &mut Vec<Param<'p>>) {
                $(params.push(&self.$column);)+
            }
        }
    };
}

columns!(
    /// Runs to create.
    Creates {
        shard: i16 = "int2",
        run: &'a str = "text",
        place: i64 = "int8",
        workflow: &'a str = "text",
        version: i64 = "int8",
        code: &'a str = "text",
        status: i16 = "int2",
        digest: &'a str = "text",
        parent: Option<&'a str> = "text",
        created_at: i64 = "int8",
        labels: String = "text",
        traceparent: Option<&'a str> = "text",
        epoch: i64 = "int8",
        owner: Option<&'a str> = "text",
        count: i64 = "int8",
        events: &'a str = "text",
        chain: Vec<u8> = "bytea",
        parent_shard: Option<i16> = "int2",
        parent_epoch: Option<i64> = "int8",
        wake_at: i64 = "int8",
        terms: Option<String> = "text",
        queue: Option<&'a str> = "text",
        queue_key: Option<&'a str> = "text",
        rank: Option<i64> = "int8",
        lapses_at: Option<i64> = "int8",
    }
);

columns!(
    /// Labels of runs to create.
    Labels {
        key: &'a str = "text",
        value: &'a str = "text",
        place: i64 = "int8",
        shard: i16 = "int2",
        run: &'a str = "text",
    }
);

columns!(
    /// One row per run: where its appends begin.
    Groups {
        no: i64 = "int8",
        shard: i16 = "int2",
        run: &'a str = "text",
        epoch: i64 = "int8",
        before: i64 = "int8",
        expected: i64 = "int8",
    }
);

columns!(
    /// Frames to append.
    Frames {
        no: i64 = "int8",
        shard: i16 = "int2",
        run: &'a str = "text",
        frame: i64 = "int8",
        position: i64 = "int8",
        count: i64 = "int8",
        at: i64 = "int8",
        epoch: i64 = "int8",
        r#final: bool = "bool",
        events: &'a str = "text",
        chain: Vec<u8> = "bytea",
    }
);

columns!(
    /// Ledger rows to insert.
    Acquires {
        no: i64 = "int8",
        shard: i16 = "int2",
        run: &'a str = "text",
        key: &'a str = "text",
        seq: i64 = "int8",
        command: &'a str = "text",
        invocation: &'a str = "text",
        tool: &'a str = "text",
        digest: &'a str = "text",
        business_key: Option<&'a str> = "text",
        store_wide: bool = "bool",
        status: i16 = "int2",
        result: Option<&'a str> = "text",
        error: Option<&'a str> = "text",
        committed: bool = "bool",
        epoch: i64 = "int8",
        started_at: i64 = "int8",
        finished_at: Option<i64> = "int8",
    }
);

columns!(
    /// Ledger rows to change.
    Settles {
        no: i64 = "int8",
        shard: i16 = "int2",
        run: &'a str = "text",
        key: &'a str = "text",
        status: i16 = "int2",
        result: Option<&'a str> = "text",
        error: Option<&'a str> = "text",
        committed: bool = "bool",
        finished_at: Option<i64> = "int8",
        freed: bool = "bool",
    }
);

columns!(
    /// Changes of status and code.
    Changes {
        no: i64 = "int8",
        shard: i16 = "int2",
        run: &'a str = "text",
        guarded: bool = "bool",
        status: Option<i16> = "int2",
        ended_at: Option<i64> = "int8",
        release: bool = "bool",
        code: Option<&'a str> = "text",
        parked: Option<bool> = "bool",
        due: i16 = "int2",
        wake_at: Option<i64> = "int8",
        seen: i64 = "int8",
        at: i64 = "int8",
        parent: Option<&'a str> = "text",
    }
);

columns!(
    /// Messages that are consumed.
    Consumes {
        no: i64 = "int8",
        shard: i16 = "int2",
        run: &'a str = "text",
        seq: i64 = "int8",
        position: i64 = "int8",
    }
);

columns!(
    /// Waits that are open.
    Opens {
        no: i64 = "int8",
        shard: i16 = "int2",
        run: &'a str = "text",
        command: &'a str = "text",
        place: i64 = "int8",
        kind: &'a str = "text",
        name: &'a str = "text",
        since: i64 = "int8",
        until: Option<i64> = "int8",
        site: Option<&'a str> = "text",
        detail: &'a str = "text",
    }
);

columns!(
    /// Waits that are closed.
    Closes {
        no: i64 = "int8",
        shard: i16 = "int2",
        run: &'a str = "text",
        command: &'a str = "text",
    }
);

/// What the creations of a batch send.
#[derive(Debug, Default)]
pub(crate) struct CreateArrays<'a> {
    runs: Creates<'a>,
    labels: Labels<'a>,
}

impl<'a> CreateArrays<'a> {
    pub(crate) fn of(creations: &'a [Creation]) -> Self {
        let mut all = Self::default();
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
            first_head(new).chain.to_vec(),
            checked.map(|(parent, _)| crate::shard::shard(parent.as_str())),
            checked.map(|(_, epoch)| row::int(epoch)),
            new.terms.not_before.map_or(at, |begins| row::micros(begins).max(at)),
            (!new.terms.is_default()).then(|| serde_json::to_string(&new.terms).unwrap_or_default()),
            queue.map(|queue| &*queue.queue),
            queue.map(|queue| &*queue.key),
            queue.map(|queue| queue.rank(new.at)),
            queue.and(new.terms.expires_at).filter(|_| !owned).map(row::micros),
        );
        for (key, value) in new.labels.iter() {
            self.labels.push(key, value, place, shard, run);
        }
    }

    /// Whether any of the runs has labels.
    pub(crate) fn labelled(&self) -> bool {
        !self.labels.run.is_empty()
    }

    pub(crate) fn params(&self) -> Vec<Param<'_>> {
        let mut params = Vec::new();
        self.runs.params(&mut params);
        if self.labelled() {
            self.labels.params(&mut params);
        }
        params
    }
}

/// Where the journal of a run ends that was just created.
pub(crate) fn first_head(new: &NewRun) -> Head {
    let hash = match new.frame.count {
        0 => CHAIN_START,
        _ => chain(&CHAIN_START, 0, new.at, &new.frame.text),
    };
    Head { frame: 0, chain: hash }
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
    pub(crate) after: Vec<Head>,
}

impl<'a> Arrays<'a> {
    /// `heads` says where the journal of each group ends now.
    pub(crate) fn of(groups: impl Iterator<Item = (&'a Group, Head)>, clock: &PlaceClock) -> Self {
        let mut all = Self::default();
        for (no, (group, head)) in (0..).zip(groups) {
            all.group(no, group, head, clock);
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
                self.acquire(no, group, &acquire.entry, append);
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
            head.chain.to_vec(),
        );
    }

    fn acquire(&mut self, no: i64, group: &'a Group, entry: &'a LedgerEntry, append: &Write) {
        let business_key = entry.business_key.as_deref();
        self.acquires.push(
            no,
            group.shard,
            group.run.as_str(),
            entry.key.as_str(),
            row::int(append.expected),
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
            // A run that is held and not waiting needs no row: it is due when its owner dies.
            Some(change) if change.release || change.wake_at.is_some() => (RUNS, 0),
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

    /// Which parts the statement needs.
    pub(crate) fn parts(&self) -> Parts {
        let within = |(key, store_wide): (&Option<&str>, &bool)| key.is_some() && !store_wide;
        Parts {
            acquires: !self.acquires.run.is_empty(),
            business: self.acquires.business_key.iter().zip(&self.acquires.store_wide).any(within),
            settles: !self.settles.run.is_empty(),
            changes: !self.changes.run.is_empty(),
            consumes: !self.consumes.run.is_empty(),
            opens: !self.opens.run.is_empty(),
            closes: !self.closes.run.is_empty(),
        }
    }

    /// The parameters of the statement with these parts.
    pub(crate) fn params(&self) -> Vec<Param<'_>> {
        let (parts, mut params) = (self.parts(), Vec::with_capacity(64));
        self.groups.params(&mut params);
        self.frames.params(&mut params);
        if parts.acquires {
            self.acquires.params(&mut params);
        }
        if parts.settles {
            self.settles.params(&mut params);
        }
        if parts.consumes {
            self.consumes.params(&mut params);
        }
        if parts.changes {
            self.changes.params(&mut params);
        }
        if parts.opens {
            self.opens.params(&mut params);
        }
        if parts.closes {
            self.closes.params(&mut params);
        }
        params
    }
}
