//! Evidence: everything that is recorded of one run, byte for byte, in a file that somebody else can check alone.
//!
//! Promise: the frames are those of the store, so that their hash chain can be computed again; what the file says beside them
//! is compared with them; nothing is masked. `docs/evidence.md` says what it proves.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::journal::code::RecordedCode;
use crate::journal::frame::{Chained, StoredFrame};
use crate::journal::large_values::{BlobRef, references};
use crate::recording::decided::{EvidenceDecision, ReadFrame, read_frames};
use crate::recording::file::{BlobPart, RowPart, replace_file};
use crate::recording::head::{HeadError, check_head};
use crate::store::api::Store;
use crate::store::error::StoreError;
use crate::store::ledger::LedgerEntry;
use crate::store::read::{complete, whole_run};
use crate::store::recorded_calls::RecordedCalls;
use crate::vocabulary::id::{Epoch, Position, RunId};
use crate::vocabulary::labels::Labels;
use crate::vocabulary::payload::{Payload, hex};

const FORMAT: &str = "aether-evidence";
/// Version of the file that this build writes, and the newest it reads.
const VERSION: u32 = 1;

/// Everything that is recorded of one run. [`Engine::evidence`](crate::engine::Engine::evidence) makes one.
///
/// ```
/// use aether_core::recording::Evidence;
/// # fn example(text: &str) -> Result<(), aether_core::recording::EvidenceError> {
/// let report = Evidence::parse(text)?.verify();
/// println!("{report}");
/// assert!(report.is_sound());
/// # Ok(()) }
/// ```
#[derive(Debug, Serialize, Deserialize)]
pub struct Evidence {
    format: String,
    version: u32,
    made_at: Timestamp,
    made_by: String,
    /// Version of the engine that made it.
    engine: String,
    pub(super) run: RunId,
    pub(super) workflow: String,
    pub(super) workflow_version: u32,
    pub(super) status: String,
    pub(super) created_at: Timestamp,
    #[serde(default)]
    pub(super) labels: Labels,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<RunId>,
    pub(super) tip: String,
    pub(super) replay: EvidenceReplay,
    pub(super) decisions: Vec<EvidenceDecision>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    definition: Option<Payload>,
    pub(super) frames: Vec<EvidenceFrame>,
    pub(super) ledger: Vec<RowPart>,
    pub(super) values: BTreeMap<String, BlobPart>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EvidenceFrame {
    pub(super) position: Position,
    pub(super) at: Timestamp,
    pub(super) epoch: Epoch,
    pub(super) text: String,
    /// What the text is without its payload codec: a claim of who made the file, for the chain covers the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) decoded: Option<String>,
    pub(super) chain: String,
}

/// What a fresh replay said when the file was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceReplay {
    /// Whether the code of the program that made the file leads to what is recorded.
    pub fits: bool,
    /// The verdict in one sentence.
    pub verdict: String,
}

/// Why evidence could not be made or read.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EvidenceError {
    /// The store failed, or there is no such run.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The text is no evidence.
    #[error("this is no evidence: {reason}; `aether evidence` or `Engine::evidence` makes it")]
    NotEvidence {
        /// What is missing or wrong.
        reason: String,
    },
    /// A newer build wrote it.
    #[error("the evidence has version {found}, this build reads up to {VERSION}: update the program")]
    NewerVersion {
        /// Version of the file.
        found: u32,
    },
    /// The file cannot be read or written.
    #[error("{path}: {reason}")]
    File {
        /// Path of the file.
        path: String,
        /// The system's error.
        reason: String,
    },
}

impl Evidence {
    /// Collects what is recorded of a run, and what a replay said of it.
    pub(crate) async fn collect(
        store: &dyn Store,
        run: &RunId,
        replay: EvidenceReplay,
        made_by: &str,
        made_at: Timestamp,
    ) -> Result<Self, EvidenceError> {
        let (record, stored, mut rows) = whole_run(store, run).await?;
        let corrupt = |reason: String| StoreError::Corrupt {
            store: store.describe(),
            reason: format!("run `{}`: {reason}", record.id),
        };
        let (mut chained, mut values) = (Chained::default(), BTreeMap::new());
        for frame in &stored {
            chained.link(frame).map_err(|error| corrupt(error.to_string()))?;
            let text = frame.readable().map_err(|error| corrupt(error.to_string()))?;
            let named = references(text).map_err(corrupt)?.into_iter().flat_map(BTreeMap::into_values);
            for at in named {
                if !values.contains_key(&at.sha256) {
                    let missing = || corrupt(format!("the value {} is missing", at.sha256));
                    let value = store.blob(&record.id, &at.sha256).await?.ok_or_else(missing)?;
                    values.insert(at.sha256.clone(), BlobPart::of(&value));
                }
            }
        }
        complete(store, &record.id, &mut rows).await?;
        let frames: Vec<_> = stored.into_iter().map(EvidenceFrame::of).collect();
        let read: Vec<_> = frames.iter().map(EvidenceFrame::as_made).collect();
        // The row may name code that has not recorded anything yet.
        let mut recorded = RecordedCode::default();
        read.iter().flat_map(ReadFrame::events).flatten().for_each(|event| recorded.apply(&event));
        let code = recorded.newest().map_or(record.code, |(code, _)| code.id());
        let definition = store.definitions().await?.into_iter().find(|known| known.code == code);
        let (calls, decisions) = read_frames(&record.id, &read, |at| value(&values, at)).map_err(corrupt)?;
        take_apart(&mut rows, &calls, &values);
        Ok(Self {
            format: FORMAT.into(),
            version: VERSION,
            made_at,
            made_by: made_by.into(),
            engine: env!("CARGO_PKG_VERSION").into(),
            run: record.id,
            workflow: record.workflow,
            workflow_version: record.version,
            status: record.status.as_str().into(),
            created_at: record.created_at,
            labels: record.labels,
            parent: record.parent,
            tip: hex(&chained.tip()),
            replay,
            decisions,
            definition: definition.map(|known| known.definition),
            frames,
            ledger: rows.iter().map(RowPart::of).collect(),
            values,
        })
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// [`EvidenceError`] that says what is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, EvidenceError> {
        check_head(text.as_bytes(), FORMAT, VERSION).map_err(|error| match error {
            HeadError::Unreadable(reason) => EvidenceError::NotEvidence { reason },
            HeadError::NewerVersion { found } => EvidenceError::NewerVersion { found },
        })?;
        serde_json::from_str(text).map_err(|error| EvidenceError::NotEvidence { reason: error.to_string() })
    }

    /// Reads the file at `path`.
    ///
    /// # Errors
    /// [`EvidenceError::File`] when it cannot be read, else as [`Evidence::parse`].
    pub fn read(path: impl AsRef<Path>) -> Result<Self, EvidenceError> {
        let path = path.as_ref();
        Self::parse(&std::fs::read_to_string(path).map_err(|error| file_error(path, &error))?)
    }

    /// The text of its file: JSON.
    ///
    /// # Errors
    /// [`StoreError::Unencodable`] where a label or value cannot be written.
    pub fn to_text(&self) -> Result<String, EvidenceError> {
        let unencodable = |error: serde_json::Error| StoreError::Unencodable {
            what: format!("the evidence of run `{}`", self.run),
            reason: error.to_string(),
        };
        Ok(serde_json::to_string_pretty(self).map_err(unencodable)? + "\n")
    }

    /// Writes it to the file at `path` and replaces what is there. A crash leaves the old file or the new one.
    ///
    /// # Errors
    /// [`EvidenceError::File`] when it cannot be written.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), EvidenceError> {
        let path = path.as_ref();
        replace_file(path, self.to_text()?.as_bytes()).map_err(|error| file_error(path, &error))
    }
}

impl EvidenceFrame {
    fn of(frame: StoredFrame) -> Self {
        let StoredFrame { position, at, epoch, text, chain, decoded } = frame;
        Self { position, at, epoch, text, decoded, chain: hex(&chain) }
    }

    /// As who made the file could read it.
    fn as_made(&self) -> ReadFrame<'_> {
        let Self { position, at, ref text, ref decoded, .. } = *self;
        // That it is a claim is for who checks it.
        ReadFrame { position, at, text: decoded.as_deref().unwrap_or(text), is_claimed: false }
    }
}

/// The value of that hash.
pub(super) fn value(values: &BTreeMap<String, BlobPart>, at: &BlobRef) -> Option<Payload> {
    let bytes = values.get(&at.sha256)?.bytes(&at.sha256).ok()?;
    Payload::from_text(String::from_utf8(bytes).ok()?).ok()
}

/// Gives rows the values that stand apart from journal and ledger.
fn take_apart(rows: &mut [LedgerEntry], calls: &RecordedCalls, values: &BTreeMap<String, BlobPart>) {
    for (key, is_error, at) in calls.apart() {
        let Some(row) = rows.iter_mut().find(|row| row.key.as_str() == key && row.committed) else {
            continue;
        };
        let found = || value(values, at);
        let part = if is_error { &mut row.error } else { &mut row.result };
        *part = part.take().or_else(found);
    }
}

fn file_error(path: &Path, error: &std::io::Error) -> EvidenceError {
    EvidenceError::File { path: path.display().to_string(), reason: error.to_string() }
}
