//! What bodies, processes and their driver write of what they do.
//!
//! Promise: lines of several processes do not mix, a line that was written survives its process, and the time of a line is
//! that of the one clock which all processes have in common.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rustix::time::{ClockId, clock_gettime};

/// Microseconds of the system's monotonic clock.
pub(crate) fn monotonic() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap() * 1_000_000 + u64::try_from(time.tv_nsec).unwrap() / 1_000
}

/// A line of the log.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) at: u64,
    pub(crate) pid: u32,
    /// `begin`, `end` or `drop` of a body; `gap`, the end of a time in which a process did not run; `gone`, its death.
    pub(crate) what: String,
    /// The run, or for a gap its beginning.
    pub(crate) run: String,
    /// Queue and key of the run; `-` without.
    pub(crate) place: String,
}

/// The file of one storm.
#[derive(Clone, Debug)]
pub(crate) struct Log(PathBuf);

impl Log {
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self(folder.join("log"))
    }

    pub(crate) fn note(&self, what: &str, run: &str, place: &str) {
        self.note_of(std::process::id(), monotonic(), what, run, place);
    }

    pub(crate) fn note_of(&self, pid: u32, at: u64, what: &str, run: &str, place: &str) {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.0).unwrap();
        file.write_all(format!("{at} {pid} {what} {run} {place}\n").as_bytes()).unwrap();
    }

    /// All lines, by time.
    pub(crate) fn lines(&self) -> Vec<Line> {
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        // What follows the last line's end is still being written.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let mut lines: Vec<_> = whole.lines().map(read).collect();
        lines.sort_by_key(|line| line.at);
        lines
    }
}

fn read(line: &str) -> Line {
    let words: Vec<_> = line.split(' ').collect();
    let [at, pid, what, run, place] = words[..] else { panic!("not a line: {line}") };
    Line {
        at: at.parse().unwrap(),
        pid: pid.parse().unwrap(),
        what: what.into(),
        run: run.into(),
        place: place.into(),
    }
}
