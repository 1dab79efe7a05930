//! Writes that others hold up: by locks, or by damage that their run alone has.
//!
//! Promise: appends of a run keep their order. What is held up costs the others little of the time, however much it is,
//! and is written within seconds after nothing holds it up any more. A creation waits for as long as one does for a server
//! that is away; whoever asked for it is told then.

use std::time::{Duration, Instant};

use aether_core::id::RunId;
use aether_core::store::StoreError;

use crate::writer::batch::{Batch, Creation, Group};
use crate::writer::{BATCH_BYTES, CLOSE_PATIENCE, Op, Writer, fail};

/// After how long an append that is held up is tried again, at least.
const HELD_UP: Duration = Duration::from_millis(100);
/// What is held up is tried for a tenth of the time: the pause before the next try is this many times as long as the last.
const HELD_UP_SHARE: u32 = 9;
/// No pause is longer, also where a busy server takes long for a try.
const LONGEST_PAUSE: Duration = Duration::from_secs(3);
/// So many runs that are held up are tried at a time. If all of them still are, finding that out takes about a third of a
/// second, and the pause that follows about three.
const RUNS: usize = 8;
/// For so long it is looked for what holds up a batch. After that all of it that waits for a lock is held up: where a whole
/// table is locked, each half of a batch waits in vain.
const APART: Duration = Duration::from_secs(1);

/// Runs under one id that are to be created, and wait.
#[derive(Debug)]
pub(crate) struct LaterCreations {
    /// When they are tried again.
    at: Instant,
    creations: Vec<Creation>,
    /// What was in the way.
    error: StoreError,
}

/// The runs that are tried next, of all that wait until then.
fn oldest<'a>(waiting: impl Iterator<Item = (Instant, &'a RunId)>, until: Option<Instant>) -> Vec<RunId> {
    let mut ready: Vec<_> = waiting.filter(|(at, _)| until.is_none_or(|until| *at <= until)).collect();
    ready.sort_unstable();
    ready.into_iter().take(RUNS).map(|(_, run)| run.clone()).collect()
}

impl Batch {
    /// Whether what holds it up has been looked for long enough. Begins to look at the first call.
    pub(super) fn is_held_up_for_long(&mut self) -> bool {
        Instant::now() >= *self.apart_until.get_or_insert_with(|| Instant::now() + APART)
    }
}

impl Writer {
    /// Before when nothing that is held up is tried again, after a try that began then. There is no pause where all of it
    /// could be written.
    pub(super) fn pause_of_later(&self, began: Instant) -> Option<Instant> {
        let pause = (began.elapsed() * HELD_UP_SHARE).min(LONGEST_PAUSE);
        self.holds_up.then(|| Instant::now() + pause)
    }

    /// When something that is held up is to be tried again.
    pub(super) fn next_of_later(&self) -> Option<Instant> {
        let creations = self.later_creations.values().map(|later| later.at);
        let appends = self.later.iter().filter(|(run, _)| !self.later_creations.contains_key(*run));
        let first = appends.map(|(_, (at, _))| *at).chain(creations).min()?;
        Some(self.later_from.map_or(first, |from| from.max(first)))
    }

    /// What has been held up the longest and whose time has come, as a batch of its own: the others do not wait for it once
    /// more.
    pub(super) fn take_later(&mut self) -> Option<Batch> {
        self.answer_late_creations();
        // Of a creation that is given up, nothing is on its way any more.
        self.lower_barriers();
        let now = Instant::now();
        let closes = self.closing.is_some();
        if !closes && self.next_of_later().is_none_or(|next| next > now) {
            return None;
        }
        let until = (!closes).then_some(now);
        let mut batch = Batch { hurried: true, ..Batch::default() };
        let mut bytes = 0;
        for run in oldest(self.later_creations.iter().map(|(run, later)| (later.at, run)), until) {
            let later = self.later_creations.remove(&run);
            for creation in later.into_iter().flat_map(|later| later.creations) {
                bytes += creation.new.frame.text.len();
                batch.creations.push(creation);
            }
        }
        // Appends to what is still to be created wait for that.
        let appends = self.later.iter().filter(|(run, _)| !self.later_creations.contains_key(*run));
        for run in oldest(appends.map(|(run, (at, _))| (*at, run)), until) {
            if bytes >= BATCH_BYTES {
                break;
            }
            if let Some((_, group)) = self.later.remove(&run) {
                // One after the other: they may not fit into one group.
                let mut items = group.items.into_iter();
                if let Some(first) = items.next() {
                    bytes += first.append.frame.text.len();
                    batch.insert(Group::new(first));
                }
                items.rev().for_each(|item| self.waiting.push_front(Op::Append(item)));
            }
        }
        (!batch.is_empty()).then_some(batch)
    }

    /// What concerns a run of which something is held up waits behind that: appends, and creations under its id.
    pub(super) fn keep_order(&mut self, batch: &mut Batch) {
        if self.later.is_empty() && self.later_creations.is_empty() {
            return;
        }
        let waits = |run: &RunId| self.later.contains_key(run) || self.later_creations.contains_key(run);
        let held_up: Vec<_> = batch.groups.extract_if(.., |(_, run), _| waits(run)).collect();
        held_up.into_iter().for_each(|(_, group)| self.put_off(group));
        for creation in std::mem::take(&mut batch.creations) {
            match self.later_creations.get_mut(&creation.new.id) {
                Some(earlier) => earlier.creations.push(creation),
                None => batch.creations.push(creation),
            }
        }
    }

    /// Appends are tried again later, behind what their run has there already.
    pub(super) fn put_off(&mut self, group: Group) {
        match self.later.get_mut(&group.run) {
            Some((_, earlier)) => earlier.items.extend(group.items),
            None => drop(self.later.insert(group.run.clone(), (Instant::now() + HELD_UP, group))),
        }
    }

    /// What is held up waits, and does not hold up the rest.
    pub(super) fn hold_up(&mut self, batch: Batch, error: &StoreError) {
        if self.closing.is_some_and(|since| since.elapsed() >= CLOSE_PATIENCE) {
            tracing::error!(%error, "the store closes with writes that are held up");
            self.given_up = Some(error.clone());
            return fail(batch, error);
        }
        tracing::warn!(%error, writes = batch.len(), "writes are held up; they are tried again");
        self.holds_up = true;
        batch.groups.into_values().for_each(|group| self.put_off(group));
        let at = Instant::now() + HELD_UP;
        for creation in batch.creations {
            let later = || LaterCreations { at, creations: Vec::new(), error: error.clone() };
            let of_run = self.later_creations.entry(creation.new.id.clone()).or_insert_with(later);
            of_run.creations.push(creation);
        }
        self.answer_late_creations();
    }

    /// Who has waited for a creation for too long is told what is in the way.
    pub(super) fn answer_late_creations(&mut self) {
        let patience = self.database.options.patience;
        self.later_creations.retain(|_, later| {
            for creation in later.creations.extract_if(.., |creation| creation.since.elapsed() >= patience) {
                let _asker_gone = creation.reply.send(Err(later.error.clone()));
            }
            !later.creations.is_empty()
        });
    }

    /// All creations that wait.
    pub(super) fn take_later_creations(&mut self) -> Vec<Creation> {
        std::mem::take(&mut self.later_creations).into_values().flat_map(|later| later.creations).collect()
    }
}
