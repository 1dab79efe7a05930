//! Recordings: runs with everything that belongs to them, in one file for people, tests and other machines.
//!
//! Promise: a recording that is read back and imported into a store replays there as it did where it was made. It does
//! not contain the secrets that the [`Masking`](crate::recording::Masking) finds. `docs/history-format.md`
//! describes the file.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::journal::event::{Event, RunCreated};
use crate::journal::frame::{JournalError, StoredFrame};
use crate::store::error::{AppendError, StoreError};
use crate::store::ledger::LedgerEntry;
use crate::vocabulary::id::RunId;
use crate::vocabulary::payload::Payload;

/// Version of the file format that this build writes, and the newest it reads.
pub const VERSION: u32 = 1;

/// A run, the runs it started, and the blobs they refer to. `Engine::export` makes one.
///
/// ```
/// use aether_core::recording::Recording;
/// # fn main() -> Result<(), aether_core::recording::RecordingError> {
/// let text = r#"{"format":"aether-recording","version":1,"runs":[{"run":"r","frames":[{"at":"2026-01-01T00:00:00Z",
///     "events":[{"run_created":{"workflow":"w","version":1,"fingerprint":"f","input":null,"digest":"d","seed":"s"}}]}]}]}"#;
/// let recording = Recording::parse(text)?;
/// assert_eq!(recording.root().map(|run| run.created.workflow.as_str()), Some("w"));
/// let error = Recording::parse("{}").unwrap_err();
/// assert!(error.to_string().contains("not a recording"));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    pub(super) runs: Vec<RecordedRun>,
    pub(super) blobs: BTreeMap<String, Vec<u8>>,
    pub(super) masked: usize,
}

impl Recording {
    /// Its runs: first the one that was recorded, then those it started.
    pub fn runs(&self) -> &[RecordedRun] {
        &self.runs
    }

    /// The run that was recorded.
    pub fn root(&self) -> Option<&RecordedRun> {
        self.runs.first()
    }

    /// The blobs its runs refer to, by their SHA-256.
    pub fn blobs(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.blobs
    }

    /// Number of different secrets that were masked.
    pub fn masked(&self) -> usize {
        self.masked
    }
}

/// One run of a [`Recording`].
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedRun {
    /// Id of the run.
    pub run: RunId,
    /// Its first event: input, workflow and version.
    pub created: RunCreated,
    /// Its journal, frame by frame.
    pub frames: Vec<RecordedFrame>,
    /// Its ledger rows, in the order in which they were acquired.
    pub ledger: Vec<LedgerEntry>,
}

impl RecordedRun {
    /// The events of its journal, in order.
    ///
    /// # Errors
    /// [`RecordingError::Journal`] naming the first frame that cannot be read.
    pub fn events(&self) -> Result<Vec<Event>, RecordingError> {
        let (mut events, mut position) = (Vec::new(), 0);
        for frame in &self.frames {
            let read = frame.read(position);
            let read = read.map_err(|error| RecordingError::Journal { run: self.run.clone(), error })?;
            position += read.len() as u64;
            events.extend(read);
        }
        Ok(events)
    }
}

/// One atomic append of a recorded run.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedFrame {
    /// When it was appended, by the clock of the worker.
    pub at: Timestamp,
    /// Its events as JSON, byte for byte as they were written.
    pub events: Vec<Payload>,
}

impl RecordedFrame {
    /// JSON array of the events, as a store keeps it.
    pub(super) fn text(&self) -> String {
        let events: Vec<_> = self.events.iter().map(Payload::as_str).collect();
        format!("[{}]", events.join(","))
    }

    pub(super) fn read(&self, position: u64) -> Result<Vec<Event>, JournalError> {
        let (at, epoch, chain) = (self.at, 0, crate::journal::frame::CHAIN_START);
        StoredFrame { position, at, epoch, text: self.text(), chain, decoded: None }.events()
    }
}

/// Why a recording could not be made, read or imported.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The store failed, or there is no such run.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A journal cannot be read.
    #[error("run `{run}`: {error}")]
    Journal {
        /// The run whose journal it is.
        run: RunId,
        /// What is wrong with the journal.
        error: JournalError,
    },
    /// The text is not a recording.
    #[error("this is not a recording: {reason}; `Engine::export` makes one")]
    NotARecording {
        /// What is missing or wrong.
        reason: String,
    },
    /// A newer build wrote it.
    #[error("the recording has version {found}, this build reads up to {VERSION}: update the program")]
    NewerVersion {
        /// Version of the recording.
        found: u32,
    },
    /// A part of the recording is missing or wrong.
    #[error("the recording is damaged, in {place}: {reason}")]
    Damaged {
        /// Which part of it.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The store already has a run with this id. That run is unchanged.
    #[error("there is a run `{run}` in store {store} already: load the recording into an empty store")]
    Exists {
        /// The id that is taken.
        run: RunId,
        /// Kind and place of the store.
        store: String,
    },
    /// The store refused a part of the recording.
    #[error("the recording could not be loaded: {0}")]
    Refused(#[from] AppendError),
    /// The file cannot be read or written.
    #[error("{path}: {reason}")]
    File {
        /// Path of the file.
        path: String,
        /// The system's error.
        reason: String,
    },
}
