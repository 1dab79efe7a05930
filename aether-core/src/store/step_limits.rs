//! Limits on steps: how many calls and tokens per time the runs of a store may take together.
//!
//! Promise: in any span of the length of a limit no more begins than it allows, whatever the number of processes, and
//! however their clocks leap: a clock that leaps back or on lets at most a tenth of the limit through at once. Clocks that
//! differ by less than [`Bookings::late_after`] let nothing more through: the one that is ahead counts. Who waits is told
//! until when, in the order of asking, and asks once. Pure: [`Bookings::take`] computes, a store swaps the record.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::vocabulary::queue::{QueueError, check_name};
use crate::vocabulary::waiting::millis;

/// Longest span of a rate, and longest hold.
const DAY: Duration = Duration::from_secs(86_400);
/// How late a call may come to its place at least.
const LATE: Duration = Duration::from_secs(10);
/// What a hold leaves of the rate, in percent of what there was.
const LOWERED: u64 = 75;
/// The least that holds leave of the rate, in percent.
const LEAST: u64 = 10;
/// How much of the rate comes back with each span that passes without a hold, in percent.
const RAISED: u64 = 10;

/// So many in any span of this length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// How many.
    pub n: u64,
    /// Length of the span in milliseconds.
    pub per_ms: u64,
}

/// A limit that steps and model calls name: `#[step(limit = "openai")]`, `cx.llm(..).limit("openai")`. All calls of all runs
/// of a store that name it count together.
///
/// ```
/// use aether_core::store::StepLimit;
/// use std::time::Duration;
/// let minute = Duration::from_secs(60);
/// let limit = StepLimit::new("openai")?.calls(500, minute)?.tokens(90_000, minute)?;
/// assert_eq!(limit.to_string(), "openai: 500 calls in 60s, 90000 tokens in 60s");
/// # Ok::<(), aether_core::queue::QueueError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepLimit {
    /// Its name.
    pub name: String,
    /// Calls, each attempt counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<Rate>,
    /// Tokens of model calls: what they may take at most, and after their end what they took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Rate>,
}

impl StepLimit {
    /// A limit of this name that lets everything through.
    ///
    /// # Errors
    /// [`QueueError`] when the name is empty, longer than 200 bytes, or holds `/`, `*` or a control character.
    pub fn new(name: impl Into<String>) -> Result<Self, QueueError> {
        let name = name.into();
        check_name("limit", &name)?;
        Ok(Self { name, calls: None, tokens: None })
    }

    /// At most `n` calls in any span of this length.
    ///
    /// # Errors
    /// [`QueueError`] when `n` is 0, or the span is shorter than a millisecond or longer than a day.
    pub fn calls(self, n: u64, per: Duration) -> Result<Self, QueueError> {
        let calls = Some(self.rate(n, per)?);
        Ok(Self { calls, ..self })
    }

    /// At most `n` tokens in any span of this length.
    ///
    /// # Errors
    /// As [`StepLimit::calls`].
    pub fn tokens(self, n: u64, per: Duration) -> Result<Self, QueueError> {
        let tokens = Some(self.rate(n, per)?);
        Ok(Self { tokens, ..self })
    }

    fn rate(&self, n: u64, per: Duration) -> Result<Rate, QueueError> {
        let reason = match (n, per) {
            (0, _) => Some("it would let nothing through, ever"),
            (_, per) if per < Duration::from_millis(1) || per > DAY => {
                Some("its span is between a millisecond and a day")
            }
            _ => None,
        };
        match reason {
            Some(reason) => Err(QueueError::Limit { pattern: self.name.clone(), reason }),
            None => Ok(Rate { n, per_ms: millis(per) }),
        }
    }
}

impl std::fmt::Display for StepLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, calls, tokens } = self;
        let rate = |rate: &Option<Rate>, what| {
            rate.map(|Rate { n, per_ms }| format!("{n} {what} in {:?}", Duration::from_millis(per_ms)))
        };
        let rates: Vec<_> = [rate(calls, "calls"), rate(tokens, "tokens")].into_iter().flatten().collect();
        write!(f, "{name}: {}", if rates.is_empty() { "no limit".into() } else { rates.join(", ") })
    }
}

/// A limit and how far it is used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepLimitUse {
    /// The limit.
    pub limit: StepLimit,
    /// How much of it counts at the moment, in percent: less than 100 after a provider asked to slow down.
    pub percent: u64,
    /// For how long no call begins, because a provider asked to wait, in milliseconds.
    pub held_ms: u64,
    /// How long a call that asks now waits, in milliseconds.
    pub wait_ms: u64,
}

/// What a call takes of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// How long it waits before it is made.
    pub(crate) wait: Duration,
    /// How long the limit has ever been held, until then: see [`Bookings::longer`].
    pub(crate) held_ms: u64,
}

/// What is booked of a rate, as the time that it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Level {
    micros: u64,
}

impl Level {
    fn drain(&mut self, elapsed: u64) {
        self.micros = self.micros.saturating_sub(elapsed);
    }

    /// Books `k` units; returns how long they wait.
    fn book(&mut self, rate: Rate, percent: u64, k: u64) -> u64 {
        let Pace { unit, at_once } = Pace::of(rate, percent);
        let cost = unit.saturating_mul(u128::from(k));
        let micros = u64::try_from(cost.div_ceil(SCALE)).unwrap_or(u64::MAX);
        let room = u64::try_from(unit.saturating_mul(u128::from(at_once)) / SCALE).unwrap_or(u64::MAX);
        // More than can go at once waits until nothing is booked before it.
        let wait = self.micros.saturating_add(micros.min(room)).saturating_sub(room);
        self.micros = self.micros.saturating_add(micros);
        wait
    }
}

/// Parts of a microsecond that are counted.
const SCALE: u128 = 1_000_000;

/// How a rate is kept: `at_once` units without a wait, and one more for each `unit` of time. In a span of the length of the
/// rate these are no more than it allows.
struct Pace {
    /// In parts of a microsecond.
    unit: u128,
    at_once: u64,
}

impl Pace {
    fn of(Rate { n, per_ms }: Rate, percent: u64) -> Self {
        let n = (n.saturating_mul(percent) / 100).max(1);
        let at_once = (n / 10).max(1);
        let per = u128::from(per_ms) * 1_000 * SCALE;
        Self { unit: per.div_ceil(u128::from(n - at_once + 1)), at_once }
    }
}

/// The record of a limit: what is booked, by whom does not matter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Bookings {
    pub(crate) limit: StepLimit,
    #[serde(default)]
    calls: Level,
    #[serde(default)]
    tokens: Level,
    /// Up to when time has passed for it: when it was written, by the clock that is ahead of the others.
    at: Timestamp,
    /// What is left of a hold, in microseconds.
    #[serde(default)]
    held: u64,
    /// How long it has been held in all, in microseconds, what is left included.
    #[serde(default)]
    held_ever: u64,
    /// How much of the rates counts, in percent.
    percent: u64,
    /// How long there was no hold since the percentage last changed, in microseconds.
    #[serde(default)]
    steady: u64,
}

impl Bookings {
    /// A limit of which nothing is booked.
    pub(crate) fn new(limit: StepLimit, now: Timestamp) -> Self {
        let level = Level::default();
        let (held, held_ever, steady) = (0, 0, 0);
        Self { limit, calls: level, tokens: level, at: now, held, held_ever, percent: 100, steady }
    }

    /// Brings it up to `now`. A clock that is behind has measured nothing. The time between it and the one that is ahead
    /// must not pass again with every turn that they take, so only one that is far behind was set back and counts from now on.
    fn pass(&mut self, now: Timestamp) {
        let elapsed = u64::try_from(now.duration_since(self.at).as_micros()).unwrap_or(0);
        if now > self.at || self.at.duration_since(now).unsigned_abs() > self.late_after() {
            self.at = now;
        }
        let held = elapsed.min(self.held);
        self.held -= held;
        // While it is held nothing goes, so nothing that is booked is used up.
        let free = elapsed - held;
        self.calls.drain(free);
        self.tokens.drain(free);
        if self.percent < 100 {
            self.steady = self.steady.saturating_add(free);
            let span = self.span();
            while self.percent < 100 && self.steady >= span {
                self.steady -= span;
                self.percent = (self.percent + RAISED).min(100);
            }
        }
    }

    /// The longest span of its rates, in microseconds.
    fn span(&self) -> u64 {
        let spans = [self.limit.calls, self.limit.tokens].into_iter().flatten();
        spans.map(|rate| rate.per_ms.saturating_mul(1_000)).max().unwrap_or(1).max(1)
    }

    /// Books a call with so many tokens.
    pub(crate) fn take(&mut self, now: Timestamp, tokens: u64) -> Taken {
        self.pass(now);
        let percent = self.percent;
        let calls = self.limit.calls.map_or(0, |rate| self.calls.book(rate, percent, 1));
        let tokens = self.limit.tokens.map_or(0, |rate| self.tokens.book(rate, percent, tokens));
        let wait = self.held.saturating_add(calls.max(tokens));
        Taken { wait: Duration::from_micros(wait), held_ms: self.held_ever / 1_000 }
    }

    /// How much longer a call waits that took its place when the limit had been held for `held_ms`.
    pub(crate) fn longer(&self, held_ms: u64) -> Option<(Duration, u64)> {
        let now = self.held_ever / 1_000;
        (now > held_ms).then(|| (Duration::from_millis(now - held_ms), now))
    }

    /// A call that comes later than this behind the time that it was told takes a new place. A clock that is further than
    /// this behind another one was set back.
    pub(crate) fn late_after(&self) -> Duration {
        Duration::from_micros(self.span()).max(LATE)
    }

    /// Corrects what was booked for a call that took `took` tokens in place of `booked`, and ended so long after it began:
    /// what has drained of its booking meanwhile is not given back, others have booked since.
    pub(crate) fn correct(&mut self, now: Timestamp, booked: u64, took: u64, lasted: Duration) {
        self.pass(now);
        let Some(rate) = self.limit.tokens else { return };
        let unit = Pace::of(rate, self.percent).unit;
        let cost = |tokens: u64| {
            u64::try_from(unit.saturating_mul(u128::from(tokens)).div_ceil(SCALE)).unwrap_or(u64::MAX)
        };
        let drained = u64::try_from(lasted.as_micros()).unwrap_or(u64::MAX);
        let left = |tokens: u64| cost(tokens).saturating_sub(drained);
        let more = cost(took).saturating_sub(cost(booked));
        let less = left(booked).saturating_sub(left(took));
        self.tokens.micros = self.tokens.micros.saturating_add(more).saturating_sub(less);
    }

    /// A provider asked to wait for so long: nothing begins meanwhile, and less afterwards. Said again during a hold, it
    /// only lengthens that.
    pub(crate) fn hold(&mut self, now: Timestamp, wait: Duration) {
        self.pass(now);
        let wait = u64::try_from(wait.min(DAY).as_micros()).unwrap_or(u64::MAX);
        if self.held == 0 {
            self.percent = (self.percent * LOWERED / 100).max(LEAST);
            self.steady = 0;
        }
        let longer = wait.saturating_sub(self.held);
        self.held = self.held.saturating_add(longer);
        self.held_ever = self.held_ever.saturating_add(longer);
    }

    /// Other rates from now on, by this clock. What was booked is forgotten, a hold is not.
    pub(crate) fn replace(&mut self, now: Timestamp, limit: StepLimit) {
        self.pass(now);
        self.at = now;
        (self.calls, self.tokens) = (Level::default(), Level::default());
        self.limit = limit;
    }

    /// How far it is used at `now`.
    pub(crate) fn used(mut self, now: Timestamp) -> StepLimitUse {
        self.pass(now);
        let (percent, held_ms) = (self.percent, self.held / 1_000);
        let wait = self.take(now, 1).wait;
        StepLimitUse { limit: self.limit, percent, held_ms, wait_ms: millis(wait) }
    }
}

#[cfg(test)]
mod tests;
