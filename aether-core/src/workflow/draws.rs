//! Time, chance and sleep: what a workflow takes from its surroundings without a step.
//!
//! Promise: each value is recorded when it is drawn, and every replay sees the same; a restart does not begin a wait anew.

use std::time::Duration;

use jiff::Timestamp;

use crate::journal::event::{RandomRecorded, TimeRecorded, TimerFired, TimerScheduled, UuidRecorded};
use crate::journal::history::record::RecordedResult;
use crate::run::append::AppendExtras;
use crate::run::claim::Run;
use crate::run::matcher::Matched;
use crate::vocabulary::environment::later;
use crate::vocabulary::outcome::EffectClass;
use crate::vocabulary::payload::Payload;
use crate::workflow::context::Cx;
use crate::workflow::gate::BoxEffect;

impl Cx {
    /// The current time. Recorded: every replay sees the same.
    ///
    /// ```
    /// # use aether_core::workflow::Cx;
    /// # async fn workflow(cx: &mut Cx) {
    /// let opened: jiff::Timestamp = cx.now().await;
    /// # }
    /// ```
    pub fn now(&mut self) -> BoxEffect<'_, Timestamp> {
        let ticket = self.ticket("now");
        let command = ticket.command.clone();
        BoxEffect::boxed(ticket.draw(
            EffectClass::Time,
            |answer| if let RecordedResult::Time(value) = answer { Some(value) } else { None },
            |run| {
                let value = run.now();
                (value, TimeRecorded { command, value }.into())
            },
        ))
    }

    /// A new random UUID (version 4). Recorded: every replay sees the same.
    ///
    /// ```
    /// # use aether_core::workflow::Cx;
    /// # async fn workflow(cx: &mut Cx) {
    /// let ticket = cx.uuid().await.to_string();
    /// # }
    /// ```
    pub fn uuid(&mut self) -> BoxEffect<'_, uuid::Uuid> {
        let ticket = self.ticket("uuid");
        let command = ticket.command.clone();
        BoxEffect::boxed(ticket.draw(
            EffectClass::Uuid,
            |answer| if let RecordedResult::Uuid(value) = answer { Some(value) } else { None },
            |run| {
                let mut bytes = [0; 16];
                run.shared.environment.fill_random(&mut bytes);
                let value = uuid::Builder::from_random_bytes(bytes).into_uuid();
                (value, UuidRecorded { command, value }.into())
            },
        ))
    }

    /// A random number, evenly distributed over all of `u64`. Recorded: every replay sees the same.
    ///
    /// ```
    /// # use aether_core::workflow::Cx;
    /// # async fn workflow(cx: &mut Cx) {
    /// let winner = cx.random().await % 100;
    /// # }
    /// ```
    pub fn random(&mut self) -> BoxEffect<'_, u64> {
        self.random_value("random", |run| {
            let mut bytes = [0; 8];
            run.shared.environment.fill_random(&mut bytes);
            u64::from_be_bytes(bytes)
        })
    }

    /// 32 random bytes, to seed a generator of your own. Recorded: every replay sees the same.
    ///
    /// ```
    /// # use aether_core::workflow::Cx;
    /// # async fn workflow(cx: &mut Cx) {
    /// // With the crate `rand`: `let mut rng = StdRng::from_seed(cx.seed().await);`
    /// let seed: [u8; 32] = cx.seed().await;
    /// # }
    /// ```
    pub fn seed(&mut self) -> BoxEffect<'_, [u8; 32]> {
        self.random_value("seed", |run| {
            let mut bytes = [0; 32];
            run.shared.environment.fill_random(&mut bytes);
            bytes
        })
    }

    fn random_value<T>(&mut self, name: &str, draw: impl Fn(&Run) -> T + Send + 'static) -> BoxEffect<'_, T>
    where
        T: serde::Serialize + serde::de::DeserializeOwned + Send + 'static,
    {
        let ticket = self.ticket(name);
        let command = ticket.command.clone();
        BoxEffect::boxed(ticket.draw(
            EffectClass::Random,
            |answer| if let RecordedResult::Random(value) = answer { value.decode().ok() } else { None },
            move |run| {
                let value = draw(run);
                let recorded = Payload::encode(&value).unwrap_or_else(|_| Payload::null());
                (value, RandomRecorded { command, value: recorded }.into())
            },
        ))
    }

    /// Waits for at least `duration`, durably: a restart does not start the wait again, and a run that only waits uses no
    /// memory.
    ///
    /// ```
    /// # use aether_core::workflow::Cx;
    /// # use std::time::Duration;
    /// # async fn workflow(cx: &mut Cx) {
    /// cx.sleep(Duration::from_secs(7 * 24 * 60 * 60)).await;
    /// # }
    /// ```
    pub fn sleep(&mut self, duration: Duration) -> BoxEffect<'_, ()> {
        self.timer("sleep", move |now| later(now, duration))
    }

    /// Waits until `due`, durably. Returns at once when `due` is past.
    ///
    /// ```
    /// # use aether_core::workflow::Cx;
    /// # use std::time::Duration;
    /// # async fn workflow(cx: &mut Cx) {
    /// let due = cx.now().await + Duration::from_secs(60);
    /// cx.sleep_until(due).await;
    /// # }
    /// ```
    pub fn sleep_until(&mut self, due: Timestamp) -> BoxEffect<'_, ()> {
        self.timer("sleep_until", move |_| due)
    }

    fn timer(
        &mut self,
        name: &str,
        due: impl FnOnce(Timestamp) -> Timestamp + Send + 'static,
    ) -> BoxEffect<'_, ()> {
        let mut ticket = self.ticket(name);
        BoxEffect::boxed(async move {
            let site = ticket.enter().await;
            let (run, command) = (&ticket.run, &ticket.command);
            let due = match run.request(command, EffectClass::Time, None, site.clone()).await {
                Matched::Answered => {
                    let answer = run.next_delivery(command).await.answer;
                    return match answer {
                        Some(RecordedResult::Timer) => (),
                        answer => run.mismatched(command, EffectClass::Time, answer).await,
                    };
                }
                Matched::Begun(record) => {
                    run.wait_for_frontier(command).await;
                    record.details().due.unwrap_or_else(|| run.now())
                }
                Matched::New => {
                    run.wait_for_frontier(command).await;
                    run.apply_backpressure().await;
                    let due = due(run.now());
                    let scheduled = TimerScheduled { command: command.clone(), due, site };
                    run.append(vec![scheduled.into()], AppendExtras::default());
                    due
                }
            };
            {
                let _waiting = run.wait(command.clone(), Some(due));
                run.shared.environment.sleep_until(due).await;
            }
            run.append(vec![TimerFired { command: command.clone() }.into()], AppendExtras::default());
        })
    }
}
