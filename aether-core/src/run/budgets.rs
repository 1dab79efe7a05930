//! The budgets of a run while it is advanced: reserving for a call or a child run, and giving back.
//!
//! Promise: what a reservation rests on is looked at and changed under one lock, so calls side by side cannot take the same
//! rest of a budget; the decision is recorded with the call, and a replay only reads it.

use std::sync::Arc;

use jiff::Timestamp;

use crate::journal::event::Event;
use crate::journal::event::reserved::{CarriedSpend, Reserved};
use crate::journal::spending::{Decision, Level, RUN, Spending, out_of_time};
use crate::run::claim::Run;
use crate::vocabulary::budget::{Budget, BudgetKind, BudgetScope, OverBudget, Spend, chain};
use crate::vocabulary::id::{CommandId, RunId};

/// What became of a grant to a child run.
#[derive(Debug)]
pub(crate) enum Grant {
    /// The child's budget, and what is reserved for it; neither where nothing is limited.
    Made(Option<Budget>, Option<Reserved>),
    /// There may be something to grant when others give back what they reserved.
    Wait,
    /// Nothing is left to grant.
    Over(OverBudget),
}

/// A child that is to be granted a budget.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrantTo<'a> {
    pub(crate) command: &'a CommandId,
    pub(crate) child: &'a RunId,
    pub(crate) unawaited: bool,
    /// What the workflow wants to grant it at most.
    pub(crate) asked: Option<&'a Budget>,
}

impl Run {
    /// Looks at the run's budgets, with those that hold for a call; `None` where none does.
    fn with_budgets<T>(
        &self,
        innermost: Option<&Arc<BudgetScope>>,
        with: impl FnOnce(&mut Spending, &[Level<'_>]) -> T,
    ) -> Option<T> {
        let mut state = self.lock();
        let of_run = state.spending.of_run().cloned();
        let mut levels: Vec<_> =
            chain(innermost).map(|scope| Level { scope: &scope.place, budget: &scope.budget }).collect();
        levels.extend(of_run.as_ref().map(|budget| Level { scope: RUN, budget }));
        (!levels.is_empty()).then(|| with(&mut state.spending, &levels))
    }

    /// The currencies of the budgets that hold for a call; `None` where none does.
    pub(crate) fn currencies(&self, innermost: Option<&Arc<BudgetScope>>) -> Option<Vec<String>> {
        self.with_budgets(innermost, |_, levels| {
            let costs = levels.iter().filter_map(|level| level.budget.cost.as_ref());
            let mut currencies: Vec<_> = costs.map(|cost| cost.currency.clone()).collect();
            currencies.dedup();
            currencies
        })
    }

    /// Reserves what an attempt at `command` may take; `None` where no budget holds for it.
    pub(crate) fn reserve(
        &self,
        command: &CommandId,
        innermost: Option<&Arc<BudgetScope>>,
        need: Spend,
        now: Timestamp,
    ) -> Option<Decision> {
        let mut lost = false;
        let decision = self.with_budgets(innermost, |spending, levels| {
            // The attempt that had it was lost.
            lost = spending.lose(command);
            let decision = spending.decide(levels, need, now);
            if let Decision::Granted { reserved, .. } = &decision {
                spending.reserve(command, Some(reserved), None, false);
            }
            decision
        });
        if lost {
            self.tell_freed();
        }
        decision
    }

    /// The refusal of a call of which nobody can say what it costs.
    pub(crate) fn cost_unknown(
        &self,
        innermost: Option<&Arc<BudgetScope>>,
        why: String,
    ) -> Option<OverBudget> {
        self.with_budgets(innermost, |spending, levels| {
            let level = levels.iter().find(|level| level.budget.cost.is_some())?;
            Some(spending.unknown(level, BudgetKind::Cost, why))
        })
        .flatten()
    }

    /// The budget whose time is over at `now`, of those that hold for a call.
    pub(crate) fn out_of_time(
        &self,
        innermost: Option<&Arc<BudgetScope>>,
        now: Timestamp,
    ) -> Option<OverBudget> {
        self.with_budgets(innermost, |spending, levels| out_of_time(spending, levels, now)).flatten()
    }

    /// When the first of the budgets that hold for a call ends by its time; `None` where none does, or has begun.
    pub(crate) fn deadline(&self, innermost: Option<&Arc<BudgetScope>>) -> Option<Timestamp> {
        self.with_budgets(innermost, |spending, levels| spending.deadline(levels)).flatten()
    }

    /// What a call has reserved, in this process or in a former one.
    pub(crate) fn reserved_by(&self, command: &CommandId) -> Option<Reserved> {
        self.lock().spending.reserved_by(command)
    }

    /// Grants a child run what is left.
    pub(crate) fn grant(
        &self,
        innermost: Option<&Arc<BudgetScope>>,
        to: GrantTo<'_>,
        now: Timestamp,
    ) -> Grant {
        let granted = self.with_budgets(innermost, |spending, levels| {
            let left = spending.left(levels, to.asked, now);
            let limited = |kind| levels.iter().any(|level| level.budget.limit(kind).is_some());
            // A child that may take nothing is not started.
            let need = |kind| if limited(kind) { left.limit(kind).unwrap_or(0).max(1) } else { 0 };
            let need = Spend {
                calls: need(BudgetKind::Calls),
                tokens: need(BudgetKind::Tokens),
                cost_nanos: need(BudgetKind::Cost),
            };
            match spending.decide(levels, need, now) {
                Decision::Granted { reserved, .. } => {
                    spending.reserve(to.command, Some(&reserved), Some(to.child), to.unawaited);
                    Grant::Made(Some(left), Some(reserved))
                }
                Decision::Wait => Grant::Wait,
                Decision::Over(over) => Grant::Over(over),
            }
        });
        granted.unwrap_or_else(|| Grant::Made(to.asked.cloned(), None))
    }

    /// Whether a part of a budget is reserved for this child run.
    pub(crate) fn has_granted(&self, child: &RunId) -> bool {
        self.lock().spending.has_granted(child)
    }

    /// Takes in events that are appended: those that say when budgets began, and those that end reservations. Wakes the calls
    /// that wait for what these give back.
    pub(super) fn note_spent(&self, events: &[Event]) {
        let ended = {
            let mut state = self.lock();
            events.iter().for_each(|event| state.spending.record(event));
            events.iter().filter(|event| state.spending.settle(event)).count() > 0
        };
        if ended {
            self.tell_freed();
        }
    }

    /// Lets the calls look again that wait for a part of a budget.
    fn tell_freed(&self) {
        self.freed.notify_waiters();
        self.root().wake();
    }

    /// Waits until a reservation ends. Create it before looking at what is left.
    pub(crate) fn freed(&self) -> tokio::sync::futures::Notified<'_> {
        self.freed.notified()
    }

    /// What the run's own budget has taken, for the generation after this one.
    pub(crate) fn carried_spend(&self) -> Option<CarriedSpend> {
        self.lock().spending.carried()
    }
}
