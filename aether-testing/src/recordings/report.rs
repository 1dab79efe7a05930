//! Recorded runs as fixtures: today's code is replayed against what was recorded, and nothing is executed.
//!
//! Promise: a recording counts as matched only when today's code asked for everything that stands in it, in its order;
//! no file, a file without a recorded command and a workflow that is not linked are failures.

mod pattern;
mod verify;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use aether_core::event::Event;
use aether_core::id::RunId;
use aether_core::recording::{Recording, RecordingError};

/// Environment variable that lets [`assert_fixture`] write.
pub const RECORD: &str = "AETHER_RECORD";

/// Replays every recording whose file fits the pattern against the workflows of this program, and panics where one of
/// them does not fit: with what was recorded, what today's code asks for, and where in the source both stand.
///
/// The pattern is relative to the package's folder; its last part may hold `*` and `?`. Yields a [`Report`], which is
/// also printed.
///
/// ```no_run
/// # // In a test of the program that holds the workflows:
/// let report = aether_testing::verify_recordings!("fixtures/*.json");
/// assert!(report.recorded() > 100);
/// ```
#[macro_export]
macro_rules! verify_recordings {
    ($pattern:literal) => {
        $crate::recordings::assert_all(concat!(env!("CARGO_MANIFEST_DIR"), "/", $pattern))
    };
}

/// What came of replaying recordings.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a report may tell of failures"]
pub struct Report {
    /// The pattern.
    pub pattern: String,
    /// Every file that fits it, in the order of their names.
    pub files: Vec<FileReport>,
    /// Why there is no file.
    pub trouble: Option<String>,
}

/// What came of replaying one file.
#[derive(Clone, Debug, PartialEq)]
pub struct FileReport {
    /// The file.
    pub path: PathBuf,
    /// Counts over its runs, or the first thing that does not fit.
    pub outcome: Result<Counts, RecordingFailure>,
}

/// Numbers of one recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Its runs.
    pub runs: u64,
    /// Answers in their journals.
    pub recorded: u64,
    /// Answers that today's code asked for.
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
        /// The run.
        run: RunId,
        /// Its workflow.
        workflow: String,
        /// The workflows that are.
        linked: String,
    },
    /// Today's code asks for something else.
    #[error("run `{run}` ({workflow}) diverges\n    recorded: {recorded}\n    today:    {today}")]
    Diverged {
        /// The run.
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
        /// The run.
        run: RunId,
        /// What happened.
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

/// Replays every recording whose file fits `pattern`; see [`verify_recordings!`](crate::verify_recordings).
pub fn verify_all(pattern: &str) -> Report {
    let (files, trouble) = match pattern::files(Path::new(pattern)) {
        Ok(files) => (files, None),
        Err(trouble) => (Vec::new(), Some(trouble)),
    };
    let files = files.into_iter().map(|path| {
        let outcome = Recording::read(&path).map_err(RecordingFailure::from);
        FileReport { outcome: outcome.and_then(|recording| verify::verify(&recording)), path }
    });
    Report { pattern: pattern.into(), files: files.collect(), trouble }
}

/// Like [`verify_all`], and prints the report.
///
/// # Panics
/// With the report, where a recording does not fit, or there is none.
#[track_caller]
pub fn assert_all(pattern: &str) -> Report {
    let report = verify_all(pattern);
    assert!(
        report.is_good(),
        "recordings do not fit today's code:\n{report}help: restore the code, or record anew with {RECORD}=1 if the change is meant"
    );
    print!("{report}");
    report
}

/// Asserts that the file at `path` holds a recording of the same runs and commands as `recording`, so that a fixture
/// does not fall behind the program that makes it. With the environment variable `AETHER_RECORD=1` it writes the file
/// instead. A relative path is relative to the package's folder, where Cargo runs tests.
///
/// # Panics
/// When the file is missing, damaged, or holds other commands; tells which.
#[track_caller]
pub fn assert_fixture(recording: &Recording, path: impl AsRef<Path>) {
    let path = path.as_ref();
    if std::env::var_os(RECORD).is_some_and(|value| !value.is_empty() && value != "0") {
        match recording.write(path) {
            Ok(()) => return,
            Err(error) => panic!("{error}"),
        }
    }
    let compared = Recording::read(path).and_then(|kept| Ok((commands(&kept)?, commands(recording)?)));
    let (kept, today) = match compared {
        Ok(both) => both,
        Err(error) => panic!("{}: {error}\nhelp: record it with {RECORD}=1", path.display()),
    };
    let (gone, new): (Vec<_>, Vec<_>) =
        (kept.difference(&today).collect(), today.difference(&kept).collect());
    assert!(
        gone.is_empty() && new.is_empty(),
        "{} is behind the program: it has {gone:?}, and today's run has {new:?} instead\nhelp: record it anew with {RECORD}=1",
        path.display()
    );
}

/// Every command of every run.
fn commands(recording: &Recording) -> Result<BTreeSet<String>, RecordingError> {
    let mut commands = BTreeSet::new();
    for run in recording.runs() {
        let events = run.events()?;
        let of_events = events.iter().filter_map(Event::command);
        commands.extend(of_events.map(|command| format!("{} {command}", run.run)));
        commands.insert(run.run.to_string());
    }
    Ok(commands)
}
