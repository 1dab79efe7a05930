//! Answers to calls with certain arguments.
//!
//! Promise: of all answers for a step, the first whose arguments fit and which is not used up is given; a call that none
//! fits goes to the step's stub, and without one ends the simulation.

use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;

use aether_core::step::Step;
use aether_core::workflow::Workflow;

use super::sim::Sim;
use crate::sim::script::answers::{Answers, Fits, Matcher};
use crate::sim::script::behaviour::Behaviour;
use aether_core::step::encode_result;

/// Answers to the calls of `S` whose arguments fit, under construction; see [`Sim::when`].
///
/// Each method ends the sentence and returns the simulation, so that another `when` can follow.
///
/// ```
/// # use aether::prelude::*;
/// # use aether_testing::Sim;
/// # #[step(effect = "tool", timeout = "30s")] async fn send(cx: &mut StepCx, to: String) -> Result<u32> { unreachable!() }
/// # #[workflow] async fn mail(cx: &mut Cx, to: String) -> Result<u32> { Ok(send(cx, to).await?) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let sim = Sim::new::<mail>()
///     .when::<send>(|to| to == "ann").stub(|_| Ok(1))
///     .when::<send>(|to| to == "bob").stub_seq(vec![Err(Failure::permanent("no such user")), Ok(2)])
///     .when::<send>(|to| to == "eve").times_out()
///     .when::<send>(|to| to == "joe").in_doubt()
///     .when::<send>(|to| to.is_empty()).panics("an empty address");
/// assert_eq!(sim.run("ann".into()).await.assert_completed(), &1);
/// assert!(sim.run("bob".into()).await.assert_failed().to_string().contains("no such user"));
/// sim.run("eve".into()).await.assert_in_doubt::<send>(1);
/// sim.run("joe".into()).await.assert_in_doubt::<send>(1);
/// assert!(sim.run("".into()).await.assert_failed().to_string().contains("an empty address"));
/// # }
/// ```
#[must_use = "say what the calls are answered with, for example `.stub(|args| ..)`"]
pub struct When<W, S> {
    sim: Sim<W>,
    fits: Fits,
    at: &'static Location<'static>,
    step: PhantomData<fn() -> S>,
}

/// Answers to calls with certain arguments.
impl<W: Workflow> Sim<W> {
    /// Begins an answer to the calls of `S` with arguments that `fits` takes. The first one that fits and is not used up
    /// counts; all other calls go to [`Sim::stub`] and the like.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// # #[step(effect = "read")] async fn look_up(cx: &mut StepCx, word: &str) -> Result<u32> { unreachable!() }
    /// # #[workflow] async fn sum(cx: &mut Cx) -> Result<u32> { Ok(look_up(cx, "a").await? + look_up(cx, "bcd").await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let sim = Sim::new::<sum>()
    ///     .when::<look_up>(|word| word == "a").fail_times(2, Failure::retryable("busy"))
    ///     .when::<look_up>(|word| word == "a").stub(|_| Ok(100))
    ///     .stub::<look_up>(|word| Ok(word.len() as u32));
    /// let report = sim.run(()).await;
    /// assert_eq!(report.assert_completed(), &103);
    /// report.assert_calls::<look_up>(4);
    /// # }
    /// ```
    #[track_caller]
    pub fn when<S: Step>(self, fits: impl Fn(&S::Args) -> bool + Send + Sync + 'static) -> When<W, S> {
        let fits: Fits = Arc::new(move |args| S::decode(args).map(|args| fits(&args)));
        When { sim: self, fits, at: Location::caller(), step: PhantomData }
    }
}

impl<W: Workflow, S: Step> When<W, S> {
    /// Answers every such call; see [`Sim::stub`].
    pub fn stub(
        self,
        answer: impl Fn(S::Args) -> Result<S::Output, S::Error> + Send + Sync + 'static,
    ) -> Sim<W> {
        self.then(Behaviour::typed::<S>(answer))
    }

    /// Answers the next such calls in order; after them others may fit. See [`Sim::stub_seq`].
    pub fn stub_seq(self, answers: Vec<Result<S::Output, S::Error>>) -> Sim<W> {
        let first = answers.into_iter().map(|answer| Behaviour::fixed(encode_result::<S>(answer))).collect();
        self.add(Answers { first, then: None })
    }

    /// Lets the next `times` such calls fail; see [`Sim::fail_times`].
    pub fn fail_times(self, times: usize, error: S::Error) -> Sim<W> {
        let failure = Behaviour::fixed(encode_result::<S>(Err(error)));
        self.add(Answers { first: vec![failure; times], then: None })
    }

    /// Lets the body panic at such calls; see [`Sim::panics`].
    pub fn panics(self, message: impl Into<String>) -> Sim<W> {
        self.then(Behaviour::panics(message.into()))
    }

    /// Lets the outcome of such calls be unknown; see [`Sim::in_doubt`].
    ///
    /// # Panics
    /// When `S` changes nothing in the world, so that it cannot be in doubt.
    #[track_caller]
    pub fn in_doubt(self) -> Sim<W> {
        self.then(Behaviour::in_doubt::<S>())
    }

    /// Lets the body not come back within its timeout; see [`Sim::times_out`].
    ///
    /// # Panics
    /// When `S` has no timeout.
    #[track_caller]
    pub fn times_out(self) -> Sim<W> {
        self.then(Behaviour::times_out::<S>())
    }

    /// Runs the real body at such calls; see [`Sim::real`].
    pub fn real(self) -> Sim<W> {
        self.then(Behaviour::Real).script(|scripts| scripts.look_for_real::<S>())
    }

    fn then(self, behaviour: Behaviour) -> Sim<W> {
        self.add(Answers { first: Vec::new(), then: Some(behaviour) })
    }

    fn add(self, answers: Answers) -> Sim<W> {
        let Self { sim, fits, at, .. } = self;
        sim.script(|scripts| scripts.script(S::DEF.path).matchers.push(Matcher { fits, answers, at }))
    }
}

impl<W, S: Step> std::fmt::Debug for When<W, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "When({}, {})", S::DEF.name, self.at)
    }
}
