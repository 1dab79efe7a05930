//! Evidence: everything that is recorded of one run, byte for byte, in a file that somebody else can check alone.
//!
//! Promise: the frames are those of the store, so that their hash chain can be computed again; what the file says beside them
//! is compared with them; nothing is masked. `docs/evidence.md` says what it proves.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::journal::event::Event;
use crate::journal::frame::{Chained, StoredFrame, unhex};
use crate::journal::large_values::references;
use crate::recording::file::{BlobPart, RowPart, replace_file};
use crate::recording::head::{HeadError, check_head};
use crate::store::api::Store;
use crate::store::error::StoreError;
use crate::store::records::RunRecord;
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
    run: RunId,
    workflow: String,
    workflow_version: u32,
    status: String,
    created_at: Timestamp,
    #[serde(default)]
    labels: Labels,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<RunId>,
    tip: String,
    replay: EvidenceReplay,
    decisions: Vec<EvidenceDecision>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    definition: Option<Payload>,
    frames: Vec<EvidenceFrame>,
    ledger: Vec<RowPart>,
    values: BTreeMap<String, BlobPart>,
}

#[derive(Debug, Serialize, Deserialize)]
struct EvidenceFrame {
    position: Position,
    at: Timestamp,
    epoch: Epoch,
    text: String,
    /// What the text is without its payload codec: a claim of who made the file, for the chain covers the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    decoded: Option<String>,
    chain: String,
}

/// What a fresh replay said when the file was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceReplay {
    /// Whether the code of the program that made the file leads to what is recorded.
    pub fits: bool,
    /// The verdict in one sentence.
    pub verdict: String,
}

/// What somebody decided: any event that names an actor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceDecision {
    /// Position of the event.
    pub position: Position,
    /// When it was recorded.
    pub at: Timestamp,
    /// Kind of the event, such as `approval_decided`.
    pub kind: String,
    /// Who.
    pub actor: String,
    /// The command that it is about, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Digest of that command's arguments, if they were recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
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

/// What a check of evidence found: the result of [`Evidence::verify`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct EvidenceReport {
    /// The run.
    pub run: RunId,
    /// Its workflow.
    pub workflow: String,
    /// How it stood.
    pub status: String,
    /// Position at which the history begins. Above 0 the run continued as new, and the history of what it was before is gone:
    /// only its hash is in the first event.
    pub begins: Position,
    /// Number of frames whose hash follows from those before.
    pub frames: u64,
    /// Number of events in them.
    pub events: u64,
    /// Large values with the hash under which the journal names them.
    pub values: u64,
    /// Frames behind a payload codec: what they say in plain text is a claim of who made the file.
    pub encoded: u64,
    /// Hash of the whole history, 64 hexadecimal digits. Compare it with one that was noted when it was made.
    pub tip: String,
    /// What people decided, from the history itself.
    pub decisions: Vec<EvidenceDecision>,
    /// What the replay said when the file was made: a claim of who made it.
    pub replay: EvidenceReplay,
    /// What does not hold.
    pub problems: Vec<String>,
}

impl EvidenceReport {
    /// Whether all of it holds.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }
}

impl std::fmt::Display for EvidenceReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { run, workflow, status, frames, events, values, tip, replay, .. } = self;
        writeln!(
            f,
            "run `{run}` of `{workflow}`, {status}: {events} events in {frames} frames, {values} large values"
        )?;
        writeln!(f, "history {tip}")?;
        if self.begins > 0 {
            writeln!(f, "it begins at event {}: the run continued as new there", self.begins)?;
        }
        for EvidenceDecision { at, kind, actor, command, .. } in &self.decisions {
            writeln!(
                f,
                "{at}  {kind} by {actor:?}{}",
                command.as_ref().map_or_else(String::new, |c| format!(" for `{c}`"))
            )?;
        }
        if self.encoded > 0 {
            writeln!(
                f,
                "{} frames are encoded; their plain text is a claim of who made the file",
                self.encoded
            )?;
        }
        write!(f, "replay, as claimed: {}", replay.verdict)?;
        self.problems.iter().try_for_each(|problem| write!(f, "\nDOES NOT HOLD: {problem}"))
    }
}

/// What one raw event says of itself.
struct Said {
    kind: String,
    command: Option<String>,
    actor: Option<String>,
    digest: Option<String>,
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
        let (record, stored) = whole(store, run).await?;
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
        let mut rows = store.entries(&record.id).await?;
        crate::store::read::complete(store, &record.id, &mut rows).await?;
        let definitions = store.definitions().await?;
        let definition = definitions.into_iter().find(|known| known.code == record.code);
        let frames: Vec<_> = stored.into_iter().map(EvidenceFrame::of).collect();
        let decisions = decisions(&frames).map_err(corrupt)?;
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

    /// Computes the hash chain again, and compares everything that the file says with its history. Needs nothing but the
    /// file.
    pub fn verify(self) -> EvidenceReport {
        let Self { run, workflow, status, tip, decisions: listed, replay, .. } = &self;
        let mut report = EvidenceReport {
            run: run.clone(),
            workflow: workflow.clone(),
            status: status.clone(),
            begins: self.begins(),
            frames: 0,
            events: 0,
            values: 0,
            encoded: self.frames.iter().filter(|frame| frame.decoded.is_some()).count() as u64,
            tip: tip.clone(),
            decisions: Vec::new(),
            replay: replay.clone(),
            problems: Vec::new(),
        };
        if let Err(problem) = self.check_frames(&mut report) {
            report.problems.push(problem);
        }
        match decisions(&self.frames) {
            Ok(found) if found == *listed => report.decisions = found,
            Ok(found) => {
                report.problems.push("the list of decisions is not that of the history".into());
                report.decisions = found;
            }
            Err(problem) => report.problems.push(problem),
        }
        if let Err(problem) = self.check_outline() {
            report.problems.push(problem);
        }
        self.check_ledger(&mut report.problems);
        self.check_values(&mut report);
        report
    }

    fn begins(&self) -> Position {
        self.frames.first().map_or(0, |frame| frame.position)
    }

    fn check_frames(&self, report: &mut EvidenceReport) -> Result<(), String> {
        let mut chained = Chained::default();
        for frame in &self.frames {
            let stored = frame.stored().ok_or_else(|| format!("frame {} has no hash", frame.position))?;
            report.events += chained.link(&stored).map_err(|error| error.to_string())?;
            report.frames += 1;
            frame.events().map_err(|reason| format!("frame {}: {reason}", frame.position))?;
        }
        let tip = hex(&chained.tip());
        if tip == self.tip {
            Ok(())
        } else {
            Err(format!("the history ends with {tip}, and not with {}", self.tip))
        }
    }

    /// What the head of the file says, against the first and the last event.
    fn check_outline(&self) -> Result<(), String> {
        let first = self.frames.first().and_then(|frame| frame.events().ok()?.into_iter().next());
        let workflow = match first {
            Some(Event::RunCreated(e)) => (e.workflow, e.version),
            // A later generation names what it began as elsewhere.
            Some(_) => (self.workflow.clone(), self.workflow_version),
            None => return Err("there is no history".into()),
        };
        if workflow.0 != self.workflow {
            return Err(format!(
                "it says that the run is of `{}`, and its history of `{}`",
                self.workflow, workflow.0
            ));
        }
        let last = self.frames.last().and_then(|frame| frame.events().ok()?.pop());
        let is_over = last.as_ref().is_some_and(Event::is_terminal);
        let says_so = ["completed", "failed", "rejected", "cancelled"].contains(&&*self.status);
        if is_over == says_so {
            return Ok(());
        }
        Err(format!("it says that the run is {}, and its history does not", self.status))
    }

    fn check_ledger(&self, problems: &mut Vec<String>) {
        let said = self.frames.iter().flat_map(|frame| said(frame.readable()).unwrap_or_default());
        let mut digests: BTreeMap<String, Option<String>> = BTreeMap::new();
        for Said { command, digest, .. } in said {
            if let Some(command) = command {
                let known = digests.entry(command).or_default();
                *known = known.take().or(digest);
            }
        }
        for row in &self.ledger {
            let (command, digest) = row.names();
            match digests.get(command) {
                None if self.begins() > 0 => {}
                None => problems.push(format!("the history knows nothing of ledger row `{}`", row.key())),
                Some(Some(known)) if known != digest => {
                    problems
                        .push(format!("ledger row `{}` is of other arguments than the history", row.key()));
                }
                Some(_) => {}
            }
        }
    }

    fn check_values(&self, report: &mut EvidenceReport) {
        let mut seen = BTreeSet::new();
        for frame in &self.frames {
            let named = references(frame.readable()).unwrap_or_default();
            for at in named.into_iter().flat_map(BTreeMap::into_values) {
                if !seen.insert(at.sha256.clone()) {
                    continue;
                }
                match self.values.get(&at.sha256).map(|part| part.bytes(&at.sha256)) {
                    Some(Ok(bytes)) if bytes.len() as u64 == at.bytes => report.values += 1,
                    Some(Ok(_)) => {
                        report.problems.push(format!("the value {} has another length", at.sha256))
                    }
                    Some(Err(error)) => report.problems.push(error.to_string()),
                    None => report.problems.push(format!("the value {} is missing", at.sha256)),
                }
            }
        }
    }
}

/// A run's row and its journal, of which both or neither say that it has ended.
async fn whole(store: &dyn Store, run: &RunId) -> Result<(RunRecord, Vec<StoredFrame>), StoreError> {
    loop {
        let Some(record) = store.run(run).await? else {
            return Err(StoreError::UnknownRun { run: run.clone() });
        };
        let frames = store.load(run, 0).await?;
        let last = frames.last().and_then(|frame| frame.events().ok()?.pop());
        // A run ends once, so that this is true the second time.
        if record.status.is_terminal() || !last.as_ref().is_some_and(Event::is_terminal) {
            return Ok((record, frames));
        }
    }
}

impl EvidenceFrame {
    fn of(frame: StoredFrame) -> Self {
        let StoredFrame { position, at, epoch, text, chain, decoded } = frame;
        Self { position, at, epoch, text, decoded, chain: hex(&chain) }
    }

    fn readable(&self) -> &str {
        self.decoded.as_deref().unwrap_or(&self.text)
    }

    fn stored(&self) -> Option<StoredFrame> {
        let Self { position, at, epoch, ref text, ref decoded, ref chain } = *self;
        Some(StoredFrame {
            position,
            at,
            epoch,
            text: text.clone(),
            chain: unhex(chain)?,
            decoded: decoded.clone(),
        })
    }

    fn events(&self) -> Result<Vec<Event>, String> {
        let stored = self.stored().ok_or("it has no hash")?;
        stored.events().map_err(|error| error.to_string())
    }
}

/// What the events of a frame say of themselves.
fn said(text: &str) -> Result<Vec<Said>, String> {
    let events: Vec<BTreeMap<String, Value>> =
        serde_json::from_str(text).map_err(|error| error.to_string())?;
    let said = events.into_iter().filter_map(|event| {
        let (kind, fields) = event.into_iter().next()?;
        let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Said { command: text("command"), actor: text("actor"), digest: text("digest"), kind })
    });
    Ok(said.collect())
}

/// What was decided, and by whom.
fn decisions(frames: &[EvidenceFrame]) -> Result<Vec<EvidenceDecision>, String> {
    let (mut digests, mut found) = (BTreeMap::new(), Vec::new());
    for frame in frames {
        for (number, said) in (0..).zip(said(frame.readable())?) {
            let Said { kind, command, actor, digest } = said;
            if let (Some(command), Some(digest)) = (&command, digest) {
                digests.entry(command.clone()).or_insert(digest);
            }
            let Some(actor) = actor else { continue };
            let digest = command.as_ref().and_then(|command| digests.get(command)).cloned();
            let (position, at) = (frame.position.saturating_add(number), frame.at);
            found.push(EvidenceDecision { position, at, kind, actor, command, digest });
        }
    }
    Ok(found)
}

fn file_error(path: &Path, error: &std::io::Error) -> EvidenceError {
    EvidenceError::File { path: path.display().to_string(), reason: error.to_string() }
}
