//! What the budgets of one run have spent and reserved: a fold of its journal.
//!
//! Promise: a reservation counts until an outcome says what was really spent. One whose outcome was lost (another attempt
//! was reserved for the same call, its branch lost a race) counts as spent with all that it had reserved.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::journal::event::reserved::{CarriedSpend, OpenedBudget, Reserved};
use crate::journal::event::{Event, InvocationDecision};
use crate::vocabulary::budget::{Budget, BudgetKind, OverBudget, Spend};
use crate::vocabulary::id::{CommandId, RunId};

/// The scope of the budget of a whole run.
pub(crate) const RUN: &str = "run";

/// One budget of a run, and how much of it is used up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetUse {
    /// The scope that it holds for, as a place in the run; `run` for all of it.
    pub scope: String,
    /// Its limits; `None` where the events that hold them are not in this journal.
    pub budget: Option<Budget>,
    /// When the first call in it was made.
    pub since: Option<Timestamp>,
    /// What is spent.
    pub spent: Spend,
    /// What calls and child runs that have not ended have reserved.
    pub reserved: Spend,
}

/// A reservation that has no outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Open {
    reserved: Spend,
    scopes: Vec<String>,
    /// The child run that it was granted to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    child: Option<RunId>,
    /// Nothing that is under way by itself gives it back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unawaited: bool,
}

/// What a scope has taken.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Account {
    budget: Option<Budget>,
    since: Option<Timestamp>,
    spent: Spend,
    /// Reserved by calls that give back what they do not take.
    open: Spend,
    /// Reserved by children that nobody waits for.
    held: Spend,
    /// Its limits and its beginning are in no event yet: the call that opened it may still be refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unrecorded: bool,
}

/// The budgets of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spending {
    /// The budget that the run was started with.
    run: Option<Budget>,
    accounts: BTreeMap<String, Account>,
    open: BTreeMap<CommandId, Open>,
}

/// A budget that holds for a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Level<'a> {
    pub(crate) scope: &'a str,
    pub(crate) budget: &'a Budget,
}

/// What is decided about a reservation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Decision {
    /// It is made: what is to be recorded, and until when the call may take.
    Granted { reserved: Reserved, until: Option<Timestamp> },
    /// There may be enough when what others reserved comes back.
    Wait,
    /// There is not enough.
    Over(OverBudget),
}

const COUNTED: [BudgetKind; 3] = [BudgetKind::Tokens, BudgetKind::Cost, BudgetKind::Calls];

impl Spending {
    /// Folds a whole journal.
    pub(crate) fn fold<'e>(events: impl IntoIterator<Item = &'e Event>) -> Self {
        let mut folded = Self::default();
        events.into_iter().for_each(|event| folded.apply(event));
        folded
    }

    /// Applies the next event of a journal.
    pub(crate) fn apply(&mut self, event: &Event) {
        match event {
            Event::RunCreated(e) => self.begin(e.terms.budget.as_deref()),
            Event::RunContinued(e) => self.carry_in(e.spent.unwrap_or_default()),
            Event::CommandEmitted(e) => self.reserve(&e.command, e.reserved.as_ref(), None, false),
            Event::ToolInvocationStarted(e) => self.reserve(&e.command, e.reserved.as_ref(), None, false),
            Event::ToolInvocationRefused(e) => self.open(&e.opens),
            Event::ChildStarted(e) => {
                self.reserve(&e.command, e.reserved.as_ref(), Some(&e.child), e.unawaited);
            }
            event => {
                self.settle(event);
            }
        }
        self.record(event);
    }

    /// Notes what an event that is appended says of budgets that begin. No other need say it again.
    pub(crate) fn record(&mut self, event: &Event) {
        let reserved = match event {
            Event::CommandEmitted(e) => e.reserved.as_ref(),
            Event::ToolInvocationStarted(e) => e.reserved.as_ref(),
            Event::ChildStarted(e) => e.reserved.as_ref(),
            _ => None,
        };
        let refused = match event {
            Event::ToolInvocationRefused(e) => &*e.opens,
            _ => &[],
        };
        for opened in reserved.map_or(refused, |reserved| &reserved.opens) {
            if let Some(account) = self.accounts.get_mut(&opened.scope)
                && account.budget.as_ref() == Some(&opened.budget)
            {
                account.unrecorded = false;
            }
        }
    }

    /// Budgets begin, or have other limits than before.
    fn open(&mut self, opens: &[OpenedBudget]) {
        for opened in opens {
            let account = self.accounts.entry(opened.scope.clone()).or_default();
            (account.budget, account.since) = (Some(opened.budget.clone()), Some(opened.since));
            account.unrecorded = true;
        }
    }

    /// That of a run that begins with this budget.
    pub(crate) fn of(budget: Option<&Budget>) -> Self {
        let mut spending = Self::default();
        spending.begin(budget);
        spending
    }

    fn begin(&mut self, budget: Option<&Budget>) {
        self.run = budget.filter(|budget| !budget.is_unlimited()).cloned();
    }

    fn carry_in(&mut self, carried: CarriedSpend) {
        let account = self.accounts.entry(RUN.into()).or_default();
        (account.spent, account.since) = (carried.spent, carried.since);
    }

    /// What the next generation begins with.
    pub(crate) fn carried(&self) -> Option<CarriedSpend> {
        let account = self.accounts.get(RUN)?;
        Some(CarriedSpend { spent: account.total(), since: account.since })
    }

    /// The budget that the run was started with.
    pub(crate) fn of_run(&self) -> Option<&Budget> {
        self.run.as_ref()
    }

    /// What the whole run has taken, for the one that granted it.
    pub(crate) fn total(&self) -> Spend {
        self.accounts.get(RUN).map(Account::total).unwrap_or_default()
    }

    /// Every budget, by its scope.
    pub(crate) fn uses(&self) -> Vec<BudgetUse> {
        let mut uses: Vec<BudgetUse> =
            self.accounts.iter().map(|(scope, account)| account.as_used(scope)).collect();
        if let (Some(budget), false) = (&self.run, self.accounts.contains_key(RUN)) {
            uses.push(Account { budget: Some(budget.clone()), ..Account::default() }.as_used(RUN));
        }
        uses
    }

    /// Of an attempt that did not come back, and that is made again: what it had reserved is spent.
    pub(crate) fn lose(&mut self, command: &CommandId) -> bool {
        self.close(command, None)
    }

    /// What a call has reserved.
    pub(crate) fn reserved_by(&self, command: &CommandId) -> Option<Reserved> {
        let open = self.open.get(command)?;
        Some(Reserved { amount: open.reserved, scopes: open.scopes.clone(), opens: Vec::new() })
    }

    /// Notes a reservation. One that the same call has open was lost with its attempt.
    pub(crate) fn reserve(
        &mut self,
        command: &CommandId,
        reserved: Option<&Reserved>,
        child: Option<&RunId>,
        unawaited: bool,
    ) {
        self.close(command, None);
        let Some(reserved) = reserved else { return };
        self.open(&reserved.opens);
        let open = Open {
            reserved: reserved.amount,
            scopes: reserved.scopes.clone(),
            child: child.cloned(),
            unawaited,
        };
        self.change(&open, |account| {
            let kept = if unawaited { &mut account.held } else { &mut account.open };
            *kept = kept.plus(open.reserved);
        });
        self.open.insert(command.clone(), open);
    }

    /// Applies what ends reservations; says whether it ended one.
    pub(crate) fn settle(&mut self, event: &Event) -> bool {
        match event {
            Event::CommandCommitted(e) => match self.open.get(&e.command) {
                // A child that was started and is not waited for goes on.
                Some(open) if open.unawaited && e.outcome.is_complete() => false,
                _ => self.close(&e.command, e.spent),
            },
            Event::StepRetried(e) => self.close(&e.command, e.spent),
            Event::InvocationResolved(e) if e.decision == InvocationDecision::DidNotHappen => {
                self.close(&e.command, Some(Spend::default()))
            }
            Event::InvocationAbandoned(e) => self.close(&e.command, None),
            Event::ChildReleased(e) => {
                let granted = |(_, open): &(&CommandId, &Open)| open.child.as_ref() == Some(&e.child);
                let command = self.open.iter().find(granted).map(|(command, _)| command.clone());
                command.is_some_and(|command| self.close(&command, e.spent))
            }
            Event::RaceDecided(e) => {
                let lost = |command: &CommandId| {
                    let place = command.place();
                    let below =
                        |scope: &str| place.strip_prefix(scope).is_some_and(|rest| rest.starts_with('.'));
                    below(e.command.place()) && !below(&e.winner)
                };
                let lost: Vec<_> = self.open.keys().filter(|command| lost(command)).cloned().collect();
                lost.iter().filter(|command| self.close(command, None)).count() > 0
            }
            _ => false,
        }
    }

    /// Ends the open reservation of a command: it spent so much, or all that it had reserved.
    fn close(&mut self, command: &CommandId, spent: Option<Spend>) -> bool {
        let Some(open) = self.open.remove(command) else { return false };
        let spent = spent.unwrap_or(open.reserved);
        self.change(&open, |account| {
            let kept = if open.unawaited { &mut account.held } else { &mut account.open };
            *kept = kept.minus(open.reserved);
            account.spent = account.spent.plus(spent);
        });
        true
    }

    fn change(&mut self, open: &Open, mut change: impl FnMut(&mut Account)) {
        for scope in &open.scopes {
            change(self.accounts.entry(scope.clone()).or_default());
        }
    }

    /// Whether something is reserved for this child run.
    pub(crate) fn has_granted(&self, child: &RunId) -> bool {
        self.open.values().any(|open| open.child.as_ref() == Some(child))
    }

    /// Decides whether a call may take `need` from all of `levels` at `now`. Nothing is changed.
    pub(crate) fn decide(&self, levels: &[Level<'_>], need: Spend, now: Timestamp) -> Decision {
        let (mut waits, mut until, mut opens) = (false, None::<Timestamp>, Vec::new());
        for level in levels {
            let account = self.accounts.get(level.scope);
            let since = account.and_then(|account| account.since).unwrap_or(now);
            if account.is_none_or(|account| {
                account.budget.as_ref() != Some(level.budget) || account.since.is_none() || account.unrecorded
            }) {
                opens.push(OpenedBudget { scope: level.scope.into(), budget: level.budget.clone(), since });
            }
            match level.budget.deadline(since) {
                Some(deadline) if deadline <= now => {
                    return Decision::Over(over_time(level, since, deadline, now));
                }
                deadline => until = [until, deadline].into_iter().flatten().min(),
            }
            let nothing = Account::default();
            let account = account.unwrap_or(&nothing);
            for kind in COUNTED {
                match account.has(level, kind, need.of(kind)) {
                    Room::Enough => {}
                    Room::Perhaps => waits = true,
                    Room::Never => return Decision::Over(account.over(level, kind, Some(need.of(kind)))),
                }
            }
        }
        if waits {
            return Decision::Wait;
        }
        let scopes = levels.iter().map(|level| level.scope.to_owned()).collect();
        Decision::Granted { reserved: Reserved { amount: need, scopes, opens }, until }
    }

    /// When the first of these budgets ends by its time, of those that have begun.
    pub(crate) fn deadline(&self, levels: &[Level<'_>]) -> Option<Timestamp> {
        let ends = |level: &Level<'_>| level.budget.deadline(self.accounts.get(level.scope)?.since?);
        levels.iter().filter_map(ends).min()
    }

    /// What a child run may take of `levels` and of what was asked for it: all that is left.
    pub(crate) fn left(&self, levels: &[Level<'_>], asked: Option<&Budget>, now: Timestamp) -> Budget {
        let nothing = Account::default();
        let mut left = asked.cloned().unwrap_or_default();
        for level in levels {
            let account = self.accounts.get(level.scope).unwrap_or(&nothing);
            let rest = |kind| {
                let limit = level.budget.limit(kind)?;
                Some(limit.saturating_sub(account.total().of(kind)))
            };
            let mut cost = level.budget.cost.clone();
            if let (Some(cost), Some(nanos)) = (&mut cost, rest(BudgetKind::Cost)) {
                cost.nanos = nanos;
            }
            left = left.and(Budget {
                name: level.budget.name.clone(),
                tokens: rest(BudgetKind::Tokens),
                cost,
                calls: rest(BudgetKind::Calls),
                time_ms: None,
                until: level.budget.deadline(account.since.unwrap_or(now)),
            });
        }
        left
    }

    /// The refusal of a call of which nobody can say what it will take of this kind.
    pub(crate) fn unknown(&self, level: &Level<'_>, kind: BudgetKind, why: String) -> OverBudget {
        let nothing = Account::default();
        let account = self.accounts.get(level.scope).unwrap_or(&nothing);
        OverBudget { why: Some(why), ..account.over(level, kind, None) }
    }
}

/// Whether there is enough for a call.
enum Room {
    Enough,
    /// When others give back what they reserved.
    Perhaps,
    Never,
}

impl Account {
    fn total(&self) -> Spend {
        self.spent.plus(self.open).plus(self.held)
    }

    fn as_used(&self, scope: &str) -> BudgetUse {
        BudgetUse {
            scope: scope.to_owned(),
            budget: self.budget.clone(),
            since: self.since,
            spent: self.spent,
            reserved: self.open.plus(self.held),
        }
    }

    fn has(&self, level: &Level<'_>, kind: BudgetKind, need: u64) -> Room {
        let Some(limit) = level.budget.limit(kind).filter(|_| need > 0) else { return Room::Enough };
        let surely = self.spent.plus(self.held).of(kind).saturating_add(need);
        if surely > limit {
            Room::Never
        } else if surely.saturating_add(self.open.of(kind)) > limit {
            Room::Perhaps
        } else {
            Room::Enough
        }
    }

    fn over(&self, level: &Level<'_>, kind: BudgetKind, needed: Option<u64>) -> OverBudget {
        OverBudget {
            budget: name_of(level),
            kind,
            limit: level.budget.limit(kind).unwrap_or_default(),
            spent: self.spent.of(kind),
            reserved: self.open.plus(self.held).of(kind),
            needed,
            why: None,
        }
    }
}

fn name_of(level: &Level<'_>) -> String {
    level.budget.name.clone().unwrap_or_else(|| level.scope.to_owned())
}

fn over_time(level: &Level<'_>, since: Timestamp, deadline: Timestamp, now: Timestamp) -> OverBudget {
    let length =
        |until: Timestamp| u64::try_from(until.duration_since(since).as_millis()).unwrap_or_default();
    OverBudget {
        budget: name_of(level),
        kind: BudgetKind::Time,
        limit: length(deadline),
        spent: length(now),
        reserved: 0,
        needed: None,
        why: None,
    }
}

/// The refusal of a call that was under way when the time of a budget of `levels` ended.
pub(crate) fn out_of_time(spending: &Spending, levels: &[Level<'_>], now: Timestamp) -> Option<OverBudget> {
    match spending.decide(levels, Spend::default(), now) {
        Decision::Over(over) => Some(over),
        Decision::Granted { .. } | Decision::Wait => None,
    }
}

#[cfg(test)]
mod tests;
