//! Limits on steps at the effect gate: a call takes its place in the limit that it names, and waits until its time.
//!
//! Promise: a wait is durable and recorded with its end, so a restart takes no second place and a replay takes none; what a
//! provider says about its limits counts for all runs of the store.

use std::time::Duration;

use crate::journal::event::LimitAwaited;
use crate::perform::body_outcome::BodyOutcome;
use crate::perform::call::StepCall;
use crate::run::append::AppendExtras;
use crate::step::body::Estimating;
use crate::step::context::{SlowDown, StepCx};
use crate::store::error::StoreError;
use crate::store::step_limit_rows::{change, find};
use crate::store::step_limits::Taken;
use crate::vocabulary::environment::later;
use crate::vocabulary::net::in_net;

/// How long nothing is sent where a provider says that it is too much, and not until when.
const UNSAID: Duration = Duration::from_secs(1);

impl StepCall {
    /// Waits until the limit that the call names lets it be made. Says whether a wait was recorded for that, here or before.
    pub(crate) async fn await_limit(&mut self) -> bool {
        let Some(name) = self.limit.clone() else { return false };
        let attempt = self.attempt;
        let of_this = |waited: &LimitAwaited| waited.attempt == attempt && waited.limit == *name;
        let recorded = self.limited.take().filter(of_this);
        self.booked = self.tokens_at_most();
        let mut took_another_place = false;
        let mut waited = match recorded {
            Some(waited) => waited,
            None => match self.take_place(&name).await {
                None => return false,
                Some(Taken { wait, .. }) if wait.is_zero() => return false,
                Some(Taken { wait, held_ms }) => self.note_wait(&name, wait, held_ms),
            },
        };
        loop {
            self.wait_until(waited.until).await;
            self.run.still_open().await;
            // Who was told to wait while others were told to wait for longer does so, too, and keeps the distance.
            let Some(bookings) = self.find_limit(&name).await else { return true };
            let late = Duration::try_from(self.run.now().duration_since(waited.until)).unwrap_or_default();
            let (wait, held_ms) = match bookings.longer(waited.held_ms) {
                Some((longer, held_ms)) => (longer.saturating_sub(late), held_ms),
                // Its place is long past: many that come so late would begin at once. Said once, so that a machine that is
                // always late goes on all the same.
                None if late > bookings.late_after() && !took_another_place => {
                    took_another_place = true;
                    match self.take_place(&name).await {
                        Some(Taken { wait, held_ms }) if !wait.is_zero() => (wait, held_ms),
                        _ => return true,
                    }
                }
                None => return true,
            };
            waited = self.note_wait(&name, wait, held_ms);
        }
    }

    /// What an attempt books of a limit on tokens.
    fn tokens_at_most(&self) -> u64 {
        let facts = Estimating { deps: &self.run.shared.deps, currency: None };
        let need = in_net(|| self.body.estimate(&self.args, &facts)).ok().and_then(Result::ok);
        need.map_or(0, |need| need.tokens)
    }

    /// Records the wait.
    fn note_wait(&mut self, limit: &str, wait: Duration, held_ms: u64) -> LimitAwaited {
        let waited = LimitAwaited {
            command: self.command.clone(),
            attempt: self.attempt,
            limit: limit.to_owned(),
            until: later(self.run.now(), wait),
            held_ms,
        };
        let mut events = self.start_events();
        events.push(waited.clone().into());
        self.run.append(events, AppendExtras::default());
        waited
    }

    /// Books the attempt; `None` where there is no such limit.
    async fn take_place(&mut self, name: &str) -> Option<Taken> {
        let (_in_flight, run, tokens) = (self.run.in_flight(), &self.run, self.booked);
        let _in_turn = run.shared.booking.write().await;
        run.insist(|| Box::pin(change(&*run.shared.store, name, |bookings| bookings.take(run.now(), tokens))))
            .await
    }

    async fn find_limit(&self, name: &str) -> Option<crate::store::step_limits::Bookings> {
        let (_in_flight, run) = (self.run.in_flight(), &self.run);
        run.insist(|| Box::pin(find(&*run.shared.store, name))).await
    }

    /// For how long the provider wants to be left alone, as the attempt says that ended so.
    pub(crate) fn slow_down(&self, cx: &StepCx, ended: &BodyOutcome) -> Option<Duration> {
        match (cx.take_slow_down(), ended) {
            (Some(SlowDown(asked)), _) => Some(asked.unwrap_or(UNSAID)),
            // What was not sent was told nothing new.
            (None, ended) if self.said.is_none_or(|said| said.calls != Some(0)) => {
                ended.said(&self.options).retry_after
            }
            _ => None,
        }
    }

    /// Tells the limit what the attempt took, and for how long the provider wants to be left alone. It is a matter of
    /// courtesy: where the store cannot be asked, the limit is kept by what was booked.
    pub(crate) async fn tell_limit(&mut self, asked: Option<Duration>) {
        let Some(name) = self.limit.clone() else { return };
        let took = self.said.and_then(|said| said.tokens).filter(|took| *took != self.booked);
        if asked.is_none() && took.is_none() {
            return;
        }
        let (_in_flight, run, booked) = (self.run.in_flight(), &self.run, self.booked);
        let begun = self.took();
        let _in_turn = run.shared.booking.write().await;
        let told = change(&*run.shared.store, &name, |bookings| {
            if let Some(took) = took {
                bookings.correct(run.now(), booked, took, begun);
            }
            if let Some(asked) = asked {
                bookings.hold(run.now(), asked);
            }
        });
        let told: Result<Option<()>, StoreError> = told.await;
        if let Err(error) = told {
            tracing::warn!(target: "aether::step", run = %run.id, limit = &*name, %error, "a limit was not told what a call took");
        }
    }
}
