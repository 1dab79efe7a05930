//! The check of a whole store: hash chains, events, large values, and the row of every run.
//!
//! Promise: writes nothing; holds a page of one journal at a time; a run that moves on or is purged meanwhile is no problem.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::journal::event::Event;
use crate::journal::frame::Chained;
use crate::journal::large_values::{BlobRef, references};
use crate::store::api::Store;
use crate::store::error::StoreError;
use crate::store::filter::RunFilter;
use crate::store::records::RunRecord;
use crate::vocabulary::id::{Position, RunId};
use crate::vocabulary::payload::hex;

/// Runs that are listed at once.
const RUNS: usize = 256;
/// Events of a journal that are read at once.
const EVENTS: u64 = 1_000;

/// What is wrong with one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct IntegrityProblem {
    /// The run.
    pub run: RunId,
    /// Position in its journal, where the problem has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
    /// What is wrong.
    pub reason: String,
}

/// What [`check_integrity`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct IntegrityReport {
    /// Runs that were looked at.
    pub runs: u64,
    /// Frames whose hash follows from what precedes them.
    pub frames: u64,
    /// Events in them.
    pub events: u64,
    /// Large values that were read, and have the hash under which the journal names them.
    pub values: u64,
    /// Runs with events under a key that is not at hand: their chains were checked, if the store was opened without a payload
    /// codec; their events and values were not.
    pub encoded: u64,
    /// What is wrong, in the order of the runs, newest first.
    pub problems: Vec<IntegrityProblem>,
}

impl IntegrityReport {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }

    fn wrong(&mut self, record: &RunRecord, position: Option<Position>, reason: String) {
        self.problems.push(IntegrityProblem { run: record.id.clone(), position, reason });
    }

    fn add(&mut self, mut other: Self) {
        self.runs += other.runs;
        self.frames += other.frames;
        self.events += other.events;
        self.values += other.values;
        self.encoded += other.encoded;
        self.problems.append(&mut other.problems);
    }
}

impl fmt::Display for IntegrityReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, frames, events, values, encoded, problems } = self;
        write!(f, "{runs} runs, {frames} frames, {events} events, {values} large values")?;
        if *encoded > 0 {
            write!(f, "; {encoded} runs could not be read, for want of a key")?;
        }
        for IntegrityProblem { run, position, reason } in problems {
            match position {
                Some(position) => write!(f, "\nrun `{run}`, event {position}: {reason}")?,
                None => write!(f, "\nrun `{run}`: {reason}")?,
            }
        }
        Ok(())
    }
}

/// Reads the runs of `filter` with their whole journals, and checks of each: that every frame's hash follows from the frames
/// before it, that no frame is missing, that the events can be read, that every large value is there and has the hash under
/// which it is named, and that the run's row agrees with its journal. `progress` is called after each run.
///
/// It finds what changed by accident, and what was changed by somebody who did not compute the hashes again. Whoever can
/// write the store can compute them: against that, compare chain hashes with some that were noted elsewhere.
///
/// ```
/// # use aether_core::store::{RunFilter, Store, StoreError, check_integrity};
/// # async fn example(store: &dyn Store) -> Result<(), StoreError> {
/// let report = check_integrity(store, RunFilter::new(), |_| ()).await?;
/// assert!(report.is_sound(), "{report}");
/// # Ok(()) }
/// ```
///
/// # Errors
/// [`StoreError`] when the store fails; what it says of one run alone is a problem of that run.
pub async fn check_integrity(
    store: &dyn Store,
    mut filter: RunFilter,
    mut progress: impl FnMut(&IntegrityReport),
) -> Result<IntegrityReport, StoreError> {
    let mut report = IntegrityReport::default();
    let mut left = if filter.limit == 0 { usize::MAX } else { filter.limit };
    while left > 0 {
        filter.limit = left.min(RUNS);
        let page = store.runs(filter.clone()).await?;
        let Some(last) = page.last() else { break };
        filter.after = Some(last.place);
        left -= page.len();
        for record in page {
            report.add(check_run(store, record).await?);
            progress(&report);
        }
    }
    Ok(report)
}

/// Tries a run anew that moves on while it is read: a run that continues as new drops its older events.
async fn check_run(store: &dyn Store, mut record: RunRecord) -> Result<IntegrityReport, StoreError> {
    loop {
        let mut found = IntegrityReport { runs: 1, ..IntegrityReport::default() };
        read_run(store, &record, &mut found).await?;
        if found.is_sound() {
            return Ok(found);
        }
        match store.run(&record.id).await? {
            None => return Ok(IntegrityReport::default()),
            Some(now) if (now.place, now.next) == (record.place, record.next) => return Ok(found),
            Some(now) => record = now,
        }
    }
}

async fn read_run(
    store: &dyn Store,
    record: &RunRecord,
    found: &mut IntegrityReport,
) -> Result<(), StoreError> {
    let (mut chained, mut is_ended, mut known) = (Chained::default(), false, BTreeSet::new());
    loop {
        let from = chained.next();
        let frames = match store.load_page(&record.id, from, EVENTS).await {
            Ok(frames) => frames,
            Err(StoreError::Codec { .. }) => {
                found.encoded = 1;
                return Ok(());
            }
            Err(StoreError::Corrupt { reason, .. }) => {
                found.wrong(record, None, reason);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        for frame in &frames {
            match chained.link(frame) {
                Ok(events) => found.events += events,
                Err(error) => {
                    found.wrong(record, Some(frame.position), error.to_string());
                    return Ok(());
                }
            }
            found.frames += 1;
            let Ok(text) = frame.readable() else {
                found.encoded = 1;
                continue;
            };
            match frame.events() {
                Ok(events) => is_ended = events.last().is_some_and(Event::is_terminal),
                Err(error) => found.wrong(record, Some(frame.position), error.to_string()),
            }
            check_values(store, record, frame.position, text, &mut known, found).await?;
        }
        if chained.next() == from {
            break;
        }
    }
    if chained.next() < record.next {
        let reason = format!("its row counts {} events, and its journal ends here", record.next);
        found.wrong(record, Some(chained.next()), reason);
    } else if record.status.is_terminal() && !is_ended && found.encoded == 0 {
        let reason = format!("its row says `{}`, and its journal does not", record.status.as_str());
        found.wrong(record, Some(chained.next()), reason);
    }
    Ok(())
}

/// Checks the large values that the frame with `text` refers to, each once for a run.
async fn check_values(
    store: &dyn Store,
    record: &RunRecord,
    position: Position,
    text: &str,
    known: &mut BTreeSet<BlobRef>,
    found: &mut IntegrityReport,
) -> Result<(), StoreError> {
    let named = match references(text) {
        Ok(named) => named,
        Err(reason) => {
            found.wrong(record, Some(position), format!("unreadable references: {reason}"));
            return Ok(());
        }
    };
    for at in named.into_iter().flat_map(BTreeMap::into_values) {
        if !known.insert(at.clone()) {
            continue;
        }
        let reason = match store.blob(&record.id, &at.sha256).await {
            Ok(Some(bytes)) if hex(&Sha256::digest(&bytes)) == at.sha256 => {
                found.values += 1;
                continue;
            }
            Ok(Some(_)) => format!("the value {} was altered", at.sha256),
            Ok(None) => format!("the value {} is missing", at.sha256),
            Err(StoreError::Codec { error, .. }) => format!("the value {}: {error}", at.sha256),
            Err(StoreError::Corrupt { reason, .. }) => reason,
            Err(error) => return Err(error),
        };
        found.wrong(record, Some(position), reason);
    }
    Ok(())
}
