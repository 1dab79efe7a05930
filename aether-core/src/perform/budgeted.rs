//! Budgets at the effect gate: what an attempt may take is reserved before it is made, and what it did not take comes back.
//!
//! Promise: no call that counts goes out without a durable reservation in every budget that holds for it; a call that a
//! budget does not allow is not made, and its error is recorded like any outcome.

use std::sync::Arc;
use std::time::Duration;

use crate::journal::spending::Decision;
use crate::perform::body_outcome::BodyOutcome;
use crate::perform::call::{CountsIn, StepCall};
use crate::step::body::Estimating;
use crate::step::context::StepCx;
use crate::vocabulary::budget::{BudgetScope, OverBudget, Spend};
use crate::vocabulary::failure::StepError;
use crate::vocabulary::net::in_net;
use crate::vocabulary::outcome::Outcome;
use crate::vocabulary::payload::Answered;

impl StepCall {
    /// Reserves what the next attempt may take. Waits where there may be enough once calls in flight have ended.
    ///
    /// # Errors
    /// The recorded answer of the call, where a budget does not have enough.
    pub(crate) async fn reserve(&mut self) -> Result<(), Answered> {
        (self.reserved, self.spent, self.until) = (None, None, None);
        if !self.counts() {
            return Ok(());
        }
        let CountsIn::Budgets(innermost) = self.counts_in.clone() else { return Ok(()) };
        let Some(currencies) = self.run.currencies(innermost.as_ref()) else { return Ok(()) };
        let need = match self.need(&currencies) {
            Ok(need) => need,
            Err(why) => match self.run.cost_unknown(innermost.as_ref(), why) {
                Some(over) => return Err(Box::pin(self.over_budget(over)).await),
                None => Spend::CALL,
            },
        };
        match self.reserved_of(innermost.as_ref(), need).await {
            Some(over) => Err(Box::pin(self.over_budget(over)).await),
            None => Ok(()),
        }
    }

    async fn reserved_of(&mut self, innermost: Option<&Arc<BudgetScope>>, need: Spend) -> Option<OverBudget> {
        loop {
            let run = Arc::clone(&self.run);
            // Before the look: what ends between the look and the wait wakes this call.
            let freed = run.freed();
            match run.reserve(&self.command, innermost, need, run.now()) {
                None => return None,
                Some(Decision::Granted { reserved, until }) => {
                    (self.reserved, self.until) = (Some(reserved), until);
                    return None;
                }
                Some(Decision::Over(over)) => return Some(over),
                // Whoever has what it waits for may wait for its place.
                Some(Decision::Wait) => {
                    self.place = None;
                    freed.await;
                }
            }
            run.still_open().await;
            self.admit(true).await;
        }
    }

    /// What an attempt may take at most, as the body says.
    fn need(&self, currencies: &[String]) -> Result<Spend, String> {
        if let [_, other, ..] = currencies {
            return Err(format!("the budgets around this call are in two currencies, one of them {other}"));
        }
        let facts =
            Estimating { deps: &self.run.shared.deps, currency: currencies.first().map(String::as_str) };
        in_net(|| self.body.estimate(&self.args, &facts))?
    }

    /// Records that the call was not made.
    async fn over_budget(&mut self, over: OverBudget) -> Answered {
        let error = StepError::OverBudget(over);
        self.commit_failure(Outcome::PermanentFailure, &error, None).await
    }

    /// Nothing was sent: what was reserved comes back whole.
    pub(crate) fn spent_nothing(&mut self) {
        self.spent = self.reserved.take().map(|_| Spend::default());
    }

    /// Keeps what the body says that it took. Of a body that did not come back nothing is known.
    pub(crate) fn keep_spent(&mut self, cx: &StepCx, ended: &BodyOutcome) {
        if self.reserved.is_none() && self.limit.is_none() {
            return;
        }
        self.said = match ended {
            BodyOutcome::Value(value) => {
                cx.take_spent().or_else(|| in_net(|| self.body.spent(value)).ok().flatten())
            }
            BodyOutcome::Error(_) | BodyOutcome::Unrecordable(..) => cx.take_spent(),
            _ => None,
        };
        self.spent = self.said.zip(self.reserved.as_ref()).map(|(said, reserved)| said.or(reserved.amount));
    }

    /// Takes up until when the budgets let an attempt begin that an earlier process, or an earlier stay in memory, has made.
    pub(crate) fn take_up_deadline(&mut self) {
        self.until = match &self.counts_in {
            CountsIn::Budgets(innermost) if self.counts() => self.run.deadline(innermost.as_ref()),
            CountsIn::Budgets(_) | CountsIn::Nothing => None,
        };
    }

    /// Whether it counts in budgets.
    fn counts(&self) -> bool {
        // A declaration that panics counts.
        in_net(|| self.body.counts()).unwrap_or(true)
    }

    /// Whether the time of a budget is over: no call begins any more.
    pub(crate) fn is_out_of_time(&self) -> bool {
        self.until.is_some_and(|until| until <= self.run.now())
    }

    /// What is left of the time of the budgets; `None` where they limit none.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        let until = self.until?;
        Some(Duration::try_from(until.duration_since(self.run.now())).unwrap_or_default())
    }

    /// How long the budgets let a body run that changes nothing; `None` where they do not say.
    pub(crate) fn time_in_budget(&self) -> Option<Duration> {
        if self.options.class.changes_world() { None } else { self.time_left() }
    }

    /// What became of a body that was cut off when the time of a budget was over.
    pub(crate) fn out_of_time(&self) -> BodyOutcome {
        let CountsIn::Budgets(innermost) = &self.counts_in else { return BodyOutcome::TimedOut };
        let now = self.until.unwrap_or_else(|| self.run.now()).max(self.run.now());
        match self.run.out_of_time(innermost.as_ref(), now) {
            Some(over) => BodyOutcome::OverBudget(Box::new(over)),
            None => BodyOutcome::TimedOut,
        }
    }
}
