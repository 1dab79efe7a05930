//! People and other systems: who approves, decides and answers, and which signals and reports come from outside.
//!
//! Promise: nobody decides, answers or sends anything that the test did not plan.

use std::sync::Arc;
use std::time::Duration;

use aether_core::definition::def::{OnUnknown, Probe};
use aether_core::inbox::Resolution;
use aether_core::payload::Payload;
use aether_core::policy::Approvals;
use aether_core::step::Step;
use aether_core::workflow::Workflow;
use serde::Serialize;
use serde_json::Value;

use super::sim::Sim;
use crate::sim::script::behaviour::Behaviour;
use crate::sim::script::people::{
    AnswerFn, PeoplePlan, PlannedCancel, PlannedDecision, PlannedSignal, ResolveFn,
};

/// People and other systems.
impl<W: Workflow> Sim<W> {
    fn people(self, change: impl FnOnce(&mut PeoplePlan)) -> Self {
        self.with(|settings| change(&mut settings.people))
    }

    fn by_step<S: Step>(self, decision: PlannedDecision) -> Self {
        self.people(|people| drop(people.by_step.insert(S::DEF.path.into(), decision)))
    }

    fn by_text(self, what: impl Into<String>, decision: PlannedDecision) -> Self {
        self.people(|people| drop(people.by_text.insert(what.into(), decision)))
    }

    /// `actor` agrees to every call of `S` that needs consent.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// #[step(effect = "tool", approval = "required")]
    /// async fn pay(cx: &mut StepCx, cents: u32) -> Result<u32> {
    ///     unreachable!("a simulation calls the stub")
    /// }
    ///
    /// # #[workflow] async fn buy(cx: &mut Cx) -> Result<u32> { Ok(pay(cx, 8).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let sim = Sim::new::<buy>().stub::<pay>(Ok);
    /// let report = sim.clone().approves::<pay>("ann").run(()).await;
    /// assert_eq!(report.assert_completed(), &8);
    ///
    /// let report = sim.clone().edits::<pay>(|cents| cents / 2).run(()).await;
    /// assert_eq!(report.assert_completed(), &4);
    ///
    /// let report = sim.rejects::<pay>("too much").run(()).await;
    /// assert!(report.assert_failed().to_string().contains("too much"));
    /// report.assert_calls::<pay>(0);
    /// # }
    /// ```
    pub fn approves<S: Step>(self, actor: impl Into<String>) -> Self {
        self.by_step::<S>(PlannedDecision::Approve { actor: actor.into() })
    }

    /// A person agrees to every call of `S` that needs consent, with other arguments. There is an example at
    /// [`Sim::approves`].
    pub fn edits<S: Step>(self, edit: impl Fn(S::Args) -> S::Args + Send + Sync + 'static) -> Self {
        let edit = move |args: &Payload| S::encode(&edit(S::decode(args)?));
        self.by_step::<S>(PlannedDecision::Edit(Arc::new(edit)))
    }

    /// A person refuses every call of `S` that needs consent. There is an example at [`Sim::approves`].
    pub fn rejects<S: Step>(self, reason: impl Into<String>) -> Self {
        self.by_step::<S>(PlannedDecision::Reject { reason: reason.into() })
    }

    /// Nobody decides about calls of `S` that need consent: the request expires, or the simulation ends with
    /// [`SimError::Unfinished`](crate::SimError::Unfinished). For everything else that a run may ask there is
    /// [`Sim::nobody_answers`].
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether::people::Approvals;
    /// # use aether_testing::Sim;
    /// # use std::time::Duration;
    /// # #[step(effect = "tool", approval = "required")] async fn pay(cx: &mut StepCx, cents: u32) -> Result<u32> { unreachable!() }
    /// # #[workflow] async fn buy(cx: &mut Cx) -> Result<u32> { Ok(pay(cx, 8).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let day = Duration::from_secs(24 * 3600);
    /// let sim = Sim::new::<buy>().approvals(Approvals::new().expires(day)).silent::<pay>();
    /// let report = sim.run(()).await;
    /// report.assert_failed();
    /// report.assert_took(day);
    /// # }
    /// ```
    pub fn silent<S: Step>(self) -> Self {
        self.by_step::<S>(PlannedDecision::Silent)
    }

    /// Nobody decides or answers what this simulation does not script: requests expire, or lose a race. Without it, a run
    /// that ends while nobody responded to an approval or a question fails the test with
    /// [`SimError::Unanswered`](crate::SimError::Unanswered), as somebody may have been forgotten. A simulation with
    /// [`Sim::meanwhile`] is not checked: its closure may respond.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::{Sim, SimError};
    /// # use std::time::Duration;
    /// const DAY: Duration = Duration::from_secs(24 * 3600);
    ///
    /// #[workflow]
    /// async fn refund(cx: &mut Cx) -> Result<bool> {
    ///     Ok(cx.approval("refund over limit").expires(DAY).await?.granted().is_ok())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let forgotten = Sim::new::<refund>().try_run(()).await.unwrap_err();
    /// assert!(matches!(forgotten, SimError::Unanswered { .. }));
    ///
    /// let report = Sim::new::<refund>().nobody_answers().run(()).await;
    /// assert_eq!(report.assert_completed(), &false);
    /// report.assert_took(DAY);
    /// # }
    /// ```
    pub fn nobody_answers(self) -> Self {
        self.people(|people| people.nobody_answers = true)
    }

    /// Asks people before the calls that `approvals` names, beyond those whose steps declare it. There is an example at
    /// [`Sim::silent`].
    pub fn approvals(self, approvals: Approvals) -> Self {
        self.people(|people| people.approvals = approvals)
    }

    /// `actor` agrees to what the workflow asks to decide with `cx.approval(what)`.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether::people::Decision;
    /// # use aether_testing::Sim;
    /// #[workflow]
    /// async fn refund(cx: &mut Cx) -> Result<bool> {
    ///     Ok(matches!(cx.approval("refund over limit").await?, Decision::Approved { .. }))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let granted = Sim::new::<refund>().grants("refund over limit", "ann");
    /// assert_eq!(granted.run(()).await.assert_completed(), &true);
    /// let refused = Sim::new::<refund>().refuses("refund over limit", "not this month");
    /// assert_eq!(refused.run(()).await.assert_completed(), &false);
    /// # }
    /// ```
    pub fn grants(self, what: impl Into<String>, actor: impl Into<String>) -> Self {
        self.by_text(what, PlannedDecision::Approve { actor: actor.into() })
    }

    /// A person refuses what the workflow asks to decide with `cx.approval(what)`. There is an example at
    /// [`Sim::grants`].
    pub fn refuses(self, what: impl Into<String>, reason: impl Into<String>) -> Self {
        self.by_text(what, PlannedDecision::Reject { reason: reason.into() })
    }

    /// Answers the question of `cx.ask(question)`, or of `cx.ask(..).named(question)`. An answer of another type than the
    /// workflow asked for ends the simulation.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// # use serde_json::json;
    /// #[workflow]
    /// async fn book(cx: &mut Cx) -> Result<String> {
    ///     let seats: u32 = cx.ask("How many are you?").await?;
    ///     let name: String = cx.ask(json!({ "field": "name" })).await?;
    ///     let late: bool = cx.ask(format!("Is 22:00 too late, {name}?")).named("late").await?;
    ///     Ok(format!("{seats} for {name}, late: {late}"))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let sim = Sim::new::<book>()
    ///     .answer("How many are you?", 4)
    ///     .answer("late", true)
    ///     .answers(|question| (question["field"] == "name").then_some("Ann"));
    /// assert_eq!(sim.run(()).await.assert_completed(), "4 for Ann, late: true");
    /// # }
    /// ```
    pub fn answer<T: Serialize + Clone + Send + Sync + 'static>(
        self,
        question: impl Into<Value>,
        answer: T,
    ) -> Self {
        let question = question.into();
        let answer: AnswerFn = Arc::new(move |asked, name| {
            let is_it = *asked == question || question.as_str() == Some(name);
            is_it.then(|| Payload::encode(&answer))
        });
        self.people(|people| people.answers.push(answer))
    }

    /// Answers questions of `cx.ask(..)`: the first closure that does not return `None` counts. There is an example at
    /// [`Sim::answer`].
    pub fn answers<T: Serialize>(self, answer: impl Fn(&Value) -> Option<T> + Send + Sync + 'static) -> Self {
        let answer: AnswerFn =
            Arc::new(move |question, _| answer(question).map(|value| Payload::encode(&value)));
        self.people(|people| people.answers.push(answer))
    }

    /// An operator looks what became of a call of `S` whose outcome is unknown and whose step has `on_unknown = "ask"`:
    /// it happened, with this value; it did not, and the step makes another attempt; or it stays unknown, and the step
    /// fails as in doubt.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// #[step(effect = "tool", on_unknown = "ask")]
    /// async fn transfer(cx: &mut StepCx, cents: u32) -> Result<String> {
    ///     unreachable!("a simulation calls the stub")
    /// }
    ///
    /// # #[workflow] async fn pay(cx: &mut Cx) -> Result<String> { Ok(transfer(cx, 500).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let doubt = Sim::new::<pay>().in_doubt::<transfer>();
    /// let happened = doubt.clone().resolves::<transfer>(|cents| Probe::Happened(format!("receipt for {cents}")));
    /// assert_eq!(happened.run(()).await.assert_completed(), "receipt for 500");
    ///
    /// let abandoned = doubt.resolves::<transfer>(|_| Probe::Unknown).run(()).await;
    /// abandoned.assert_failed();
    /// abandoned.assert_in_doubt::<transfer>(1);
    ///
    /// let again = Sim::new::<pay>()
    ///     .stub_seq::<transfer>(vec![Err(Failure::unknown("the bank hung up")), Ok("receipt 2".into())])
    ///     .resolves::<transfer>(|_| Probe::DidNotHappen);
    /// let report = again.run(()).await;
    /// assert_eq!(report.assert_completed(), "receipt 2");
    /// report.assert_calls::<transfer>(2);
    /// # }
    /// ```
    ///
    /// # Panics
    /// When the step does not ask.
    #[track_caller]
    pub fn resolves<S: Step>(
        self,
        found: impl Fn(S::Args) -> Probe<S::Output> + Send + Sync + 'static,
    ) -> Self {
        let name = S::DEF.name;
        let asks = S::DEF.options.on_unknown == OnUnknown::Ask;
        assert!(asks, "step `{name}` asks no operator: add `on_unknown = \"ask\"` to its `#[step]`");
        let resolve: ResolveFn = Arc::new(move |args| {
            Ok(match found(S::decode(args)?) {
                Probe::Happened(value) => Resolution::Happened(Payload::encode(&value)?),
                Probe::DidNotHappen => Resolution::DidNotHappen,
                Probe::Unknown => Resolution::Abandon,
            })
        });
        self.people(|people| drop(people.resolutions.insert(name.into(), resolve)))
    }

    /// How long everybody who is asked takes, in virtual time, from the moment at which they were asked: a crash in
    /// between does not make them begin anew. Default none.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// # use std::time::Duration;
    /// # #[workflow] async fn book(cx: &mut Cx) -> Result<u32> { Ok(cx.ask("How many are you?").await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let hour = Duration::from_secs(3600);
    /// let sim = Sim::new::<book>().answer("How many are you?", 4).people_take(hour);
    /// sim.run(()).await.assert_took(hour);
    /// # }
    /// ```
    pub fn people_take(self, time: Duration) -> Self {
        self.people(|people| people.delay = time)
    }

    /// Sends the run a signal, this long after the simulation's beginning.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// # use std::time::Duration;
    /// # #[workflow] async fn shipped(cx: &mut Cx) -> Result<u32> { Ok(cx.signal("paid").await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let day = Duration::from_secs(24 * 3600);
    /// let report = Sim::new::<shipped>().signal_at(3 * day, "paid", 500).run(()).await;
    /// assert_eq!(report.assert_completed(), &500);
    /// report.assert_took(3 * day);
    /// # }
    /// ```
    pub fn signal_at(self, after: Duration, name: impl Into<String>, value: impl Serialize) -> Self {
        let signal = PlannedSignal { after, name: name.into(), value: Payload::encode(&value) };
        self.people(|people| people.signals.push(signal))
    }

    /// `actor` asks the run to cancel itself, this long after the simulation's beginning.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// # use std::time::Duration;
    /// # #[workflow] async fn nap(cx: &mut Cx) -> Result<()> { cx.sleep(Duration::from_secs(3600)).await; Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let sim = Sim::new::<nap>().cancel_at(Duration::from_secs(60), "no longer needed", "ann");
    /// assert!(sim.run(()).await.assert_failed().to_string().contains("no longer needed"));
    /// # }
    /// ```
    pub fn cancel_at(self, after: Duration, reason: impl Into<String>, actor: impl Into<String>) -> Self {
        let cancel = PlannedCancel { after, reason: reason.into(), actor: actor.into() };
        self.people(|people| people.cancels.push(cancel))
    }

    /// Lets the body of `S` hand its completion over with `cx.callback()`, and reports this outcome so much later.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// # use std::time::Duration;
    /// #[step(effect = "external")]
    /// async fn render(cx: &mut StepCx, scene: u32) -> Result<String> {
    ///     unreachable!("a simulation calls the stub")
    /// }
    ///
    /// # #[workflow] async fn film(cx: &mut Cx) -> Result<String> { Ok(render(cx, 7).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let hour = Duration::from_secs(3600);
    /// let sim = Sim::new::<film>().reports_after::<render>(hour, |scene| Ok(format!("image {scene}")));
    /// let report = sim.run(()).await;
    /// assert_eq!(report.assert_completed(), "image 7");
    /// report.assert_took(hour);
    /// # }
    /// ```
    ///
    /// # Panics
    /// When `S` does not change the world, so that it cannot hand its completion over.
    #[track_caller]
    pub fn reports_after<S: Step>(
        self,
        after: Duration,
        outcome: impl Fn(S::Args) -> Result<S::Output, S::Error> + Send + Sync + 'static,
    ) -> Self {
        let hands_over = Behaviour::hands_over::<S>(after, outcome);
        self.script(|scripts| scripts.of::<S>().then = Some(hands_over))
    }
}
