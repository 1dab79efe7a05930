//! Budgets: how much the calls of a part of a run may take in all, and what it means that one is used up.
//!
//! Promise: plain data; amounts are integers that do not wrap. Who counts is `journal::spending`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::vocabulary::waiting::millis;

/// How much a run, a child run, an agent or a part of a workflow may take. What is not limited is not counted against it.
///
/// A call reserves what it may take before it is made, and what it did not take comes back with its outcome. A call whose
/// outcome was lost counts with all that it had reserved.
///
/// ```
/// use aether_core::budget::Budget;
/// use std::time::Duration;
/// let budget = Budget::new().named("research").tokens(200_000).calls(40).time(Duration::from_secs(600));
/// assert_eq!(budget.to_string(), "200000 tokens, 40 calls, 10m");
/// let budget = Budget::new().cost_cents(250, "EUR");
/// assert_eq!(budget.to_string(), "2.500000000 EUR");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Name, for messages and views.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Tokens of questions and answers together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// What model calls may cost, by the table of prices that the program provides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<CostLimit>,
    /// Attempts at calls: of models, of reads, and of steps that change the world.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// Time from the first call on, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<u64>,
    /// The end of the time, where it is what is left of another budget's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// An amount of money.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostLimit {
    /// The amount, in billionths of the currency's unit.
    pub nanos: u64,
    /// The currency, as the table of prices names it.
    pub currency: String,
}

impl fmt::Display for CostLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNIT: u64 = 1_000_000_000;
        write!(f, "{}.{:09} {}", self.nanos / UNIT, self.nanos % UNIT, self.currency)
    }
}

impl Budget {
    /// A budget that limits nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives it a name, by which errors and views call it.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Limits the tokens of questions and answers together.
    #[must_use]
    pub fn tokens(mut self, tokens: u64) -> Self {
        self.tokens = Some(tokens);
        self
    }

    /// Limits what model calls cost to so many hundredths of the unit of `currency`. See [`Budget::cost_nanos`].
    #[must_use]
    pub fn cost_cents(self, cents: u64, currency: impl Into<String>) -> Self {
        self.cost_nanos(cents.saturating_mul(10_000_000), currency)
    }

    /// Limits what model calls cost to so many billionths of the unit of `currency`, which is that of the program's table
    /// of prices. A model that has no price there is not asked.
    #[must_use]
    pub fn cost_nanos(mut self, nanos: u64, currency: impl Into<String>) -> Self {
        self.cost = Some(CostLimit { nanos, currency: currency.into() });
        self
    }

    /// Limits the number of attempts at calls: of models, of reads, and of steps that change the world. Pure and transaction
    /// steps do not count.
    #[must_use]
    pub fn calls(mut self, calls: u64) -> Self {
        self.calls = Some(calls);
        self
    }

    /// Limits the time from the first call on, by the clock of the machine: waits are in it, and so is the time in which no
    /// process runs. No call begins later; one that changes nothing is cut off, one that changes the world is not.
    #[must_use]
    pub fn time(mut self, time: Duration) -> Self {
        self.time_ms = Some(millis(time));
        self
    }

    /// Whether it limits nothing.
    pub fn is_unlimited(&self) -> bool {
        let Self { name: _, tokens, cost, calls, time_ms, until } = self;
        tokens.is_none() && cost.is_none() && calls.is_none() && time_ms.is_none() && until.is_none()
    }

    /// What both allow: of each limit the smaller one. Of costs in two currencies, this budget's.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
            match (one, other) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            }
        }
        let cost = match (self.cost, other.cost) {
            (Some(one), Some(other)) if one.currency == other.currency && other.nanos < one.nanos => {
                Some(other)
            }
            (one, other) => one.or(other),
        };
        Self {
            name: self.name.or(other.name),
            tokens: least(self.tokens, other.tokens),
            cost,
            calls: least(self.calls, other.calls),
            time_ms: least(self.time_ms, other.time_ms),
            until: least(self.until, other.until),
        }
    }

    /// The limit of this kind; that of the time in milliseconds, that of the cost in billionths.
    pub fn limit(&self, kind: BudgetKind) -> Option<u64> {
        match kind {
            BudgetKind::Tokens => self.tokens,
            BudgetKind::Cost => self.cost.as_ref().map(|cost| cost.nanos),
            BudgetKind::Calls => self.calls,
            BudgetKind::Time => self.time_ms,
            BudgetKind::Turns => None,
        }
    }

    /// The end of its time, where it began at `since`.
    pub(crate) fn deadline(&self, since: Timestamp) -> Option<Timestamp> {
        let limit = self
            .time_ms
            .map(|time| crate::vocabulary::environment::later(since, Duration::from_millis(time)));
        match (limit, self.until) {
            (Some(limit), Some(until)) => Some(limit.min(until)),
            (limit, until) => limit.or(until),
        }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = [
            self.tokens.map(|tokens| format!("{tokens} tokens")),
            self.cost.as_ref().map(CostLimit::to_string),
            self.calls.map(|calls| format!("{calls} calls")),
            self.time_ms.map(|time| length(Duration::from_millis(time))),
            self.until.map(|until| format!("until {until}")),
        ];
        let limits: Vec<String> = limits.into_iter().flatten().collect();
        f.write_str(if limits.is_empty() { "no limit" } else { "" })?;
        f.write_str(&limits.join(", "))
    }
}

/// A length of time as people write it.
fn length(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds % 60, time.subsec_millis()) {
        (0, 0) if seconds > 0 => format!("{}m", seconds / 60),
        _ => format!("{time:?}"),
    }
}

/// What a budget limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BudgetKind {
    /// Tokens of models.
    Tokens,
    /// What models cost, in billionths of the currency's unit.
    Cost,
    /// Attempts at calls.
    Calls,
    /// Time, in milliseconds.
    Time,
    /// Answers that an agent may ask its model for: `max_turns`.
    Turns,
}

impl fmt::Display for BudgetKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tokens => "tokens",
            Self::Cost => "cost in billionths",
            Self::Calls => "calls",
            Self::Time => "milliseconds",
            Self::Turns => "turns",
        })
    }
}

/// What calls took, or may take at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spend {
    /// Attempts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub calls: u64,
    /// Tokens of questions and answers together.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tokens: u64,
    /// Cost in billionths of the currency's unit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cost_nanos: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(amount: &u64) -> bool {
    *amount == 0
}

impl Spend {
    /// One attempt that takes no tokens and costs nothing.
    pub const CALL: Self = Self { calls: 1, tokens: 0, cost_nanos: 0 };

    /// The amount of this kind; none of time.
    pub fn of(&self, kind: BudgetKind) -> u64 {
        match kind {
            BudgetKind::Tokens => self.tokens,
            BudgetKind::Cost => self.cost_nanos,
            BudgetKind::Calls => self.calls,
            BudgetKind::Time | BudgetKind::Turns => 0,
        }
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            calls: self.calls.saturating_add(other.calls),
            tokens: self.tokens.saturating_add(other.tokens),
            cost_nanos: self.cost_nanos.saturating_add(other.cost_nanos),
        }
    }

    /// What is left without `other`; nothing where that is more.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            calls: self.calls.saturating_sub(other.calls),
            tokens: self.tokens.saturating_sub(other.tokens),
            cost_nanos: self.cost_nanos.saturating_sub(other.cost_nanos),
        }
    }
}

/// What a body says that its attempt took; what it does not say counts as it was reserved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Attempts that went out; 0 where nothing was sent.
    pub calls: Option<u64>,
    /// Tokens of questions and answers together.
    pub tokens: Option<u64>,
    /// Cost in billionths of the currency's unit.
    pub cost_nanos: Option<u64>,
}

impl Spent {
    /// Nothing was sent.
    pub const NOTHING: Self = Self { calls: Some(0), tokens: Some(0), cost_nanos: Some(0) };

    /// With what was reserved in the place of what is not known.
    pub fn or(self, reserved: Spend) -> Spend {
        Spend {
            calls: self.calls.unwrap_or(reserved.calls),
            tokens: self.tokens.unwrap_or(reserved.tokens),
            cost_nanos: self.cost_nanos.unwrap_or(reserved.cost_nanos),
        }
    }
}

/// A call was not made, because a budget does not have what it may take. Recorded as the outcome of the call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverBudget {
    /// Name of the budget; the place of its scope where it has none.
    pub budget: String,
    /// What is used up.
    pub kind: BudgetKind,
    /// The limit, in the unit of the kind.
    pub limit: u64,
    /// What is spent. Calls whose outcome was lost are in it with what they had reserved.
    pub spent: u64,
    /// What is reserved by calls and child runs that have not ended.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reserved: u64,
    /// What the call may take; `None` where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed: Option<u64>,
    /// Why it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl fmt::Display for OverBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { budget, kind, limit, spent, reserved, needed, why } = self;
        if *kind == BudgetKind::Turns {
            return write!(f, "agent `{budget}` gave no answer within {limit} turns (`max_turns`)");
        }
        write!(f, "not allowed by budget `{budget}` of {limit} {kind}: {spent} spent")?;
        if *reserved > 0 {
            write!(f, ", {reserved} reserved by others")?;
        }
        match (needed, why) {
            (Some(needed), _) => write!(f, ", and {needed} needed"),
            (None, Some(why)) => write!(f, ", and what is needed is not known: {why}"),
            (None, None) => Ok(()),
        }
    }
}

/// A budget that holds for everything in one scope of a run, and those around it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BudgetScope {
    /// The scope's place in the run.
    pub(crate) place: String,
    pub(crate) budget: Budget,
    pub(crate) outer: Option<Arc<BudgetScope>>,
}

/// The budgets that hold for a call, from the inside out.
pub(crate) fn chain(innermost: Option<&Arc<BudgetScope>>) -> impl Iterator<Item = &BudgetScope> {
    std::iter::successors(innermost.map(Arc::as_ref), |scope| scope.outer.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_budgets_the_smaller_limit_of_each_kind_counts() {
        let one = Budget::new().named("one").tokens(10).calls(5).cost_cents(3, "EUR");
        let other = Budget::new().named("other").tokens(7).time(Duration::from_secs(1)).cost_cents(1, "EUR");
        let both = one.clone().and(other);
        assert_eq!(
            both,
            Budget::new().named("one").tokens(7).calls(5).cost_cents(1, "EUR").time(Duration::from_secs(1))
        );
        assert_eq!(one.clone().and(Budget::new().cost_cents(1, "USD")), one);
    }

    #[test]
    fn amounts_do_not_wrap() {
        let most = Spend { calls: u64::MAX, tokens: u64::MAX, cost_nanos: u64::MAX };
        assert_eq!(most.plus(most), most);
        assert_eq!(Spend::CALL.minus(most), Spend::default());
        assert_eq!(Budget::new().cost_cents(u64::MAX, "EUR").limit(BudgetKind::Cost), Some(u64::MAX));
    }
}
