//! Recordings as fixtures of a test: replaying them, and keeping them up to date.
//!
//! Promise: a file is written only when the environment asks for it.

use std::collections::BTreeSet;
use std::path::Path;

use aether_core::journal::event::Event;
use aether_core::recording::{Recording, RecordingError};

use super::pattern::files;
use super::report::{FileReport, RecordingFailure, Report};
use super::verify::verify;

/// Environment variable that lets [`assert_fixture`] write.
pub const RECORD: &str = "AETHER_RECORD";

/// Replays every recording whose file fits the pattern against the workflows of this program, and panics where one of
/// them does not fit: with what was recorded, what today's code asks for, and where in the source both stand.
///
/// The pattern is relative to the package's folder; its last part may hold `*` and `?`. Outside of functions, with a name,
/// it is a test. Inside of a function, with the pattern alone, it yields a [`Report`], which is also printed.
///
/// ```no_run
/// # // In a test of the program that holds the workflows:
/// aether_testing::verify_recordings!(fn recorded_runs_fit_the_code, "fixtures/*.json");
///
/// #[test]
/// fn there_are_enough_recordings() {
///     let report = aether_testing::verify_recordings!("fixtures/*.json");
///     assert!(report.recorded() > 100);
/// }
/// ```
#[macro_export]
macro_rules! verify_recordings {
    ($pattern:literal $(,)?) => {
        $crate::recordings::assert_all(concat!(env!("CARGO_MANIFEST_DIR"), "/", $pattern))
    };
    ($(#[$attribute:meta])* fn $name:ident, $pattern:literal $(,)?) => {
        $(#[$attribute])*
        #[test]
        fn $name() {
            let _printed = $crate::verify_recordings!($pattern);
        }
    };
    ($($other:tt)*) => {
        ::core::compile_error!(
            "write `verify_recordings!(\"recordings/*.json\")` in a function, or `verify_recordings!(fn name_of_the_test, \"recordings/*.json\");` outside of one"
        );
    };
}

/// Replays every recording whose file fits `pattern`; see [`verify_recordings!`](crate::verify_recordings).
pub fn verify_all(pattern: &str) -> Report {
    let (files, trouble) = match files(Path::new(pattern)) {
        Ok(files) => (files, None),
        Err(trouble) => (Vec::new(), Some(trouble)),
    };
    let files = files.into_iter().map(|path| {
        let outcome = Recording::read(&path).map_err(RecordingFailure::from);
        FileReport { outcome: outcome.and_then(|recording| verify(&recording)), path }
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
