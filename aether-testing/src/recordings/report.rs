//! What came of replaying recordings: counts for each file, or the first thing that does not fit.
//!
//! Promise: a report is good only when there are recordings and all of them fit.

use std::fmt;
use std::path::{Path, PathBuf};

use aether_core::id::RunId;
use aether_core::recording::RecordingError;

/// Outcome of replaying every recording of a pattern.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a report may tell of failures"]
pub struct Report {
    /// The pattern that names the files.
    pub pattern: String,
    /// Every file that fits it, in the order of their names.
    pub files: Vec<FileReport>,
    /// Why there is no file.
    pub trouble: Option<String>,
}

/// Outcome of replaying one file.
#[derive(Clone, Debug, PartialEq)]
pub struct FileReport {
    /// Path of the file.
    pub path: PathBuf,
    /// Counts over its runs, or the first thing that does not fit.
    pub outcome: Result<Counts, RecordingFailure>,
}

/// What one recording holds, and how much of it today's code asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// How many runs it holds, children included.
    pub runs: u64,
    /// How many answers stand in their journals.
    pub recorded: u64,
    /// How many of these today's code asked for.
    pub matched: u64,
}

/// Why a recording does not fit today's code.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingFailure {
    /// The file cannot be used.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// There is nothing in it that could be matched.
    #[error("no command is recorded in it, so that a match would say nothing")]
    Vacuous,
    /// The workflow is not in this program.
    #[error(
        "run `{run}` is of workflow `{workflow}`, which is not linked into this test program (linked are: {linked})"
    )]
    NotLinked {
        /// Id of the recorded run.
        run: RunId,
        /// Name of the workflow that the run was of.
        workflow: String,
        /// Names of the workflows that are linked.
        linked: String,
    },
    /// Today's code asks for something else.
    #[error("run `{run}` ({workflow}) diverges\n    recorded: {recorded}\n    today:    {today}")]
    Diverged {
        /// Id of the recorded run.
        run: RunId,
        /// Its workflow, and whether its source has changed.
        workflow: String,
        /// What was recorded, and where in the source of then.
        recorded: String,
        /// What today's code asks for, and where in today's source.
        today: String,
    },
    /// The replay came to no end.
    #[error("run `{run}`: {reason}")]
    Broken {
        /// Id of the recorded run.
        run: RunId,
        /// Why it came to no end: a panic, a hang, or a store that failed.
        reason: String,
    },
}

impl Report {
    /// The files that do not fit, and why.
    pub fn failures(&self) -> impl Iterator<Item = (&Path, &RecordingFailure)> {
        let failed = |file: &FileReport| file.outcome.is_err();
        let files = self.files.iter().filter(move |file| failed(file));
        files.filter_map(|file| Some((file.path.as_path(), file.outcome.as_ref().err()?)))
    }

    /// Whether there are recordings and all of them fit.
    pub fn is_good(&self) -> bool {
        self.trouble.is_none() && !self.files.is_empty() && self.failures().next().is_none()
    }

    /// Number of recorded answers in all files that fit.
    pub fn recorded(&self) -> u64 {
        self.files.iter().filter_map(|file| file.outcome.as_ref().ok()).map(|counts| counts.recorded).sum()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(trouble) = &self.trouble {
            writeln!(f, "{}: {trouble}", self.pattern)?;
        }
        for FileReport { path, outcome } in &self.files {
            match outcome {
                Ok(Counts { runs, recorded, matched }) => {
                    writeln!(
                        f,
                        "{}: {matched} of {recorded} recorded matched, {runs} run(s)",
                        path.display()
                    )?;
                }
                Err(failure) => writeln!(f, "{}: FAILED: {failure}", path.display())?,
            }
        }
        Ok(())
    }
}
