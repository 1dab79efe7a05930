//! The file of a recording: JSON with one event a line, so that versions of it can be compared.
//!
//! Promise: a file that is written is read back as the same recording; a crash leaves the old file or the new one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::journal::event::Event;
use crate::recording::head::{HeadError, check_head};
use crate::recording::recorded::{RecordedFrame, RecordedRun, Recording, RecordingError, VERSION};
use crate::sched::AtomicU64;
use crate::store::ledger::{LedgerEntry, LedgerStatus};
use crate::vocabulary::id::{CommandId, IdempotencyKey, InvocationId, RunId};
use crate::vocabulary::payload::{Digest, Payload, hex};
use crate::vocabulary::walk::quoted;

/// Value of the file's `format` member.
const FORMAT: &str = "aether-recording";

#[derive(Deserialize)]
struct Whole {
    #[serde(default)]
    masked: usize,
    runs: Vec<RunPart>,
    #[serde(default)]
    blobs: BTreeMap<String, BlobPart>,
}

#[derive(Deserialize)]
struct RunPart {
    run: RunId,
    frames: Vec<FramePart>,
    #[serde(default)]
    ledger: Vec<RowPart>,
}

#[derive(Deserialize)]
struct FramePart {
    at: Timestamp,
    events: Vec<Payload>,
}

/// A ledger row; its run is the one it stands in.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RowPart {
    key: IdempotencyKey,
    command: CommandId,
    invocation: InvocationId,
    tool: String,
    digest: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    business_key: Option<String>,
    status: String,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    result: Option<Payload>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    error: Option<Payload>,
    committed: bool,
    started_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    finished_at: Option<Timestamp>,
}

/// A blob: as text where it is UTF-8, else as hexadecimal digits.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum BlobPart {
    Text(String),
    Hex(String),
}

/// A field that is there holds a value, also where that value is `null`.
fn present<'de, D: serde::Deserializer<'de>>(field: D) -> Result<Option<Payload>, D::Error> {
    Payload::deserialize(field).map(Some)
}

fn damaged(place: impl Into<String>, reason: impl ToString) -> RecordingError {
    RecordingError::Damaged { place: place.into(), reason: reason.to_string() }
}

impl Recording {
    /// Reads the text of a recording's file.
    ///
    /// # Errors
    /// [`RecordingError`] that says what is wrong with the text, and where.
    pub fn parse(text: &str) -> Result<Self, RecordingError> {
        check_head(text.as_bytes(), FORMAT, VERSION).map_err(|error| match error {
            HeadError::Unreadable(reason) => RecordingError::NotARecording { reason },
            HeadError::NewerVersion { found } => RecordingError::NewerVersion { found },
        })?;
        let whole: Whole = serde_json::from_str(text).map_err(|error| damaged("the whole", error))?;
        let mut ids = BTreeSet::new();
        let mut runs = Vec::with_capacity(whole.runs.len());
        for part in whole.runs {
            if !ids.insert(part.run.clone()) {
                return Err(damaged(format!("run `{}`", part.run), "it is there twice"));
            }
            runs.push(part.read()?);
        }
        if runs.is_empty() {
            return Err(damaged("`runs`", "there is none"));
        }
        let blobs = whole.blobs.into_iter().map(|(name, part)| Ok((name.clone(), part.bytes(&name)?)));
        Ok(Self { runs, blobs: blobs.collect::<Result<_, RecordingError>>()?, masked: whole.masked })
    }

    /// The text of the recording's file: one event, one ledger row and one blob a line.
    pub fn to_text(&self) -> String {
        let mut text =
            format!("{{\"format\":{},\"version\":{VERSION},\"masked\":{},", quoted(FORMAT), self.masked);
        let runs: Vec<_> = self.runs.iter().map(RecordedRun::print).collect();
        let blobs = self.blobs.iter().map(|(name, blob)| format!("{}:{}", quoted(name), print_blob(blob)));
        let blobs: Vec<_> = blobs.collect();
        let _writing_to_a_string =
            writeln!(text, "\"runs\":[\n{}\n],\"blobs\":{{\n{}\n}}}}", runs.join(",\n"), blobs.join(",\n"));
        text
    }

    /// Reads a recording from the file at `path`.
    ///
    /// # Errors
    /// [`RecordingError::File`] when it cannot be read, else as [`Recording::parse`].
    pub fn read(path: impl AsRef<Path>) -> Result<Self, RecordingError> {
        let path = path.as_ref();
        Self::parse(&fs::read_to_string(path).map_err(|error| file_error(path, &error))?)
    }

    /// Writes the recording to the file at `path` and replaces what is there. A crash leaves the old file or the new one.
    /// Missing folders are created.
    ///
    /// # Errors
    /// [`RecordingError::File`] when it cannot be written.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), RecordingError> {
        let path = path.as_ref();
        replace_file(path, self.to_text().as_bytes()).map_err(|error| file_error(path, &error))
    }
}

fn file_error(path: &Path, error: &io::Error) -> RecordingError {
    RecordingError::File { path: path.display().to_string(), reason: error.to_string() }
}

/// Writes `bytes` to the file at `path` and replaces what is there. It writes a second file and renames it, so that no
/// reader ever sees half of it. Missing folders are created. What is recorded may be nobody else's business: a new file is
/// for its owner alone (mode 0600), and one that replaces a file has the mode of that.
///
/// # Errors
/// The system's error; the old file is unchanged then.
pub fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}-{}.tmp", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
    let aside: PathBuf = folder.join(name);
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(&aside).and_then(|mut file| {
        if let Ok(old) = fs::symlink_metadata(path)
            && old.is_file()
        {
            file.set_permissions(old.permissions())?;
        }
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&aside, path)
    });
    if written.is_err() {
        let _the_first_error_is_returned = fs::remove_file(&aside);
    }
    written
}

impl RunPart {
    fn read(self) -> Result<RecordedRun, RecordingError> {
        let place = || format!("run `{}`", self.run);
        let frames: Vec<_> = self.frames.into_iter().map(FramePart::read).collect();
        let first = frames.first().and_then(|frame| frame.events.first());
        let Some(Ok(Event::RunCreated(created))) = first.map(Payload::decode) else {
            return Err(damaged(place(), "its first event is not `run_created`"));
        };
        if let Some(empty) = frames.iter().position(|frame| frame.events.is_empty()) {
            return Err(damaged(place(), format_args!("frame {empty} holds no event")));
        }
        let rows = self.ledger.into_iter().map(|row| row.read(&self.run));
        let ledger = rows.collect::<Result<_, _>>()?;
        Ok(RecordedRun { run: self.run, created, frames, ledger })
    }
}

impl FramePart {
    fn read(self) -> RecordedFrame {
        RecordedFrame { at: self.at, events: self.events.into_iter().map(in_one_line).collect() }
    }
}

/// Joins an event that was edited by hand into several lines. A line break inside JSON is always between two tokens, so a
/// space can replace it.
fn in_one_line(event: Payload) -> Payload {
    if !event.as_str().contains(['\n', '\r']) {
        return event;
    }
    Payload::from_text(event.as_str().replace(['\n', '\r'], " ")).unwrap_or(event)
}

impl RowPart {
    pub(super) fn of(row: &LedgerEntry) -> Self {
        let row = row.clone();
        Self {
            key: row.key,
            command: row.command,
            invocation: row.invocation,
            tool: row.tool,
            digest: row.digest,
            business_key: row.business_key,
            status: row.status.as_str().into(),
            result: row.result,
            error: row.error,
            committed: row.committed,
            started_at: row.started_at,
            finished_at: row.finished_at,
        }
    }

    pub(super) fn read(self, run: &RunId) -> Result<LedgerEntry, RecordingError> {
        let Some(status) = LedgerStatus::parse(&self.status) else {
            let reason = format!("{:?} is not the status of a ledger row", self.status);
            return Err(damaged(format!("run `{run}`, ledger row `{}`", self.key), reason));
        };
        Ok(LedgerEntry {
            key: self.key,
            run: run.clone(),
            command: self.command,
            invocation: self.invocation,
            tool: self.tool,
            digest: self.digest,
            business_key: self.business_key,
            status,
            result: self.result,
            error: self.error,
            committed: self.committed,
            epoch: 1,
            started_at: self.started_at,
            finished_at: self.finished_at,
        })
    }
}

impl RecordedRun {
    fn print(&self) -> String {
        let created = &self.created;
        let (run, workflow, module) =
            (quoted(self.run.as_str()), quoted(&created.workflow), quoted(&created.module));
        let frames: Vec<_> = self.frames.iter().map(RecordedFrame::print).collect();
        let rows = self.ledger.iter().map(|row| serde_json::to_string(&RowPart::of(row)).unwrap_or_default());
        let rows: Vec<_> = rows.collect();
        format!(
            "{{\"run\":{run},\"workflow\":{workflow},\"module\":{module},\"workflow_version\":{},\"fingerprint\":{},\"frames\":[\n{}\n],\"ledger\":[\n{}\n]}}",
            created.version,
            quoted(&created.fingerprint),
            frames.join(",\n"),
            rows.join(",\n"),
        )
    }
}

impl RecordedFrame {
    fn print(&self) -> String {
        let events = self.events.iter().map(Payload::as_str);
        let events: Vec<_> = events.collect();
        format!("{{\"at\":\"{}\",\"events\":[\n{}\n]}}", self.at, events.join(",\n"))
    }
}

fn print_blob(blob: &[u8]) -> String {
    serde_json::to_string(&BlobPart::of(blob)).unwrap_or_default()
}

impl BlobPart {
    pub(super) fn of(blob: &[u8]) -> Self {
        match std::str::from_utf8(blob) {
            Ok(text) => Self::Text(text.into()),
            Err(_) => Self::Hex(hex(blob)),
        }
    }

    /// The content, if it has the hash that is its name.
    pub(super) fn bytes(&self, name: &str) -> Result<Vec<u8>, RecordingError> {
        let bytes = match self {
            Self::Text(text) => text.clone().into_bytes(),
            Self::Hex(digits) => unhex(digits).ok_or_else(|| {
                damaged(format!("blob {name}"), "its content is not an even number of hexadecimal digits")
            })?,
        };
        if hex(&Sha256::digest(&bytes)) != name {
            return Err(damaged(format!("blob {name}"), "its content does not have this SHA-256"));
        }
        Ok(bytes)
    }
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let nibble = |digit: u8| char::from(digit).to_digit(16).and_then(|n| u8::try_from(n).ok());
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| if let [high, low] = pair { Some(nibble(*high)? << 4 | nibble(*low)?) } else { None })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"format":"aether-recording","version":1,"runs":[{"run":"r","frames":[{"at":"2026-01-01T00:00:00Z",
        "events":[{"run_created":{"workflow":"w","version":1,"fingerprint":"f","input":null,"digest":"d","seed":"s"}},
        {"moon_landed":{"a":1.50}}]}]}],"blobs":{"ca978112ca1bbdcafac231b39a23dc4da786eff8147c4fbb9807bd1e0e0b0b0b":{"text":"a"}}}"#;

    #[test]
    fn a_file_is_read_back_as_it_was_written() {
        // The one blob's name is its hash.
        let good = GOOD.replace(
            "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4fbb9807bd1e0e0b0b0b",
            &hex(&Sha256::digest(b"a")),
        );
        let recording = Recording::parse(&good).unwrap();
        assert!(
            recording.to_text().contains("\n{\"moon_landed\":{\"a\":1.50}}\n"),
            "{}",
            recording.to_text()
        );
        assert_eq!(Recording::parse(&recording.to_text()), Ok(recording));
    }

    #[test]
    fn an_error_says_what_is_wrong_with_a_file() {
        let error = |text: &str| Recording::parse(text).unwrap_err().to_string();
        assert!(error("[1]").contains("not a recording"));
        assert!(error("").contains("not a recording"));
        assert!(
            error(&GOOD.replace("\"version\":1,\"runs\"", "\"version\":2,\"runs\"")).contains("version 2")
        );
        assert!(error(&GOOD.replace("\"run\":\"r\"", "\"run\":\"\"")).contains("run id must not be empty"));
        assert!(error(&GOOD.replace("run_created", "run_waiting")).contains("run `r`"));
        assert!(error(GOOD).contains("SHA-256"));
        for end in (0..GOOD.len() - 1).step_by(7) {
            assert!(Recording::parse(&GOOD[..end]).is_err());
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_is_an_error_and_leaves_nothing() {
        let error = Recording::read("/no/such/file.json").unwrap_err();
        assert!(matches!(error, RecordingError::File { .. }), "{error}");
        let folder = std::env::temp_dir().join(format!("aether-replace-{}", std::process::id()));
        fs::create_dir_all(folder.join("taken")).unwrap();
        assert!(replace_file(&folder.join("taken"), b"x").is_err());
        replace_file(&folder.join("new/file"), b"x").unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = || fs::metadata(folder.join("new/file")).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(), 0o600);
            fs::set_permissions(folder.join("new/file"), fs::Permissions::from_mode(0o640)).unwrap();
            replace_file(&folder.join("new/file"), b"x").unwrap();
            assert_eq!(mode(), 0o640);
        }
        replace_file(&folder.join("new/file"), b"y").unwrap();
        assert_eq!(fs::read(folder.join("new/file")).unwrap(), b"y");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn hexadecimal_digits_are_bytes() {
        assert_eq!(unhex("00ff1a"), Some(vec![0, 255, 26]));
        assert_eq!((unhex("0"), unhex("zz")), (None, None));
    }
}
