//! One schedule of one story, and what came of it.
//!
//! Promise: a case is data, and repeats exactly in the same build.

use serde::{Deserialize, Serialize};

use crate::judge::{self, Facts, Violation};
use crate::play::play;
use crate::rng::Rng;
use crate::sim::{Ended, Strategy, task};
use crate::story::Story;

/// More steps than any fair schedule needs.
const STEPS: u64 = 400_000;

/// A story and one schedule of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// What happens.
    pub story: Story,
    /// How tasks are chosen.
    pub strategy: Strategy,
    /// Which of the choices that the strategy allows.
    pub seed: u64,
}

/// Which freedom a schedule has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All of it, drawn for each seed.
    Swarm,
    /// Tasks take turns at awaits only.
    Awaits,
    /// A random walk over points.
    Walk,
    /// Priorities with a few changes (PCT).
    Pct,
}

/// What is explored.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Which freedom the schedules have.
    pub mode: Mode,
    /// The store is the embedded one, on a file.
    pub file: bool,
}

impl Mode {
    /// The mode of this name.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "swarm" => Self::Swarm,
            "awaits" => Self::Awaits,
            "walk" => Self::Walk,
            "pct" => Self::Pct,
            _ => return None,
        })
    }
}

impl Strategy {
    /// The strategy of a seed.
    pub fn of(seed: u64, mode: Mode) -> Self {
        let mut rng = Rng::new(seed, 3);
        let mut strategy = Self { tick: rng.pick(&[0, 1, 10]), ..Self::default() };
        if mode == Mode::Awaits {
            return strategy;
        }
        strategy.switch = rng.pick(&[1, 3, 10, 40]);
        if mode == Mode::Pct || mode == Mode::Swarm && rng.one_in(3) {
            let changes = 1 + rng.below(5);
            strategy.changes = Some((0..changes).map(|_| rng.below(20_000)).collect());
        }
        if mode == Mode::Swarm {
            strategy.stall = rng.pick(&[0, 50, 100, 400]);
            // With less than half a lease no engine may rightly lose a run.
            strategy.stall_budget = rng.pick(&[200_000, 450_000, 450_000, u64::MAX]);
            strategy.freeze = rng.pick(&[0, 0, 0, 1_000]);
            strategy.longest_freeze = 3 * judge::LEASE * 1_000;
            strategy.hurry = rng.pick(&[0, 0, 0, 0, 0, 50]);
        }
        strategy
    }
}

/// What came of a case.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// The schedule.
    pub ended: Ended,
    /// What does not hold.
    pub violations: Vec<Violation>,
}

impl Case {
    /// The case of a seed.
    pub fn of(seed: u64, plan: Plan) -> Self {
        let story = Story { file: plan.file, ..Story::of(seed) };
        Self { story, strategy: Strategy::of(seed, plan.mode), seed }
    }

    /// Plays it.
    pub fn run(&self, log: bool) -> Verdict {
        let mut facts = Facts::default();
        facts.hurried = self.strategy.hurry > 0;
        facts.keeps_bodies = self.story.keeps_bodies();
        judge::begin(facts);
        let story = Box::pin(play(self.story.clone()));
        let ended = task::run(self.seed, self.strategy.clone(), STEPS, log, story);
        let mut violations = judge::end();
        if ended.exhausted {
            let what = format!("after {} steps", ended.steps);
            violations.push(Violation { rule: "endless".into(), what });
        }
        Verdict { ended, violations }
    }

    /// A case with the same rule broken that can do with less.
    pub fn shrunk(&self, rule: &str) -> Self {
        let mut best = self.clone();
        let breaks = |case: &Self| case.run(false).violations.iter().any(|violation| violation.rule == rule);
        'smaller: loop {
            for story in best.story.smaller() {
                for seed in std::iter::once(best.seed).chain(1..=SHRINKING) {
                    let case = Self { story: story.clone(), seed, ..best.clone() };
                    if breaks(&case) {
                        best = case;
                        continue 'smaller;
                    }
                }
            }
            return best;
        }
    }
}

/// Schedules that a smaller story gets to break the rule.
const SHRINKING: u64 = 60;
