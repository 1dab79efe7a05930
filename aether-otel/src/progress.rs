//! How far the telemetry of each run was exported, in a place that survives the process.
//!
//! Promise: what is kept is written whole or not at all. It is an optimisation and never the truth: without it spans are
//! exported again, with the same ids.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use aether_core::id::{Position, RunId};
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

/// Why progress could not be read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the progress of the telemetry in {place} cannot be {what}: {reason}")]
pub struct ProgressError {
    /// Where it is kept.
    pub place: String,
    /// What was tried: `read` or `written`.
    pub what: &'static str,
    /// Why it failed.
    pub reason: String,
}

/// A place for the progress of one exporter: a text that only this crate reads. It has about 90 bytes for each run that is
/// open or waits for its export, and about 10 for each that ended in the last minute: 9 MB for 100,000 open runs. It is
/// saved whole, at most once a second, and no more than 100 KB of it a second on average.
///
/// ```
/// use aether_otel::{Progress, ProgressError};
/// use futures_util::future::BoxFuture;
/// # #[derive(Debug)] struct Db;
/// # impl Db { async fn get(&self, _: &str) -> Option<String> { None } async fn set(&self, _: &str, _: String) {} }
///
/// /// In a table of the program.
/// #[derive(Debug)]
/// struct InTable(Db);
///
/// impl Progress for InTable {
///     fn load(&self) -> BoxFuture<'_, Result<Option<String>, ProgressError>> {
///         Box::pin(async { Ok(self.0.get("telemetry").await) })
///     }
///     fn save(&self, text: String) -> BoxFuture<'_, Result<(), ProgressError>> {
///         Box::pin(async { Ok(self.0.set("telemetry", text).await) })
///     }
/// }
/// ```
pub trait Progress: Send + Sync + Debug + 'static {
    /// The text that was saved last; `None` where none was.
    ///
    /// # Errors
    /// [`ProgressError`]; the exporter tries again.
    fn load(&self) -> BoxFuture<'_, Result<Option<String>, ProgressError>>;

    /// Keeps `text` in place of what was there; durable when it returns.
    ///
    /// # Errors
    /// [`ProgressError`]; the exporter goes on, and what it exports meanwhile is exported again by the next process.
    fn save(&self, text: String) -> BoxFuture<'_, Result<(), ProgressError>>;
}

/// Keeps progress in a file.
///
/// ```
/// let progress = aether_otel::FileProgress::at("agent.telemetry.json");
/// ```
#[derive(Clone, Debug)]
pub struct FileProgress {
    path: PathBuf,
}

impl FileProgress {
    /// In the file at `path`, which need not exist. One exporter writes to it at a time.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    fn error(&self, what: &'static str, error: &std::io::Error) -> ProgressError {
        ProgressError { place: self.path.display().to_string(), what, reason: error.to_string() }
    }
}

impl Progress for FileProgress {
    fn load(&self) -> BoxFuture<'_, Result<Option<String>, ProgressError>> {
        let read = match std::fs::read_to_string(&self.path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.error("read", &error)),
        };
        Box::pin(std::future::ready(read))
    }

    fn save(&self, text: String) -> BoxFuture<'_, Result<(), ProgressError>> {
        let path = self.path.clone();
        Box::pin(async move {
            // A disk may take its time, and the runs of the engine share this runtime.
            let written = tokio::task::spawn_blocking(move || {
                aether_core::recording::replace_file(&path, text.as_bytes())
            });
            match written.await {
                Ok(written) => written.map_err(|error| self.error("written", &error)),
                Err(stopped) => Err(self.error("written", &std::io::Error::other(stopped))),
            }
        })
    }
}

/// Keeps progress for as long as the process lives.
#[derive(Debug, Default)]
pub(crate) struct InMemory(Mutex<Option<String>>);

impl Progress for InMemory {
    fn load(&self) -> BoxFuture<'_, Result<Option<String>, ProgressError>> {
        let text = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Box::pin(std::future::ready(Ok(text)))
    }

    fn save(&self, text: String) -> BoxFuture<'_, Result<(), ProgressError>> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
        Box::pin(std::future::ready(Ok(())))
    }
}

/// How far one run was exported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reached {
    /// Place of the run in the list of runs.
    pub(crate) place: u64,
    /// Spans that end before this position are exported.
    pub(crate) exported: Position,
    /// Metrics count the events before this position.
    pub(crate) counted: Position,
}

/// What is kept: every run with a place of at most `floor` is either in `open` or exported to its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) floor: u64,
    pub(crate) open: BTreeMap<RunId, Reached>,
    /// Places above the floor whose runs are exported to their ends.
    pub(crate) done: BTreeSet<u64>,
}

impl Kept {
    /// Reads what was saved.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    pub(crate) fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Whether a run is neither open nor done.
    pub(crate) fn is_new(&self, run: &RunId, place: u64) -> bool {
        place > self.floor && !self.done.contains(&place) && !self.open.contains_key(run)
    }

    /// A run is exported to its end.
    pub(crate) fn finish(&mut self, run: &RunId) {
        if let Some(reached) = self.open.remove(run)
            && reached.place > self.floor
        {
            self.done.insert(reached.place);
        }
    }

    /// No run that is not known can have a place of at most `floor` any more.
    pub(crate) fn raise(&mut self, floor: u64) {
        if floor > self.floor {
            self.floor = floor;
            self.done.retain(|place| *place > floor);
        }
    }
}
