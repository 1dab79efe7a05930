//! Simulated runs: a workflow on the real engine, with stubs for bodies, a clock that skips, and draws from a seed.
//!
//! Promise: engine, journal, ledger and replay are the real ones; only the world is not. A simulation is the same
//! every time, nothing real runs unasked, and waiting takes no time.

mod assertions;
mod audit;
mod boundaries;
mod conversation;
mod crashes;
mod error;
mod faults;
mod http;
mod journal;
mod life;
mod model;
mod orders;
mod people;
mod recorded;
mod report;
mod running;
mod script;
mod stage;
mod twice;
mod when;
mod world;

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use aether_core::confirm::Verifier;
use aether_core::def::Probe;
use aether_core::deps::Deps;
use aether_core::engine::Engine;
use aether_core::failure::Failure;
use aether_core::host::Limits;
use aether_core::id::RunId;
use aether_core::payload::Payload;
use aether_core::step::{Step, Workflow};
use aether_core::step_cx::StepCx;
use aether_core::store::{Store, StoreError};
use aether_core::world::World as _;
use futures_util::future::BoxFuture;
use jiff::Timestamp;

pub use self::conversation::{Reply, call_named, call_tool, say};
pub use self::crashes::CrashReport;
pub use self::error::SimError;
pub use self::faults::FaultReport;
pub use self::http::{Delayed, HttpAnswer, HttpCall, delayed};
pub(crate) use self::life::{runtime, trusting};
pub use self::model::ModelAnswer;
pub use self::orders::OrderReport;
use self::people::People;
pub use self::report::SimReport;
pub use self::running::Running;
use self::script::{Behaviour, Look, Scripts};
pub use self::stage::CallRecord;
pub use self::twice::Comparison;
pub(crate) use self::twice::sides;
pub use self::when::When;
pub use self::world::SimWorld;
use crate::crash::CrashPoint;
use crate::trap::{Skew, Trap};

/// 2026-01-01T00:00:00Z, the time at which a simulation begins unless it is told another.
const BEGINNING: i64 = 1_767_225_600;
/// How much virtual time a run gets.
const WITHIN: Duration = Duration::from_secs(366 * 24 * 3600);

type Meanwhile = Arc<dyn Fn(Live) -> BoxFuture<'static, ()> + Send + Sync>;
type Front = Arc<dyn Fn(Arc<dyn Store>, usize) -> Arc<dyn Store> + Send + Sync>;
type Wrap = Arc<dyn Fn(Arc<dyn Store>) -> Arc<dyn Store> + Send + Sync>;

/// Everything a simulation is made from; used again for each of its runs.
#[derive(Clone)]
struct Settings {
    scripts: Arc<Scripts>,
    deps: Deps,
    verifiers: Vec<(String, Arc<dyn Verifier>)>,
    id: String,
    at: Timestamp,
    seed: u64,
    within: Duration,
    limits: Limits,
    crashes: Vec<CrashPoint>,
    people: People,
    meanwhile: Option<Meanwhile>,
    wrap: Option<Wrap>,
    trap: Trap,
    skew: Option<Skew>,
    tape: Option<stage::Tape>,
    draws: Option<stage::Draws>,
    orders: Option<Arc<orders::Orders>>,
    /// Stands between the engine and the store that dies; gets the number of the process, from 1.
    front: Option<Front>,
    prepare: Option<Arc<dyn Fn() + Send + Sync>>,
    /// The store of the first process fails on purpose: what it stops is taken up by a second one.
    faults: bool,
}

impl Settings {
    fn run_id(&self) -> Result<RunId, SimError> {
        RunId::new(&self.id).map_err(|error| SimError::Broken(error.to_string()))
    }
}

/// A simulation of workflow `W`, under construction.
///
/// ```
/// use aether::prelude::*;
/// use aether_testing::Sim;
///
/// /// Search the archive.
/// #[step(effect = "read")]
/// async fn search(cx: &mut StepCx, query: &str) -> Result<u32> {
///     unreachable!("a simulation calls the stub")
/// }
///
/// /// Count what is found.
/// #[workflow]
/// async fn count(cx: &mut Cx, query: String) -> Result<u32> {
///     let found = search(cx, &query).await?;
///     cx.sleep(std::time::Duration::from_secs(30 * 24 * 3600)).await;
///     Ok(found)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let sim = Sim::new::<count>().fail_times::<search>(1, Failure::new("busy")).stub::<search>(|query| Ok(query.len() as u32));
/// let report = sim.run("hello".to_owned()).await;
/// assert_eq!(report.assert_completed(), &5);
/// report.assert_calls::<search>(2);
/// report.assert_effects(&["search", "sleep"]);
/// sim.crash_at_every_boundary("hello".to_owned()).await;
/// # }
/// ```
#[must_use = "a simulation begins when `.run(..)` is awaited"]
pub struct Sim<W = ()> {
    settings: Settings,
    workflow: PhantomData<fn() -> W>,
}

impl Sim {
    /// A simulation of `W` without any stub, which begins on 2026-01-01 with seed 0.
    #[allow(clippy::new_ret_no_self, reason = "the simulation knows its workflow's type")]
    pub fn new<W: Workflow>() -> Sim<W> {
        Sim::default()
    }
}

impl<W: Workflow> Default for Sim<W> {
    fn default() -> Self {
        let settings = Settings {
            scripts: Arc::default(),
            deps: Deps::default(),
            verifiers: Vec::new(),
            id: "sim".into(),
            at: Timestamp::from_second(BEGINNING).unwrap_or(Timestamp::UNIX_EPOCH),
            seed: 0,
            within: WITHIN,
            limits: Limits::default(),
            crashes: Vec::new(),
            people: People::default(),
            meanwhile: None,
            wrap: None,
            trap: Trap::strict(),
            skew: None,
            tape: None,
            draws: None,
            orders: None,
            front: None,
            prepare: None,
            faults: false,
        };
        Self { settings, workflow: PhantomData }
    }
}

impl<W: Workflow> Sim<W> {
    fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    fn script(self, change: impl FnOnce(&mut Scripts)) -> Self {
        self.with(|settings| change(Arc::make_mut(&mut settings.scripts)))
    }

    fn then<S: Step>(self, behaviour: Behaviour) -> Self {
        self.script(|scripts| scripts.of::<S>().then = Some(behaviour))
    }

    /// Answers every call of `S` that has no answer of its own. The closure gets the arguments, owned.
    pub fn stub<S: Step>(
        self,
        answer: impl Fn(S::Args) -> Result<S::Output, S::Error> + Send + Sync + 'static,
    ) -> Self {
        self.then::<S>(script::typed::<S>(answer))
    }

    /// Like [`Sim::stub`], with a closure that returns a boxed future and also gets the body's context. It may wait
    /// with `tokio::time::sleep`, in virtual time.
    pub fn stub_async<S: Step>(
        self,
        answer: impl Fn(StepCx, S::Args) -> BoxFuture<'static, Result<S::Output, S::Error>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.then::<S>(script::typed_async::<S>(answer))
    }

    /// Answers the next calls of `S` in order; calls after them go to [`Sim::stub`] if there is one. A call whose
    /// answer was lost in a crash gets the same one again.
    pub fn stub_seq<S: Step>(self, answers: Vec<Result<S::Output, S::Error>>) -> Self {
        let answers = answers.iter().map(|answer| Behaviour::fixed(script::encode::<S>(answer)));
        self.script(|scripts| scripts.of::<S>().first.extend(answers))
    }

    /// Lets the next `times` calls of `S` fail with `error`.
    pub fn fail_times<S: Step>(self, times: usize, error: S::Error) -> Self {
        let failure = Behaviour::fixed(script::encode::<S>(&Err(error)));
        self.script(|scripts| scripts.of::<S>().first.extend(std::iter::repeat_n(failure, times)))
    }

    /// Lets the body of `S` panic.
    pub fn panics<S: Step>(self, message: impl Into<String>) -> Self {
        self.then::<S>(script::panics(message.into()))
    }

    /// Lets the outcome of `S` be unknown: its body never comes back, or says that it does not know where the step
    /// has no timeout. The step's `on_unknown` policy decides what follows.
    ///
    /// # Panics
    /// When `S` changes nothing in the world, so that it cannot be in doubt.
    #[track_caller]
    pub fn in_doubt<S: Step>(self) -> Self {
        script::assert_may_be_in_doubt::<S>();
        self.then::<S>(script::in_doubt::<S>())
    }

    /// Lets the body of `S` not come back within its timeout.
    ///
    /// # Panics
    /// When `S` has no timeout, so that it would be waited for without end.
    #[track_caller]
    pub fn times_out<S: Step>(self) -> Self {
        let never = script::times_out::<S>();
        self.then::<S>(never)
    }

    /// Answers the probe of `S`. Without it, the probe of a stubbed step finds what the stub did: that the call happened
    /// with the stub's value, that it did not, or, for a stub in doubt, that it cannot be told.
    pub fn stub_probe<S: Step>(
        self,
        look: impl Fn(S::Args) -> Probe<S::Output> + Send + Sync + 'static,
    ) -> Self {
        let look = Look::Answer(Arc::new(move |args| {
            Ok(Ok(match look(S::decode(args)?) {
                Probe::Happened(value) => Probe::Happened(Payload::encode(&value)?),
                Probe::DidNotHappen => Probe::DidNotHappen,
                Probe::Unknown => Probe::Unknown,
            }))
        }));
        self.script(|scripts| drop(scripts.probes.insert(S::DEF.path.into(), look)))
    }

    /// Lets the probe of `S` look for real.
    pub fn real_probe<S: Step>(self) -> Self {
        self.script(|scripts| drop(scripts.probes.insert(S::DEF.path.into(), Look::Real)))
    }

    /// Runs the real body of `S`, and where it has a probe the real probe. On the virtual clock every wait for something outside of the simulation, such as a
    /// network, lets the step's timeout pass at once.
    pub fn real<S: Step>(self) -> Self {
        self.then::<S>(Behaviour::Real).script(|scripts| scripts.look_for_real::<S>())
    }

    /// Answers every performance of the effect `name`: one that an effect crate adds to the context.
    pub fn stub_effect(
        self,
        name: &str,
        answer: impl Fn(serde_json::Value) -> Result<serde_json::Value, Failure> + Send + Sync + 'static,
    ) -> Self {
        let behaviour = Behaviour::answer(move |_, args| script::encode_named(answer(args.decode()?)));
        self.script(|scripts| scripts.named(name).then = Some(behaviour))
    }

    /// Answers the next performances of the effect `name` in order.
    pub fn stub_effect_seq(self, name: &str, answers: Vec<Result<serde_json::Value, Failure>>) -> Self {
        let answers = answers.into_iter().map(|answer| Behaviour::fixed(script::encode_named(answer)));
        self.script(|scripts| scripts.named(name).first.extend(answers))
    }

    /// Performs the effect `name` for real; see [`Sim::real`].
    pub fn real_effect(self, name: &str) -> Self {
        self.script(|scripts| scripts.named(name).then = Some(Behaviour::Real))
    }

    /// Begins the simulation at this time.
    pub fn at(self, at: Timestamp) -> Self {
        self.with(|settings| settings.at = at)
    }

    /// Draws ids and random values from this seed.
    pub fn seed(self, seed: u64) -> Self {
        self.with(|settings| settings.seed = seed)
    }

    /// Names the run. Default `sim`.
    pub fn id(self, id: impl Into<String>) -> Self {
        self.with(|settings| settings.id = id.into())
    }

    /// Gives the run this much virtual time. Default 366 days.
    pub fn within(self, within: Duration) -> Self {
        self.with(|settings| settings.within = within)
    }

    /// Sets what the engine refuses to exceed.
    pub fn limits(self, limits: Limits) -> Self {
        self.with(|settings| settings.limits = limits)
    }

    /// Gives real bodies a value, which they get with `cx.dep::<T>()`.
    pub fn provide<T: Send + Sync + 'static>(self, value: T) -> Self {
        self.with(|settings| settings.deps.insert(value))
    }

    /// Looks with `verifier` at resources of `kind`. Without it, every resource of every kind that a step of the program
    /// declares is found as it was left.
    pub fn verifier(self, kind: impl Into<String>, verifier: impl Verifier) -> Self {
        self.with(|settings| settings.verifiers.push((kind.into(), Arc::new(verifier))))
    }

    /// What happens when workflow code calls libc for something that replay would not reproduce: by default the
    /// simulation ends with an error that names the call; see [`Trap`].
    pub fn trap(self, trap: Trap) -> Self {
        self.with(|settings| settings.trap = trap)
    }

    /// Does something while the run goes on, for example cancels it. After a crash it is begun anew.
    pub fn meanwhile<F>(self, act: impl Fn(Live) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.with(|settings| settings.meanwhile = Some(Arc::new(move |live| Box::pin(act(live)))))
    }

    /// Puts a store around the simulation's own, such as a [`FailingStore`](crate::failing::FailingStore).
    pub fn wrap_store(self, wrap: impl Fn(Arc<dyn Store>) -> Arc<dyn Store> + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.wrap = Some(Arc::new(wrap)))
    }

    /// Lets the process die at its write of this number (from 1), which does not happen. A second call crashes the
    /// next process, whose writes are counted from 1 again.
    pub fn crash_at(self, write: u64) -> Self {
        self.crash(CrashPoint::Before(write))
    }

    /// Lets the process die at this point; see [`Sim::crash_at`].
    pub fn crash(self, point: CrashPoint) -> Self {
        self.with(|settings| settings.crashes.push(point))
    }

    /// Runs the workflow to its end.
    ///
    /// # Panics
    /// With the text of a [`SimError`], for example when a step has no stub.
    #[track_caller]
    pub fn run(&self, input: W::Input) -> Running<SimReport<W>> {
        Running::new(self.apart(input, life::run::<W>))
    }

    /// Runs the workflow to its end.
    ///
    /// # Errors
    /// [`SimError`] when there is nothing to report, for example because a step has no stub.
    pub async fn try_run(&self, input: W::Input) -> Result<SimReport<W>, SimError> {
        self.apart(input, life::run::<W>).await
    }

    /// Runs the workflow in two worlds that differ in all that does not come through the context, and compares: once
    /// to its end; then, on a thread of its own, a replay of that journal, and a second run. There the clock is more
    /// than a year ahead, environment variables are hidden, the process id is another, and hash keys, seeds of
    /// thread-local generators, thread id and addresses of the heap and the stack differ. Draws, virtual times and
    /// the answers of stubs are those of the first run.
    ///
    /// Bodies that are called for real (`pure` ones, and [`Sim::real`]) are called again, and must do the same. What
    /// is the same for the life of a process (addresses of functions and statics, its arguments, the machine) stays
    /// the same here. The trap is set in both worlds.
    ///
    /// # Panics
    /// With the text of a [`SimError`]: of [`SimError::Nondeterministic`] when the runs come apart.
    #[track_caller]
    pub fn check_deterministic(&self, input: W::Input) -> Running<SimReport<W>> {
        Running::new(self.apart(input, twice::twice::<W>))
    }

    /// Like [`Sim::check_deterministic`]; returns the report of the first run.
    ///
    /// # Errors
    /// [`SimError::Nondeterministic`] when the runs come apart; any other when the first run fails.
    pub async fn try_check_deterministic(&self, input: W::Input) -> Result<SimReport<W>, SimError> {
        self.apart(input, twice::twice::<W>).await
    }

    /// Works on a thread that belongs to no runtime.
    fn apart<T: Send + 'static>(
        &self,
        input: W::Input,
        work: impl FnOnce(&Settings, &Payload) -> Result<T, SimError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, SimError>> {
        let (input, settings) = (W::encode(&input), self.settings.clone());
        Box::pin(async move {
            let input = input.map_err(SimError::Input)?;
            let (done, outcome) = tokio::sync::oneshot::channel();
            let broken = |reason: String| SimError::Broken(reason);
            std::thread::Builder::new()
                .name(format!("sim {}", W::DEF.name))
                .spawn(move || {
                    let _nobody_waits = done.send(work(&settings, &input));
                })
                .map_err(|error| broken(error.to_string()))?;
            outcome.await.unwrap_or_else(|_| Err(broken("its thread panicked".into())))
        })
    }
}

impl<W> Clone for Sim<W> {
    fn clone(&self) -> Self {
        Self { settings: self.settings.clone(), workflow: PhantomData }
    }
}

impl<W: Workflow> fmt::Debug for Sim<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sim")
            .field("workflow", &W::DEF.name)
            .field("stubs", &self.settings.scripts)
            .field("at", &self.settings.at)
            .field("seed", &self.settings.seed)
            .field("crashes", &self.settings.crashes)
            .finish_non_exhaustive()
    }
}

/// A simulated run while it goes on, for [`Sim::meanwhile`].
#[derive(Clone, Debug)]
pub struct Live {
    engine: Engine,
    run: RunId,
    world: SimWorld,
    /// When the simulation began.
    begun: Timestamp,
}

impl Live {
    fn new(engine: Engine, run: RunId, world: SimWorld, begun: Timestamp) -> Self {
        Self { engine, run, world, begun }
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The run.
    pub fn run_id(&self) -> &RunId {
        &self.run
    }

    /// Waits in virtual time.
    pub async fn sleep(&self, wait: Duration) {
        let until = self.world.now().saturating_add(wait).unwrap_or(Timestamp::MAX);
        self.world.sleep_until(until).await;
    }

    /// Waits until this much virtual time has passed since the simulation began, crashes included.
    pub async fn sleep_until(&self, after: Duration) {
        let until = self.begun.saturating_add(after).unwrap_or(Timestamp::MAX);
        self.world.sleep_until(until).await;
    }

    /// Asks the run to end.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub async fn cancel(&self, reason: &str, actor: &str) -> Result<(), StoreError> {
        self.engine.cancel(&self.run, reason, actor).await.map(|_sent| ())
    }
}
