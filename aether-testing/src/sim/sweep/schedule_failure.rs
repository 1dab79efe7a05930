//! What is wrong with a schedule, and how it is told: in words, and as the line that gives it again.
//!
//! Promise: the line names every choice, so that it does not depend on how schedules are drawn.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::sim::report::error::SimError;
use crate::sim::schedule::plan::{Arrival, Choice, Decision, Plan};

/// Environment variable with the one schedule to try.
pub(super) const ONLY: &str = "AETHER_SCHEDULE";

/// A rule that a schedule breaks.
#[derive(Clone, Debug)]
pub(super) struct ScheduleFailure {
    /// Which rule, for comparing failures.
    pub(super) rule: &'static str,
    pub(super) broken: String,
    pub(super) journal: String,
}

/// Schedules as the environment names them: `seed`, or `seed:choices`; several are separated by `/`.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) seed: u64,
    /// `None`: those that are drawn from the seed.
    pub(super) plan: Option<Plan>,
}

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.plan {
            None => write!(f, "{}", self.seed),
            Some(plan) => write!(f, "{}:{plan}", self.seed),
        }
    }
}

fn parsed(text: &str) -> Result<Named, String> {
    let (seed, choices) = match text.split_once(':') {
        Some((seed, choices)) => (seed, Some(choices)),
        None => (text, None),
    };
    let seed = seed.parse().map_err(|_| format!("`{seed}` is no seed"))?;
    Ok(Named { seed, plan: choices.map(str::parse).transpose()? })
}

/// The schedules that the environment names, in order.
pub(super) fn only_schedules() -> Result<Option<Vec<Named>>, SimError> {
    let Some(named) = std::env::var_os(ONLY) else { return Ok(None) };
    let named: Result<Vec<Named>, String> = named.to_string_lossy().split('/').map(parsed).collect();
    named.map(Some).map_err(|problem| SimError::Environment {
        variable: ONLY.into(),
        problem: format!(
            "{problem}: write a seed, such as 17, or what a failure printed, such as 17:signal1-at-write3"
        ),
    })
}

/// The choices of a schedule in words, one a line. `told` is what each point and message was.
pub(super) fn in_words(plan: &Plan, told: &BTreeMap<String, String>) -> String {
    if plan.choices.is_empty() {
        return "    everything as in a plain simulation\n".into();
    }
    plan.choices.iter().map(|choice| format!("    {}\n", words(choice, told))).collect()
}

fn words(choice: &Choice, told: &BTreeMap<String, String>) -> String {
    let what = |name: String| match told.get(&name) {
        Some(what) => format!("{what} ({name})"),
        None => format!("{name}, which was not passed,"),
    };
    match choice {
        Choice::At(point, decision) => {
            let what = what(point.to_string());
            match decision {
                Decision::Yield(1) => format!("{what} came after everything else that was ready"),
                Decision::Yield(times) => {
                    format!("{what} came after everything else that was ready, {times} times over")
                }
                Decision::Stall(wait) => format!("{what} was held for {}", short(*wait)),
                Decision::Freeze(wait) => {
                    format!("the whole process stood still for {} at {what}", short(*wait))
                }
                Decision::Crash => format!("the process died at {what}"),
                Decision::ShutDown => format!("the process was shut down at {what}"),
            }
        }
        Choice::Message(message, Arrival::At(point)) => {
            format!("{} came at {}", what(message.to_string()), what(point.to_string()))
        }
        Choice::Message(message, Arrival::After(wait)) => {
            format!("{} came after {}", what(message.to_string()), short(*wait))
        }
        Choice::Grace(grace) if grace.is_zero() => "idle runs left memory at once".into(),
        Choice::Grace(grace) => format!("idle runs stayed in memory for {}", short(*grace)),
    }
}

fn short(wait: Duration) -> String {
    format!("{wait:?}")
}
