//! Stubs of steps: what happens in place of their bodies, and what their probes find.
//!
//! Promise: answers in order come before the answer for all calls, whichever is added first.

use std::sync::Arc;

use aether_core::definition::def::Probe;
use aether_core::payload::Payload;
use aether_core::step::Step;
use aether_core::step::StepCx;
use aether_core::workflow::Workflow;
use futures_util::future::BoxFuture;

use super::sim::Sim;
use crate::sim::script::answers::{ProbeStub, Sends};
use crate::sim::script::behaviour::Behaviour;
use aether_core::step::encode_result;

/// Stubs of steps.
impl<W: Workflow> Sim<W> {
    fn then<S: Step>(self, behaviour: Behaviour) -> Self {
        self.script(|scripts| scripts.of::<S>().then = Some(behaviour))
    }

    /// Answers every call of `S` that has no answer of its own. The closure gets the arguments, owned: one value, or a
    /// tuple of several.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// # #[step(effect = "tool")] async fn send(cx: &mut StepCx, to: &str, text: String) -> Result<usize> { unreachable!() }
    /// # #[workflow] async fn greet(cx: &mut Cx) -> Result<usize> { Ok(send(cx, "ann", "hello".into()).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let sim = Sim::new::<greet>().stub::<send>(|(to, text)| Ok(to.len() + text.len()));
    /// assert_eq!(sim.run(()).await.assert_completed(), &8);
    /// # }
    /// ```
    pub fn stub<S: Step>(
        self,
        answer: impl Fn(S::Args) -> Result<S::Output, S::Error> + Send + Sync + 'static,
    ) -> Self {
        self.then::<S>(Behaviour::typed::<S>(answer))
    }

    /// Like [`Sim::stub`], with a closure that returns a boxed future and also gets the body's context. It may wait
    /// with `tokio::time::sleep`, in virtual time.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// # use std::time::Duration;
    /// # #[step(effect = "read")] async fn look_up(cx: &mut StepCx, word: String) -> Result<u32> { unreachable!() }
    /// # #[workflow] async fn ask(cx: &mut Cx) -> Result<u32> { Ok(look_up(cx, "bell".into()).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let sim = Sim::new::<ask>().stub_async::<look_up>(|_cx, word| {
    ///     Box::pin(async move {
    ///         tokio::time::sleep(Duration::from_secs(3600)).await;
    ///         Ok(word.len() as u32)
    ///     })
    /// });
    /// sim.run(()).await.assert_took(Duration::from_secs(3600));
    /// # }
    /// ```
    pub fn stub_async<S: Step>(
        self,
        answer: impl Fn(StepCx, S::Args) -> BoxFuture<'static, Result<S::Output, S::Error>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.then::<S>(Behaviour::typed_async::<S>(answer))
    }

    /// Answers the next calls of `S` in order; calls after them go to [`Sim::stub`] if there is one. A call whose
    /// answer was lost in a crash gets the same one again.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// # #[step(effect = "read")] async fn look_up(cx: &mut StepCx, word: String) -> Result<u32> { unreachable!() }
    /// # #[workflow] async fn ask(cx: &mut Cx) -> Result<u32> { Ok(look_up(cx, "bell".into()).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let sim = Sim::new::<ask>().stub_seq::<look_up>(vec![Err(Failure::retryable("busy")), Ok(4)]);
    /// let report = sim.run(()).await;
    /// assert_eq!(report.assert_completed(), &4);
    /// report.assert_calls::<look_up>(2);
    /// # }
    /// ```
    pub fn stub_seq<S: Step>(self, answers: Vec<Result<S::Output, S::Error>>) -> Self {
        let answers = answers.into_iter().map(|answer| Behaviour::fixed(encode_result::<S>(answer)));
        self.script(|scripts| scripts.of::<S>().first.extend(answers))
    }

    /// Lets the next `times` calls of `S` fail with `error`; calls after them go to [`Sim::stub`] and the like.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// # #[step(effect = "read")] async fn look_up(cx: &mut StepCx, word: String) -> Result<u32> { unreachable!() }
    /// # #[workflow] async fn ask(cx: &mut Cx) -> Result<u32> { Ok(look_up(cx, "bell".into()).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let sim = Sim::new::<ask>().fail_times::<look_up>(2, Failure::retryable("busy")).stub::<look_up>(|_| Ok(4));
    /// sim.run(()).await.assert_calls::<look_up>(3);
    /// # }
    /// ```
    pub fn fail_times<S: Step>(self, times: usize, error: S::Error) -> Self {
        let failure = Behaviour::fixed(encode_result::<S>(Err(error)));
        self.script(|scripts| scripts.of::<S>().first.extend(std::iter::repeat_n(failure, times)))
    }

    /// Lets the body of `S` panic with this message at every call that has no answer of its own.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// # #[step(effect = "read")] async fn look_up(cx: &mut StepCx, word: String) -> Result<u32> { unreachable!() }
    /// # #[workflow] async fn ask(cx: &mut Cx) -> Result<u32> { Ok(look_up(cx, "bell".into()).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let report = Sim::new::<ask>().panics::<look_up>("index out of bounds").run(()).await;
    /// assert!(report.assert_failed().to_string().contains("index out of bounds"));
    /// # }
    /// ```
    pub fn panics<S: Step>(self, message: impl Into<String>) -> Self {
        self.then::<S>(Behaviour::panics(message.into()))
    }

    /// Lets the outcome of `S` be unknown: its body never comes back, or says that it does not know where the step
    /// has no timeout. The step's `on_unknown` policy decides what follows.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// # #[step(effect = "tool")] async fn pay(cx: &mut StepCx, cents: u32) -> Result<u32> { unreachable!() }
    /// # #[workflow] async fn buy(cx: &mut Cx) -> Result<u32> { Ok(pay(cx, 5).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let report = Sim::new::<buy>().in_doubt::<pay>().run(()).await;
    /// report.assert_failed();
    /// report.assert_in_doubt::<pay>(1);
    /// # }
    /// ```
    ///
    /// # Panics
    /// When `S` changes nothing in the world, so that it cannot be in doubt.
    #[track_caller]
    pub fn in_doubt<S: Step>(self) -> Self {
        self.then::<S>(Behaviour::in_doubt::<S>())
    }

    /// Lets the body of `S` not come back within its timeout.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// # #[step(effect = "read", timeout = "30s")] async fn look_up(cx: &mut StepCx, word: String) -> Result<u32> { unreachable!() }
    /// # #[workflow] async fn ask(cx: &mut Cx) -> Result<u32> { Ok(look_up(cx, "bell".into()).await.unwrap_or(0)) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let report = Sim::new::<ask>().times_out::<look_up>().run(()).await;
    /// assert!(report.slept >= std::time::Duration::from_secs(30));
    /// # }
    /// ```
    ///
    /// # Panics
    /// When `S` has no timeout, so that it would be waited for without end.
    #[track_caller]
    pub fn times_out<S: Step>(self) -> Self {
        self.then::<S>(Behaviour::times_out::<S>())
    }

    /// Lets the stubs of `S` send items to the stream `name` of the run before they answer, however they answer then. May be
    /// called for several streams. The closure gets the arguments. A stub that sends while it waits is one of
    /// [`Sim::stub_async`], whose context has a `stream(name)`; and real bodies send what they send.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// # #[step(effect = "read")] async fn copy(cx: &mut StepCx, rows: u32) -> Result<u32> { unreachable!() }
    /// # #[workflow] async fn move_out(cx: &mut Cx) -> Result<u32> { Ok(copy(cx, 300).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let sim = Sim::new::<move_out>().streams::<copy, _>("copied", |rows| [100, 200, rows]).stub::<copy>(Ok);
    /// assert_eq!(sim.run(()).await.stream::<u32>("copied").items(), [&100, &200, &300]);
    /// # }
    /// ```
    pub fn streams<S: Step, I>(self, name: &str, items: impl Fn(S::Args) -> I + Send + Sync + 'static) -> Self
    where
        I: IntoIterator<Item: serde::Serialize>,
    {
        let items = move |args: &Payload| {
            let items = items(S::decode(args)?).into_iter();
            items.map(|item| Payload::encode(&item)).collect::<Result<Vec<_>, _>>()
        };
        let sends = Sends { stream: name.to_owned(), items: Arc::new(items) };
        self.script(|scripts| scripts.script(S::DEF.path).sends.push(sends))
    }

    /// Answers the probe of `S`. Without it, the probe of a stubbed step finds what the stub did: that the call happened
    /// with the stub's value, that it did not, or, for a stub in doubt, that it cannot be told.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// # async fn was_paid(cx: &mut StepCx, cents: u32) -> Result<Probe<u32>> { unreachable!() }
    /// # #[step(effect = "tool", probe = was_paid)] async fn pay(cx: &mut StepCx, cents: u32) -> Result<u32> { unreachable!() }
    /// # #[workflow] async fn buy(cx: &mut Cx) -> Result<u32> { Ok(pay(cx, 5).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let sim = Sim::new::<buy>().in_doubt::<pay>().stub_probe::<pay>(|cents| Probe::Happened(cents * 10));
    /// assert_eq!(sim.run(()).await.assert_completed(), &50);
    /// # }
    /// ```
    pub fn stub_probe<S: Step>(
        self,
        look: impl Fn(S::Args) -> Probe<S::Output> + Send + Sync + 'static,
    ) -> Self {
        let stub = ProbeStub::Answer(Arc::new(move |args| {
            Ok(Ok(match look(S::decode(args)?) {
                Probe::Happened(value) => Probe::Happened(Payload::encode(&value)?),
                Probe::DidNotHappen => Probe::DidNotHappen,
                Probe::Unknown => Probe::Unknown,
            }))
        }));
        self.script(|scripts| scripts.probe::<S>(stub))
    }

    /// Lets the probe of `S` look for real, while its body is stubbed.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// /// Look into the cash register.
    /// async fn was_paid(cx: &mut StepCx, cents: u32) -> Result<Probe<u32>> {
    ///     Ok(Probe::Happened(cents))
    /// }
    /// # #[step(effect = "tool", probe = was_paid)] async fn pay(cx: &mut StepCx, cents: u32) -> Result<u32> { unreachable!() }
    /// # #[workflow] async fn buy(cx: &mut Cx) -> Result<u32> { Ok(pay(cx, 5).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let sim = Sim::new::<buy>().in_doubt::<pay>().real_probe::<pay>();
    /// assert_eq!(sim.run(()).await.assert_completed(), &5);
    /// # }
    /// ```
    pub fn real_probe<S: Step>(self) -> Self {
        self.script(|scripts| scripts.probe::<S>(ProbeStub::Real))
    }

    /// Runs the real body of `S`, and where it has a probe the real probe. On the virtual clock every wait for something
    /// outside of the simulation, such as a network, lets the step's timeout pass at once.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// # #[workflow] async fn ask(cx: &mut Cx) -> Result<usize> { Ok(count(cx, "bell".into()).await?) }
    /// #[step(effect = "read")]
    /// async fn count(cx: &mut StepCx, word: String) -> Result<usize> {
    ///     Ok(word.len())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// assert_eq!(Sim::new::<ask>().real::<count>().run(()).await.assert_completed(), &4);
    /// # }
    /// ```
    pub fn real<S: Step>(self) -> Self {
        self.then::<S>(Behaviour::Real).script(|scripts| scripts.look_for_real::<S>())
    }
}
