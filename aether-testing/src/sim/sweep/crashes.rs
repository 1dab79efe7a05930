//! Crashes at every boundary: each one is tried, and what follows is compared with the run without a crash.
//!
//! Promise: a process that dies changes no result beyond what `guarantees` allows; a report counts every boundary.

use std::fmt;
use std::time::Duration;

use aether_core::payload::Payload;
use aether_core::workflow::Workflow;

use super::digests::refuse_other_arguments;
use super::environment::only_point;
use super::guarantees::{Disturbance, check, undisturbed};
use crate::sim::processes::simulate::{Simulated, simulate};
use crate::sim::report::error::SimError;
use crate::sim::report::journal::journal_text;
use crate::sim::settings::Settings;
use crate::stores::crash_point::{Boundary, CrashPoint};

/// Environment variable with the id of the one boundary to crash at.
const ONLY: &str = "AETHER_CRASH_AT";

/// What a crash is to a run.
const DEATH: Disturbance = Disturbance { must_die: true, may_lose_streams: false };

/// Every boundary at which a run was crashed, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CrashReport {
    /// Writes of the run without a crash.
    pub writes: u64,
    /// Its writes to the effect store.
    pub effects: u64,
    /// Every boundary of the run without a crash, in order.
    pub boundaries: Vec<Boundary>,
    /// Crash points after which the run had its usual result.
    pub same: Vec<CrashPoint>,
    /// Crash points after which a call was in doubt.
    pub in_doubt: Vec<CrashPoint>,
    /// Commands whose arguments were altered in a copy of the journal, which the replay then refused.
    pub digests: u64,
}

impl CrashReport {
    /// Number of boundaries at which it was crashed.
    pub fn crashes(&self) -> usize {
        self.same.len() + self.in_doubt.len()
    }
}

impl fmt::Display for CrashReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unwinding = self.boundaries.iter().filter(|boundary| boundary.unwinding).count();
        write!(
            f,
            "{} crashes ({unwinding} in an unwinding): {} with the same result, {} in doubt",
            self.crashes(),
            self.same.len(),
            self.in_doubt.len()
        )
    }
}

/// Runs once without a crash, and then once for each of its boundaries. `test` is the name of the test that asks.
pub(crate) fn at_every_boundary<W: Workflow>(
    settings: &Settings,
    input: &Payload,
    test: &str,
) -> Result<CrashReport, SimError> {
    let only = only_point(ONLY)?;
    let settings = settings.for_sweep();
    let reference = simulate::<W>(&settings, input)?;
    undisturbed(&reference).map_err(|broken| SimError::Undisturbed {
        broken,
        reproduce: format!("cargo test {test}"),
        journal: reference.report.journal(),
    })?;
    let mut report = CrashReport {
        writes: reference.report.writes,
        effects: reference.report.effects,
        boundaries: reference.boundaries.clone(),
        same: Vec::new(),
        in_doubt: Vec::new(),
        digests: refuse_other_arguments::<W>(&settings, &reference, test)?,
    };
    for boundary in &reference.boundaries {
        if only.is_some_and(|only| only != boundary.point) {
            continue;
        }
        let suspended_for = lasted(&reference.suspensions, boundary.point);
        let settings = Settings { suspended_for, ..settings.clone() };
        let crashed = crash_at::<W>(boundary, &settings, input, test)?;
        if only.is_some() {
            print(boundary, &crashed);
        }
        check(&reference, &crashed, DEATH)
            .map_err(|broken| failed(boundary, test, broken, crashed.report.journal()))?;
        let points = if crashed.left.is_empty() { &mut report.same } else { &mut report.in_doubt };
        points.push(boundary.point);
    }
    if let (Some(only), 0) = (only, report.crashes()) {
        println!("{ONLY}: the run of `{}` has no boundary {}", W::DEF.name, only.id());
    }
    Ok(report)
}

/// How long the suspension lasted that is this point.
fn lasted(suspensions: &[Duration], point: CrashPoint) -> Option<Duration> {
    match point {
        CrashPoint::Waiting(number) => {
            suspensions.get(usize::try_from(number.checked_sub(1)?).ok()?).copied()
        }
        _ => None,
    }
}

/// Runs once and dies at `boundary`.
fn crash_at<W: Workflow>(
    boundary: &Boundary,
    settings: &Settings,
    input: &Payload,
    test: &str,
) -> Result<Simulated<W>, SimError> {
    let settings = Settings { crashes: vec![boundary.point], ..settings.clone() };
    simulate::<W>(&settings, input)
        .map_err(|error| failed(boundary, test, error.to_string(), "  (none)".into()))
}

/// What a crash changed, and how to see it again.
fn failed(boundary: &Boundary, test: &str, broken: String, journal: String) -> SimError {
    let Boundary { point, what, .. } = boundary;
    let reproduce = format!("{ONLY}={} cargo test {test}", point.id());
    SimError::Crash { point: *point, what: what.clone(), broken, reproduce, journal }
}

/// Shows one crash: the journal it left, and the journal in the end.
fn print<W: Workflow>(boundary: &Boundary, crashed: &Simulated<W>) {
    let Boundary { point, what, .. } = boundary;
    let before = crashed.before.as_deref().map(journal_text).unwrap_or_default();
    let after = crashed.report.journal();
    println!("`{}` up to the crash:\n{before}\n-- crash {point} ({what}) --\n", W::DEF.name);
    println!("and after the restart:\n{after}\nended: {:?}", crashed.report.view.status);
}
