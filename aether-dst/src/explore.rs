//! Exploring: many seeds on all cores, the shortest case of what fails, and the cases that failed before.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::case::{Case, Plan};
use crate::judge::Violation;

/// How much is explored.
#[derive(Clone, Copy, Debug)]
pub enum Budget {
    /// So many schedules.
    Schedules(u64),
    /// As many as fit into this time.
    Time(Duration),
}

/// What a rule's failures have in common.
#[derive(Clone, Debug)]
pub struct Failures {
    /// How many schedules broke it.
    pub count: u64,
    /// The first seed that did, and after how many schedules.
    pub seed: u64,
    /// What happened there.
    pub what: String,
}

/// What came of an exploration.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Schedules that were played.
    pub schedules: u64,
    /// Their steps and points, in all.
    pub steps: u64,
    /// Places at which a task could have been left.
    pub points: u64,
    /// How long it took.
    pub took: Duration,
    /// Failures by rule.
    pub failures: BTreeMap<String, Failures>,
}

/// Explores seeds from `first` on, on all cores; until `stop` holds for a rule that was broken.
pub fn explore(first: u64, budget: Budget, plan: Plan, stop: impl Fn(&str) -> bool + Sync) -> Report {
    let began = Instant::now();
    let (next, over) = (AtomicU64::new(first), AtomicBool::new(false));
    let report = Mutex::new(Report::default());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let is_enough = match budget {
                        Budget::Schedules(count) => seed - first >= count,
                        Budget::Time(limit) => began.elapsed() >= limit,
                    };
                    if is_enough {
                        return;
                    }
                    let mut verdict = Case::of(seed, plan).run(false);
                    if seed % AGAIN_ONE_IN == 0 {
                        let trace = Case::of(seed, plan).run(false).ended.trace;
                        verdict.violations.extend((trace != verdict.ended.trace).then(not_deterministic));
                    }
                    let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
                    report.schedules += 1;
                    report.steps += verdict.ended.steps;
                    report.points += verdict.ended.points;
                    let mut rules = BTreeMap::new();
                    for violation in verdict.violations {
                        rules.entry(violation.rule).or_insert(violation.what);
                    }
                    for (rule, what) in rules {
                        if stop(&rule) {
                            over.store(true, Ordering::Relaxed);
                        }
                        report.add(rule, seed, what);
                    }
                }
            });
        }
    });
    let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.took = began.elapsed();
    report
}

/// One seed in so many is played twice.
const AGAIN_ONE_IN: u64 = 100;

fn not_deterministic() -> Violation {
    Violation {
        rule: "not-deterministic".into(),
        what: "the second time the schedule was another one".into(),
    }
}

impl Report {
    fn add(&mut self, rule: String, seed: u64, what: String) {
        let known =
            self.failures.entry(rule).or_insert(Failures { count: 0, seed: u64::MAX, what: String::new() });
        known.count += 1;
        if seed < known.seed {
            (known.seed, known.what) = (seed, what);
        }
    }
}

/// A case that failed once, and the trace that it had.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Failed {
    /// The rule that was broken, and by what.
    pub rule: String,
    /// What was wrong in the engine, or that it is not known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The case.
    pub case: Case,
    /// The trace of the failing schedule, as hexadecimal digits.
    pub trace: String,
}

/// Schedules that a story gets whose own schedule is not the same any more.
const AGAIN: u64 = 200;

/// Plays the cases that failed before; those whose points have moved with many schedules. Returns how many were played,
/// and what fails.
pub fn replay(folder: &Path) -> std::io::Result<(u64, Vec<(PathBuf, String)>)> {
    let (mut schedules, mut failing) = (0, Vec::new());
    let mut files: Vec<PathBuf> = match std::fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?,
        Err(_) => Vec::new(),
    };
    files.retain(|file| file.extension().is_some_and(|end| end == "json"));
    files.sort();
    for file in files {
        let failed: Failed = serde_json::from_str(&std::fs::read_to_string(&file)?)?;
        let first = failed.case.run(false);
        schedules += 1;
        let again = if format!("{:016x}", first.ended.trace) == failed.trace { 0 } else { AGAIN };
        let mut broken = first.violations;
        for seed in 1..=again {
            schedules += 1;
            broken.extend(Case { seed, ..failed.case.clone() }.run(false).violations);
        }
        if let Some(violation) = broken.into_iter().next() {
            failing.push((file, format!("{}: {}", violation.rule, violation.what)));
        }
    }
    Ok((schedules, failing))
}
