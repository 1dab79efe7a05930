//! What one batch writes: runs to create, and the appends of each run as a group.
//!
//! Promise: groups are sorted by shard and run, so that two writers lock rows in the same order.

use std::collections::BTreeMap;
use std::time::Instant;

use aether_core::id::{Epoch, Position, RunId};
use aether_core::journal::{CHAIN_START, Frame, chain};
use aether_core::store::ledger::{Acquire, LedgerEntry, LedgerUpdate};
use aether_core::store::{
    Ack, Append, CodeChange, Decision, NewRun, Renewal, StatusChange, StoreError, StreamEnd, WaitChange,
};
use jiff::Timestamp;
use tokio::sync::oneshot;

use crate::shard::shard;
use crate::writer::Head;

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
    pub(crate) streams: Vec<StreamEnd>,
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
            streams,
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
            streams,
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

    /// Whether its run waits for it and mostly appends again soon.
    pub(crate) fn goes_on(&self) -> bool {
        self.append.ack.is_awaited() && self.append.status.is_none()
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
    /// What it rests on.
    pub(crate) decision: Option<Decision>,
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
    /// Until when what holds it up is looked for by halves.
    pub(crate) apart_until: Option<Instant>,
}

impl Batch {
    pub(crate) fn len(&self) -> usize {
        self.creations.len() + self.groups.len()
    }

    /// How many appends there are in it.
    pub(crate) fn appends(&self) -> usize {
        self.groups.values().map(|group| group.items.len()).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it has appends of one run, and nothing else.
    pub(crate) fn is_one_group(&self) -> bool {
        self.creations.is_empty() && self.groups.len() == 1
    }

    /// Whether it creates one run, and nothing else.
    pub(crate) fn is_one_creation(&self) -> bool {
        self.groups.is_empty() && self.creations.len() == 1
    }

    /// An empty batch that is written as this one, and was not tried.
    fn like(&self) -> Self {
        Self { hurried: self.hurried, apart_until: self.apart_until, ..Self::default() }
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
            let (first_creations, of_first) =
                (std::mem::take(&mut self.creations), groups.by_ref().take(first_groups));
            let first = Self { creations: first_creations, groups: of_first.collect(), ..self.like() };
            return Ok((first, Self { creations, groups: groups.collect(), ..self.like() }));
        }
        // A group of several: its first append, and the others.
        let Some(mut group) = self.groups.first_entry().filter(|group| group.get().items.len() > 1) else {
            return Err(self);
        };
        let rest = group.get_mut().items.split_off(1);
        let (run, shard) = (group.get().run.clone(), group.get().shard);
        let mut second = self.like();
        second.insert(Group { run, shard, items: rest });
        self.tries = 0;
        Ok((self, second))
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
