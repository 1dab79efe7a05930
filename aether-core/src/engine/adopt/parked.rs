//! The list of parked runs.
//!
//! Promise: a run is listed from the append that parks it to the one that adopts or ends it.

use jiff::Timestamp;

use crate::engine::adopt::known::AdoptionCounts;
use crate::engine::inner::Engine;
use crate::journal::event::{Event, RunParked};
use crate::store::api::Store;
use crate::store::error::StoreError;
use crate::store::filter::{Cursor, RunFilter};
use crate::store::records::RunRecord;
use crate::vocabulary::code::{ParkedAt, RunCode};
use crate::vocabulary::id::RunId;

/// A run that does not fit the code that tried it, and waits for code that it fits. Its journal, inbox, timers and waits
/// are kept; a program whose code fits resumes it when it starts, without a command.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ParkedRun {
    /// The run.
    pub run: RunId,
    /// Name of its workflow.
    pub workflow: String,
    /// Since when it is parked.
    pub since: Timestamp,
    /// The difference, in one sentence.
    pub why: String,
    /// The command in history at which code and history differ, where one is known.
    pub recorded: Option<ParkedAt>,
    /// The command that the code asked for there, where one is known.
    pub requested: Option<ParkedAt>,
    /// The code that recorded the run last: a program that has it resumes the run.
    pub needs: RunCode,
    /// How many messages are kept for it that came meanwhile or were not taken before: approvals, answers, signals, requests
    /// to end it.
    pub unread: usize,
}

impl std::fmt::Display for ParkedRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "parked since {}: {}; it needs {}, or code that fits it",
            self.since, self.why, self.needs
        )?;
        match self.unread {
            0 => Ok(()),
            1 => f.write_str("; 1 message is kept for it"),
            unread => write!(f, "; {unread} messages are kept for it"),
        }
    }
}

/// A page of parked runs.
#[derive(Clone, Debug, PartialEq)]
pub struct ParkedPage {
    /// The runs, in the order in which they were created.
    pub runs: Vec<ParkedRun>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<Cursor>,
}

impl Engine {
    /// The parked runs among those of `filter`: open runs that do not fit the code that tried them, with the difference
    /// and the code that they need. `filter.limit` is the size of a page; 0 lists all of them.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// use aether_core::store::RunFilter;
    /// # async fn example(engine: &Engine) -> Result<(), Box<dyn std::error::Error>> {
    /// for parked in engine.parked(RunFilter::new().limit(100)).await?.runs {
    ///     println!("{}: {parked}", parked.run);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub async fn parked(&self, filter: RunFilter) -> Result<ParkedPage, StoreError> {
        let store = &*self.inner.shared.store;
        let limit = filter.limit;
        let records = store.runs(filter.parked(true)).await?;
        let full = limit > 0 && records.len() >= limit;
        let next = records.last().filter(|_| full).map(|record| record.place);
        let mut runs = Vec::with_capacity(records.len());
        for record in records {
            runs.extend(parked_run(store, record).await?);
        }
        Ok(ParkedPage { runs, next })
    }

    /// How many runs under other code this engine has tried, adopted and parked since its start: for a metric.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # fn example(engine: &Engine) {
    /// println!("parked {} runs since the start", engine.adoption_counts().parked);
    /// # }
    /// ```
    pub fn adoption_counts(&self) -> AdoptionCounts {
        self.inner.adoptions.counts()
    }
}

/// What the newest frame of a parked run says; `None` where it is not parked any more. A frame that cannot be read, for
/// example because its key was destroyed, is why nobody can resume the run, and keeps no other run off a list.
pub(crate) async fn parked_run(
    store: &dyn Store,
    record: RunRecord,
) -> Result<Option<ParkedRun>, StoreError> {
    let (since, parked) = match newest_parking(store, &record).await {
        Ok(None) => return Ok(None),
        Ok(Some(found)) => found,
        Err(error @ (StoreError::Corrupt { .. } | StoreError::Codec { .. })) => {
            let why = format!("its journal cannot be read: {error}");
            let needs = RunCode {
                workflow: record.workflow.clone(),
                module: String::new(),
                version: record.version,
                fingerprint: String::new(),
            };
            (record.updated_at, RunParked { why, recorded: None, requested: None, needs })
        }
        Err(error) => return Err(error),
    };
    let RunParked { why, recorded, requested, needs } = parked;
    let unread = store.unread(&record.id).await?.messages;
    Ok(Some(ParkedRun {
        run: record.id,
        workflow: record.workflow,
        since,
        why,
        recorded,
        requested,
        needs,
        unread,
    }))
}

async fn newest_parking(
    store: &dyn Store,
    record: &RunRecord,
) -> Result<Option<(Timestamp, RunParked)>, StoreError> {
    let Some(frame) = store.last_frame(&record.id).await? else { return Ok(None) };
    let events = crate::store::read::events(store, &record.id, std::slice::from_ref(&frame)).await?;
    Ok(events.into_iter().rev().find_map(|event| match event {
        Event::RunParked(parked) => Some((frame.at, parked)),
        _ => None,
    }))
}
