//! The check before a deploy: what this program would do with every open run of a store.
//!
//! Promise: executes nothing and writes nothing. It replays with the code that a recovery uses, so that it says of each run
//! what a recovery does, unless the run moves on meanwhile.

use std::fmt;
use std::process::ExitCode;

use futures_util::StreamExt as _;
use futures_util::stream::iter;
use serde::Serialize;

use crate::engine::adopt::trial::{Trial, try_run};
use crate::engine::advance::launch::LOADS;
use crate::engine::code::run_code;
use crate::engine::inner::{Engine, Inner};
use crate::run::fault::Fault;
use crate::store::error::StoreError;
use crate::store::filter::RunFilter;
use crate::store::records::RunRecord;
use crate::vocabulary::code::{ParkedAt, RunCode};
use crate::vocabulary::contract::Status;
use crate::vocabulary::id::RunId;
use std::sync::Arc;

/// Runs that are listed at once.
const PAGE: usize = 256;

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
    /// The run could not be replayed: its journal is damaged.
    Unreadable,
}

impl fmt::Display for RunVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fits => "fits",
            Self::Adopts => "adopts",
            Self::Parks => "parks",
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

/// What a program would do with the open runs of a store: the result of [`Engine::check`].
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CheckReport {
    /// How many runs fit and were recorded by this very code.
    pub fits: usize,
    /// How many runs were recorded by other code, and fit.
    pub adopts: usize,
    /// How many runs would be parked.
    pub parks: usize,
    /// How many runs could not be replayed.
    pub unreadable: usize,
    /// Every run, in the order in which they were created.
    pub runs: Vec<RunCheck>,
}

impl CheckReport {
    /// Whether the program can advance every run that was looked at.
    pub fn is_clean(&self) -> bool {
        self.parks == 0 && self.unreadable == 0
    }

    /// The runs that would not be advanced.
    pub fn problems(&self) -> impl Iterator<Item = &RunCheck> {
        self.runs.iter().filter(|run| matches!(run.verdict, RunVerdict::Parks | RunVerdict::Unreadable))
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

    fn add(&mut self, run: RunCheck) {
        *match run.verdict {
            RunVerdict::Fits => &mut self.fits,
            RunVerdict::Adopts => &mut self.adopts,
            RunVerdict::Parks => &mut self.parks,
            RunVerdict::Unreadable => &mut self.unreadable,
        } += 1;
        self.runs.push(run);
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fits, adopts, parks, unreadable, runs } = self;
        let open = runs.len();
        write!(
            f,
            "{open} open runs: {fits} fit, {adopts} fit other code and would be adopted, {parks} would be parked"
        )?;
        if *unreadable > 0 {
            write!(f, ", {unreadable} cannot be read")?;
        }
        for run in self.problems() {
            write!(f, "\n{} `{}`: {}", run.verdict, run.run, run.why.as_deref().unwrap_or_default())?;
        }
        Ok(())
    }
}

impl Engine {
    /// Replays the open runs of `filter` with this program's code, and says of each whether it fits, is adopted, or would
    /// be parked. Executes nothing and writes nothing: ask it before a deploy, of an engine that only looks
    /// ([`EngineBuilder::client`](crate::engine::EngineBuilder::client)), on the store itself, on a copy of its file, or on
    /// a recording that was imported into an empty store.
    ///
    /// ```no_run
    /// # use aether_core::engine::Engine;
    /// use aether_core::store::RunFilter;
    /// # async fn example(engine: Engine) -> Result<std::process::ExitCode, Box<dyn std::error::Error>> {
    /// let report = engine.check(RunFilter::new()).await?;
    /// eprintln!("{report}");
    /// Ok(report.exit_code())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub async fn check(&self, filter: RunFilter) -> Result<CheckReport, StoreError> {
        let store = &self.inner.shared.store;
        let mut report = CheckReport::default();
        let (mut filter, mut left) = (filter.clone(), (filter.limit > 0).then_some(filter.limit));
        loop {
            filter.limit = left.map_or(PAGE, |left| left.min(PAGE));
            let page = store.runs(filter.clone()).await?;
            let (Some(last), is_last) = (page.last(), page.len() < filter.limit) else { return Ok(report) };
            filter.after = Some(last.place);
            left = left.map(|left| left - page.len());
            let open = page.into_iter().filter(|record| !record.status.is_terminal());
            let checks = iter(open).map(|record| check(&self.inner, record)).buffered(LOADS);
            let checks: Vec<_> = checks.collect().await;
            for run in checks {
                report.add(run?);
            }
            if is_last || left == Some(0) {
                return Ok(report);
            }
        }
    }
}

/// Tries one open run.
pub(crate) async fn check(inner: &Arc<Inner>, record: RunRecord) -> Result<RunCheck, StoreError> {
    let tried = try_run(inner, &record).await;
    let RunRecord { id: run, workflow, code, parked, status, .. } = record;
    debug_assert_ne!(status, Status::Completed);
    let checked = |verdict, why: Option<&Fault>, recorded_by| {
        let (recorded, requested) = why.map_or((None, None), Fault::sides);
        let why = why.map(ToString::to_string);
        Ok(RunCheck { run, workflow, verdict, why, recorded, requested, recorded_by })
    };
    match tried {
        Ok(Trial { misfit: Some(fault), needs, .. }) => checked(RunVerdict::Parks, Some(&fault), needs),
        Ok(Trial { misfit: None, needs, .. }) => {
            let linked = needs.as_ref().and_then(|needs| inner.linked(needs));
            let same = !parked && linked.is_some_and(|linked| run_code(linked.def).id() == code);
            checked(if same { RunVerdict::Fits } else { RunVerdict::Adopts }, None, needs)
        }
        Err(Fault::Store(error)) if !matches!(error, StoreError::Corrupt { .. }) => Err(error),
        Err(fault) => checked(RunVerdict::Unreadable, Some(&fault), None),
    }
}
