//! Whose key a value gets: the labels of runs, for codecs that choose the key by them.
//!
//! Promise: a run that this process advances is known from its claim to its release, so that an append needs no read. What is
//! known of others is not trusted where their record can be read.
//! Nothing is kept where the codec does not ask for labels.

use std::collections::BTreeSet;
use std::sync::{MutexGuard, PoisonError};

use crate::sched::{HashMap, Mutex};
use crate::vocabulary::id::{Epoch, RunId};
use crate::vocabulary::labels::Labels;

/// How many runs that this process does not advance are remembered.
const REMEMBERED: usize = 4_096;

/// What is known of a run that this process advances.
#[derive(Clone, Debug, Default)]
pub(super) struct Subject {
    pub(super) labels: Labels,
    /// Number of what was begun.
    pub(super) number: u64,
    /// Since when it is advanced.
    pub(super) epoch: Epoch,
    /// Business keys of its rows that were acquired before there was a codec: they stand in the open, and are held so.
    pub(super) open_keys: BTreeSet<String>,
    /// Whether they were looked for.
    pub(super) holds_open: bool,
}

#[derive(Debug, Default)]
struct Known {
    advanced: HashMap<RunId, Subject>,
    seen: HashMap<RunId, Labels>,
    begun: u64,
}

impl Known {
    fn begin(&mut self, run: &RunId, labels: &Labels, epoch: Epoch) -> u64 {
        self.begun += 1;
        let (labels, number) = (labels.clone(), self.begun);
        self.advanced.insert(run.clone(), Subject { labels, number, epoch, ..Subject::default() });
        self.begun
    }

    fn end(&mut self, run: &RunId) {
        if let Some(subject) = self.advanced.remove(run) {
            self.see(run, subject.labels);
        }
    }

    fn see(&mut self, run: &RunId, labels: Labels) {
        if self.seen.len() >= REMEMBERED {
            self.seen.clear();
        }
        self.seen.insert(run.clone(), labels);
    }
}

/// The runs whose labels are known.
#[derive(Debug, Default)]
pub(super) struct Subjects(Mutex<Known>);

impl Subjects {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This process advances the run from here on: it has claimed it.
    pub(super) fn begin(&self, run: &RunId, labels: &Labels, epoch: Epoch) {
        self.lock().begin(run, labels, epoch);
    }

    /// Another process has taken the run that this one advanced at `epoch`.
    pub(super) fn lose(&self, run: &RunId, epoch: Epoch) {
        let mut known = self.lock();
        if known.advanced.get(run).is_some_and(|subject| subject.epoch == epoch) {
            known.end(run);
        }
    }

    /// This process is about to create the run. Answers the number of what it began, or nothing where the run is advanced
    /// already: then it is there, and the creation will find it.
    pub(super) fn begin_new(&self, run: &RunId, labels: &Labels) -> Option<u64> {
        let mut known = self.lock();
        // Its creator holds the first epoch.
        if known.advanced.contains_key(run) { None } else { Some(known.begin(run, labels, 1)) }
    }

    /// Number of what was begun last of a run that this process advances.
    pub(super) fn begun(&self, run: &RunId) -> Option<u64> {
        self.lock().advanced.get(run).map(|subject| subject.number)
    }

    /// Ends what was begun under this number, unless the run was claimed meanwhile.
    pub(super) fn end_begun(&self, run: &RunId, number: u64) {
        let mut known = self.lock();
        if known.advanced.get(run).is_some_and(|subject| subject.number == number) {
            known.end(run);
        }
    }

    /// Notes business keys in the open of a run that this process advances.
    pub(super) fn hold_open(&self, run: &RunId, keys: BTreeSet<String>) {
        if let Some(subject) = self.lock().advanced.get_mut(run) {
            (subject.open_keys, subject.holds_open) = (keys, true);
        }
    }

    /// Whether this process advances the run, and has not looked for such keys yet.
    pub(super) fn lacks_open(&self, run: &RunId) -> bool {
        self.lock().advanced.get(run).is_some_and(|subject| !subject.holds_open)
    }

    pub(super) fn advanced(&self, run: &RunId) -> Option<Subject> {
        self.lock().advanced.get(run).cloned()
    }

    /// This process advances the run no more. Its labels stay known: a body that was let go may still save something.
    pub(super) fn end(&self, run: &RunId) {
        self.lock().end(run);
    }

    /// Notes the labels of a run that is about to be created.
    pub(super) fn see(&self, run: &RunId, labels: &Labels) {
        self.lock().see(run, labels.clone());
    }

    pub(super) fn labels(&self, run: &RunId) -> Option<Labels> {
        let known = self.lock();
        known.advanced.get(run).map(|subject| &subject.labels).or_else(|| known.seen.get(run)).cloned()
    }
}
