//! Makes a failing schedule small: choice by choice is left out or made simpler, as long as the same rule is broken.
//!
//! Promise: what comes out breaks the rule, and leaving out any one choice of it does not, unless the tries were used up.

use std::time::Duration;

use crate::sim::schedule::plan::{Arrival, Choice, Decision, Plan};

/// Most simulations for one failure.
const TRIES: usize = 600;

/// The smallest plan that is found for which `fails` holds, which it does for `plan`.
pub(super) fn shrink(plan: Plan, mut fails: impl FnMut(&Plan) -> bool) -> Plan {
    let mut tries = TRIES;
    let mut fails = |plan: &Plan| {
        tries = tries.saturating_sub(1);
        tries > 0 && fails(plan)
    };
    let mut plan = plan;
    loop {
        let before = plan.clone();
        leave_out(&mut plan, &mut fails);
        simplify(&mut plan, &mut fails);
        if plan == before {
            return plan;
        }
    }
}

/// Leaves out half of the choices, a quarter, and so on to single ones.
fn leave_out(plan: &mut Plan, fails: &mut impl FnMut(&Plan) -> bool) {
    let mut size = plan.choices.len().max(1);
    while size > 0 {
        let mut at = 0;
        while at < plan.choices.len() {
            let mut smaller = plan.clone();
            smaller.choices.drain(at..(at + size).min(plan.choices.len()));
            if fails(&smaller) {
                *plan = smaller;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
}

fn simplify(plan: &mut Plan, fails: &mut impl FnMut(&Plan) -> bool) {
    for at in 0..plan.choices.len() {
        let simpler = plan.choices.get(at).map(|choice| simpler(*choice)).unwrap_or_default();
        for choice in simpler {
            let mut candidate = plan.clone();
            if let Some(place) = candidate.choices.get_mut(at) {
                *place = choice;
            }
            if fails(&candidate) {
                *plan = candidate;
                break;
            }
        }
    }
}

/// Simpler choices in place of this one, the simplest first.
fn simpler(choice: Choice) -> Vec<Choice> {
    match choice {
        Choice::At(point, Decision::Yield(times)) if times > 1 => vec![Choice::At(point, Decision::Yield(1))],
        Choice::At(point, Decision::Stall(wait)) => {
            let shorter = shorter(wait).map(|wait| Choice::At(point, Decision::Stall(wait)));
            std::iter::once(Choice::At(point, Decision::Yield(1))).chain(shorter).collect()
        }
        Choice::At(point, Decision::Freeze(wait)) => {
            let shorter = shorter(wait).map(|wait| Choice::At(point, Decision::Freeze(wait)));
            std::iter::once(Choice::At(point, Decision::Stall(wait))).chain(shorter).collect()
        }
        Choice::Message(message, Arrival::At(_)) => {
            vec![Choice::Message(message, Arrival::After(Duration::ZERO))]
        }
        Choice::Message(message, Arrival::After(wait)) => {
            let shorter = shorter(wait).map(|wait| Choice::Message(message, Arrival::After(wait)));
            shorter.collect()
        }
        Choice::At(..) | Choice::Grace(_) => Vec::new(),
    }
}

/// Round numbers below `wait`, and its half.
fn shorter(wait: Duration) -> impl Iterator<Item = Duration> {
    let round = [0, 1, 10, 100, 1_000, 10_000, 60_000, 3_600_000].map(Duration::from_millis);
    let half = Duration::from_millis(u64::try_from(wait.as_millis() / 2).unwrap_or(u64::MAX));
    let smaller = round.into_iter().filter(move |round| *round < wait);
    smaller.chain((half < wait).then_some(half))
}
