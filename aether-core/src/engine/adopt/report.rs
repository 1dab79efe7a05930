//! What a check found: one verdict for each open run, for people, machines and exit codes.
//!
//! Promise: plain values; the names in JSON are never changed.

use std::fmt;
use std::process::ExitCode;

use serde::Serialize;

use crate::vocabulary::code::{ParkedAt, RunCode};
use crate::vocabulary::id::RunId;

/// What a program would do with an open run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunVerdict {
    /// The program has the code that recorded the run, and it fits.
    Fits,
    /// The program has other code, and it fits: the run is adopted when it wakes.
    Adopts,
    /// The program's code does not fit: the run is parked, and waits for code that does.
    Parks,
    /// The program's code fits, and its workflow panics behind what is recorded: the run fails.
    Fails,
    /// The run could not be replayed: its journal is damaged.
    Unreadable,
}

impl fmt::Display for RunVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fits => "fits",
            Self::Adopts => "adopts",
            Self::Parks => "parks",
            Self::Fails => "fails",
            Self::Unreadable => "unreadable",
        })
    }
}

/// What a program would do with one run, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RunCheck {
    /// The run.
    pub run: RunId,
    /// Name of its workflow.
    pub workflow: String,
    /// What the program would do.
    pub verdict: RunVerdict,
    /// The difference, in one sentence, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The command in history at which code and history differ, with its source line then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<ParkedAt>,
    /// The command that the code asks for there, with its source line now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested: Option<ParkedAt>,
    /// The code that recorded the run last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_by: Option<RunCode>,
}

/// What a program would do with the open runs of a store: the result of [`Engine::check`](crate::engine::Engine::check).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CheckReport {
    /// How many runs fit and were recorded by this very code.
    pub fits: usize,
    /// How many runs were recorded by other code, and fit.
    pub adopts: usize,
    /// How many runs would be parked.
    pub parks: usize,
    /// How many runs would fail.
    pub fails: usize,
    /// How many runs could not be replayed.
    pub unreadable: usize,
    /// Every run, in the order in which they were created.
    pub runs: Vec<RunCheck>,
}

impl RunCheck {
    /// Whether both differ at the same place of the same workflow.
    fn differs_like(&self, other: &Self) -> bool {
        self.verdict == other.verdict
            && self.workflow == other.workflow
            && self.recorded == other.recorded
            && self.requested == other.requested
            && (self.recorded.is_some()
                || self.requested.is_some()
                || self.why.is_none() == other.why.is_none())
    }
}

impl CheckReport {
    /// Whether the program can advance every run that was looked at.
    pub fn is_clean(&self) -> bool {
        self.parks == 0 && self.fails == 0 && self.unreadable == 0
    }

    /// The runs that would not be advanced.
    pub fn problems(&self) -> impl Iterator<Item = &RunCheck> {
        self.runs.iter().filter(|run| !matches!(run.verdict, RunVerdict::Fits | RunVerdict::Adopts))
    }

    /// The report as JSON, for machines: the counts, and one object for each run.
    ///
    /// # Errors
    /// [`serde_json::Error`] when it cannot be written.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self)
    }

    /// What a program that checks before a deploy exits with: 0 where it can advance every run, else 1.
    pub fn exit_code(&self) -> ExitCode {
        if self.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    pub(crate) fn add(&mut self, run: RunCheck) {
        *match run.verdict {
            RunVerdict::Fits => &mut self.fits,
            RunVerdict::Adopts => &mut self.adopts,
            RunVerdict::Parks => &mut self.parks,
            RunVerdict::Fails => &mut self.fails,
            RunVerdict::Unreadable => &mut self.unreadable,
        } += 1;
        self.runs.push(run);
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fits, adopts, parks, fails, unreadable, runs } = self;
        let open = runs.len();
        write!(
            f,
            "{open} open runs: {fits} fit, {adopts} fit other code and would be adopted, {parks} would be parked"
        )?;
        if *fails > 0 {
            write!(f, ", {fails} would fail")?;
        }
        if *unreadable > 0 {
            write!(f, ", {unreadable} cannot be read")?;
        }
        let mut groups: Vec<Vec<&RunCheck>> = Vec::new();
        for run in self.problems() {
            match groups.iter_mut().find(|group| group.first().is_some_and(|first| first.differs_like(run))) {
                Some(group) => group.push(run),
                None => groups.push(vec![run]),
            }
        }
        for group in groups {
            let Some((first, more)) = group.split_first() else { continue };
            write!(f, "\n{} `{}`: {}", first.verdict, first.run, first.why.as_deref().unwrap_or_default())?;
            if let Some(second) = more.first() {
                write!(f, " (and {} more like it, such as `{}`)", more.len(), second.run)?;
            }
        }
        Ok(())
    }
}
