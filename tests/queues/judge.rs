//! Judges a storm by what its bodies wrote.
//!
//! Promise: a run counts from the beginning of its body to the end, or to the death of its process. It does not count from
//! the moment on from which its process was paused for longer than half a lease: then another worker may have taken the run
//! over, and its slot with it. How many are allowed is the most that was allowed within the last few seconds, because a turn
//! that was granted under a higher limit may still begin its body.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use aether::queue::QueuePlace;

use crate::LEASE;
use crate::limits::scope;
use crate::log::Line;

/// For how long a turn that was granted may still begin bodies: its worker may have died, and another one. To this comes
/// how long the machine took from a claim to a body, each time.
const SETTLES: Duration = Duration::from_millis(3_500);
/// How soon after a pause a body may begin of which it was decided before the pause.
const LATE_BEGIN: u64 = 30_000;

/// A limit was set, or removed.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) pattern: String,
    pub(crate) kind: &'static str,
    /// `None`: there is none any more.
    pub(crate) n: Option<u64>,
    pub(crate) per: Duration,
    /// Monotonic microseconds before and after the change.
    pub(crate) at: (u64, u64),
    /// Microseconds of the time of day after it, and before it.
    pub(crate) day: (i64, i64),
}

/// A run was claimed.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) run: String,
    /// Monotonic microseconds.
    pub(crate) at: u64,
}

/// A body.
#[derive(Clone, Debug)]
struct Body {
    run: String,
    place: String,
    from: u64,
    until: u64,
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) bodies: usize,
    /// Of processes that were paused for too long.
    pub(crate) cut_short: usize,
    /// Most runs that worked at the same time.
    pub(crate) most: usize,
    /// How long after its process woke a body of a paused one was there at most, in microseconds.
    pub(crate) longest_after_pause: u64,
    /// The longest time from a claim to the first body of its turn, in microseconds, but for processes that were paused.
    pub(crate) longest_to_begin: u64,
    pub(crate) violations: Vec<String>,
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap()
}

/// The pauses of a process that were so long that its runs may have been taken over.
fn pauses(lines: &[Line], pid: u32) -> Vec<(u64, u64)> {
    let gaps = lines.iter().filter(|line| line.pid == pid && line.what == "gap");
    let gaps = gaps.map(|line| (line.run.parse().unwrap(), line.at));
    gaps.filter(|(from, until)| until - from > micros(LEASE / 2)).collect()
}

/// The bodies of the storm, each as long as it counts.
fn bodies(lines: &[Line], found: &mut Found) -> Vec<Body> {
    let pids: BTreeSet<u32> = lines.iter().map(|line| line.pid).collect();
    let pauses: BTreeMap<u32, Vec<(u64, u64)>> = pids.iter().map(|pid| (*pid, pauses(lines, *pid))).collect();
    let mut open: BTreeMap<(u32, String), Vec<Line>> = BTreeMap::new();
    let (mut bodies, mut gone) = (Vec::new(), BTreeSet::new());
    let mut close = |begin: Line, until: u64| {
        let pause =
            pauses[&begin.pid].iter().find(|(from, woke)| begin.at < woke + LATE_BEGIN && until > *from);
        found.bodies += 1;
        found.cut_short += usize::from(pause.is_some());
        if let Some((_, woke)) = pause {
            found.longest_after_pause = found.longest_after_pause.max(until.saturating_sub(*woke));
        }
        let until = pause.map_or(until, |(from, _)| until.min(*from));
        if until > begin.at {
            bodies.push(Body { run: begin.run, place: begin.place, from: begin.at, until });
        }
    };
    for line in lines {
        let key = (line.pid, line.run.clone());
        match line.what.as_str() {
            // What it did between the look at the clock and its death.
            _ if gone.contains(&line.pid) => {}
            "begin" => open.entry(key).or_default().push(line.clone()),
            "end" | "drop" => close(open.get_mut(&key).and_then(Vec::pop).unwrap(), line.at),
            "gone" => {
                gone.insert(line.pid);
                let of_process = open.iter_mut().filter(|((pid, _), _)| *pid == line.pid);
                of_process.for_each(|(_, begun)| begun.drain(..).for_each(|begin| close(begin, line.at)));
            }
            _ => {}
        }
    }
    open.into_values().flatten().for_each(|begin| close(begin, u64::MAX));
    bodies
}

/// The longest time from a claim to the first body of its turn, in processes that ran meanwhile.
fn longest_to_begin(lines: &[Line], claims: &[Claim]) -> u64 {
    let mut of_runs: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    claims.iter().for_each(|claim| of_runs.entry(&claim.run).or_default().push(claim.at));
    let mut longest = 0;
    for line in lines.iter().filter(|line| line.what == "begin") {
        let claims = of_runs.get_mut(line.run.as_str());
        let Some(claim) = claims.and_then(|claims| take_last_before(claims, line.at)) else { continue };
        let was_paused =
            || pauses(lines, line.pid).iter().any(|(from, woke)| *from < line.at && *woke > claim);
        if line.at - claim > longest && !was_paused() {
            longest = line.at - claim;
        }
    }
    longest
}

/// The last of these times before `at`, which goes with all before it.
fn take_last_before(times: &mut Vec<u64>, at: u64) -> Option<u64> {
    let last = times.iter().copied().filter(|time| *time <= at).max()?;
    times.retain(|time| *time > last);
    Some(last)
}

/// The most that limits of this pattern allowed shortly before `at`.
fn allowed(changes: &[Change], pattern: &str, at: u64, settles: u64) -> u64 {
    let of: Vec<_> = changes.iter().filter(|c| c.kind == "running" && c.pattern == pattern).collect();
    // Before the first change there was none.
    let mut most = if of.first().is_none_or(|first| first.at.1 + settles >= at) { u64::MAX } else { 0 };
    for (no, change) in of.iter().enumerate() {
        let replaced = of.get(no + 1).map_or(u64::MAX, |next| next.at.1);
        if change.at.0 <= at && replaced.saturating_add(settles) >= at {
            most = most.max(change.n.unwrap_or(u64::MAX));
        }
    }
    most
}

/// Computes how many runs worked at once.
pub(crate) fn turns(lines: &[Line], changes: &[Change], claims: &[Claim]) -> Found {
    let mut found = Found { longest_to_begin: longest_to_begin(lines, claims), ..Found::default() };
    let settles = micros(SETTLES) + 2 * found.longest_to_begin;
    let bodies = bodies(lines, &mut found);
    let patterns: BTreeSet<&String> =
        changes.iter().filter(|change| change.kind == "running").map(|change| &change.pattern).collect();
    let mut edges: Vec<(u64, bool, &Body)> =
        bodies.iter().flat_map(|body| [(body.from, true, body), (body.until, false, body)]).collect();
    edges.sort_by_key(|(at, begins, _)| (*at, *begins));
    // A run counts once, also where a former owner's body is still in its process.
    let mut working: BTreeMap<&String, (u32, &String)> = BTreeMap::new();
    for (at, begins, body) in edges {
        let (times, _) = working.entry(&body.run).or_insert((0, &body.place));
        *times = if begins { *times + 1 } else { *times - 1 };
        if *times == 0 {
            working.remove(&body.run);
        }
        if !begins {
            continue;
        }
        found.most = found.most.max(working.len());
        for pattern in &patterns {
            let Some(of) = scope(pattern, &body.place) else { continue };
            let places = working.values().map(|(_, place)| *place);
            let count = crate::limits::counted(pattern, places)[&of];
            let most = allowed(changes, pattern, at, settles);
            if count > most {
                let text =
                    format!("at {at} {count} runs of {of} worked, over {pattern}: {most}: {working:?}");
                found.violations.push(text);
            }
        }
    }
    found
}

/// How long before its transaction a claim may have read the clock: its worker may have been paused in between, and so may
/// one after the other that holds the lock of the file.
const LATE_CLAIM: i64 = 6_000_000;

/// The first turn of a run.
pub(crate) struct Start {
    pub(crate) place: QueuePlace,
    /// By the clock of the worker, as it was before the claim.
    pub(crate) at: i64,
    /// How much later the run wrote something: its claim was late by that at most.
    pub(crate) late: i64,
}

/// First turns within any span of a limit of starts, by the clocks of the workers that claimed them. Starts are counted as
/// of the look at the clock before the claim: a span is shorter by as much as claims were late then. Where the limit was
/// changed soon after, a late claim may have been under the other one.
pub(crate) fn starts(starts: &[Start], changes: &[Change]) -> Vec<String> {
    let mut violations = Vec::new();
    let late_claim = starts.iter().map(|start| start.late).filter(|late| *late < i64::MAX / 4);
    let late_claim = late_claim.max().unwrap_or(0).max(LATE_CLAIM);
    for (no, change) in changes.iter().enumerate() {
        let Some(n) = change.n.filter(|n| change.kind == "starts" && *n > 0) else { continue };
        let is_next = |next: &&Change| next.kind == "starts" && next.pattern == change.pattern;
        let until = changes[no + 1..].iter().find(is_next).map_or(i64::MAX, |next| next.day.1);
        let until = until.saturating_sub(late_claim);
        let mut times: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for Start { place, at, .. } in starts {
            let place = if place.key.is_empty() {
                place.queue.clone()
            } else {
                format!("{}/{}", place.queue, place.key)
            };
            let at = *at;
            if let Some(scope) = scope(&change.pattern, &place).filter(|_| at >= change.day.0 && at < until) {
                times.entry(scope).or_default().push(at);
            }
        }
        for (scope, mut times) in times {
            times.sort_unstable();
            let per = i64::try_from(change.per.as_micros()).unwrap();
            for span in times.windows(usize::try_from(n).unwrap() + 1) {
                let (first, last) = (span[0], span[span.len() - 1]);
                let near = starts.iter().filter(|start| (first - late_claim..=last).contains(&start.at));
                let late = near.map(|start| start.late).max().unwrap_or(0);
                if last - first + late < per {
                    violations.push(format!("{span:?} in {scope}, over {n} starts in {:?}", change.per));
                }
            }
        }
    }
    violations
}
