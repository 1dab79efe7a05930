//! Building an engine: its store, what step bodies are given, and its settings.
//!
//! Promise: a setting takes effect when the engine starts, and nothing is opened or called before.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::definition::def::Retry;
use crate::engine::adopt::unfit::OnUnfit;
use crate::engine::defaults::Defaults;
use crate::engine::inner::{Engine, Settings};
use crate::engine::needs::NeedsCheck;
use crate::engine::open_store::OpenStore;
use crate::engine::prepare::Preparation;
use crate::engine::retention::Retention;
use crate::policy::approvals::Approvals;
use crate::policy::replay::{DefaultPolicy, ReplayPolicy};
use crate::policy::retries::Retries;
use crate::policy::verifiers::{Verifier, Verifiers};
use crate::run::program::RegisteredWorkflow;
use crate::step::body::{RegisteredStep, Step};
use crate::step::interceptor::Interceptor;
use crate::step::traced::TraceBodies;
use crate::vocabulary::codec::PayloadCodec;
use crate::vocabulary::deps::Deps;
use crate::vocabulary::environment::Environment;
use crate::vocabulary::limits::Limits;
use crate::vocabulary::masking::Masking;
use crate::vocabulary::queue::{QueueError, Serves};
use crate::vocabulary::redaction::Redaction;
use crate::workflow::definition::Workflow;

/// Builds an [`Engine`]: where it keeps its runs, what step bodies are given, and its settings.
///
/// Begin with [`Engine::builder`], choose a store, and call [`EngineBuilder::start`]. Every other setting has a default.
///
/// ```
/// # use aether_core::engine::{BuildError, Engine};
/// # async fn start() -> Result<(), BuildError> {
/// # struct Archive;
/// use std::time::Duration;
///
/// let engine = Engine::builder()
///     .memory()
///     .provide(Archive)
///     .lease(Duration::from_secs(30))
///     .start()
///     .await?;
/// # Ok(()) }
/// ```
#[must_use = "an engine runs when `.start().await` is called"]
pub struct EngineBuilder {
    pub(super) environment: Option<Arc<dyn Environment>>,
    pub(super) store: Option<OpenStore>,
    pub(super) preparations: Vec<Preparation>,
    pub(super) migrates: bool,
    pub(super) codec: Option<Arc<dyn PayloadCodec>>,
    pub(super) redaction: Redaction,
    pub(super) deps: Deps,
    pub(super) policy: Arc<dyn ReplayPolicy>,
    pub(super) interceptor: Option<Arc<dyn Interceptor>>,
    pub(super) trace_bodies: Option<Arc<dyn TraceBodies>>,
    pub(super) approvals: Approvals,
    pub(super) workflows: Vec<RegisteredWorkflow>,
    pub(super) limits: Limits,
    pub(super) retries: Retries,
    pub(super) verifiers: Verifiers,
    pub(super) settings: Settings,
    pub(super) steps: Vec<RegisteredStep>,
    pub(super) grace: Duration,
    pub(super) cancel_grace: Duration,
    pub(super) production: bool,
    pub(super) retention: Option<Retention>,
    pub(super) on_unfit: OnUnfit,
    /// Which runs it takes, or a pattern that is not usable.
    pub(super) serves: Result<Serves, QueueError>,
    pub(super) needs: NeedsCheck,
    /// Workflows that are linked and left out.
    pub(super) without: Vec<RegisteredWorkflow>,
}
impl fmt::Debug for EngineBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineBuilder")
            .field("deps", &self.deps)
            .field("approvals", &self.approvals)
            .field("limits", &self.limits)
            .field("settings", &self.settings)
            .field("production", &self.production)
            .finish_non_exhaustive()
    }
}
impl Engine {
    /// Begins to build an engine with the [`Defaults`] that are linked into the program. With the `aether` crate these
    /// are the system's clock and entropy, and verifiers of files and HTTP resources.
    ///
    /// ```
    /// # use aether_core::engine::{BuildError, Engine};
    /// # async fn start() -> Result<(), BuildError> {
    /// let engine = Engine::builder().memory().start().await?;
    /// # Ok(()) }
    /// ```
    pub fn builder() -> EngineBuilder {
        EngineBuilder::default()
    }
}
impl Default for EngineBuilder {
    /// With the [`Defaults`] that are linked into the program.
    fn default() -> Self {
        let mut builder = Self::bare(None);
        for defaults in inventory::iter::<Defaults> {
            builder.environment = Some((defaults.environment)());
            for (kind, verifier) in (defaults.verifiers)() {
                builder.verifiers.insert(kind.into(), verifier);
            }
        }
        builder
    }
}
impl EngineBuilder {
    /// Begins with `environment` and without the linked [`Defaults`]: for tests, and for programs that provide everything
    /// themselves.
    ///
    /// ```
    /// # use aether_core::engine::EngineBuilder;
    /// # use aether_core::environment::Environment;
    /// # use std::sync::Arc;
    /// # fn with(environment: Arc<dyn Environment>) -> EngineBuilder {
    /// let builder = EngineBuilder::new(environment).memory();
    /// # builder }
    /// ```
    pub fn new(environment: Arc<dyn Environment>) -> Self {
        Self::bare(Some(environment))
    }

    fn bare(environment: Option<Arc<dyn Environment>>) -> Self {
        Self {
            environment,
            store: None,
            preparations: Vec::new(),
            migrates: true,
            codec: None,
            redaction: Redaction::default(),
            deps: Deps::default(),
            policy: Arc::new(DefaultPolicy),
            interceptor: None,
            trace_bodies: None,
            approvals: Approvals::default(),
            workflows: Vec::new(),
            limits: Limits::default(),
            retries: Retries::default(),
            verifiers: Verifiers::default(),
            settings: Settings {
                lease: Duration::from_secs(15),
                poll: Duration::from_millis(200),
                stream_poll: Duration::from_millis(100),
                max_active: 10_000,
                advances: true,
            },
            steps: Vec::new(),
            grace: Duration::from_secs(1),
            cancel_grace: Duration::from_secs(5),
            production: false,
            on_unfit: OnUnfit::default(),
            serves: Ok(Serves::ALL),
            retention: None,
            needs: NeedsCheck::default(),
            without: Vec::new(),
        }
    }

    /// Takes time and randomness from `environment` instead of the system.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::environment::Environment;
    /// # use std::sync::Arc;
    /// # fn with(environment: Arc<dyn Environment>) {
    /// let builder = Engine::builder().environment(environment);
    /// # }
    /// ```
    pub fn environment(mut self, environment: Arc<dyn Environment>) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Has every recorded value go through `codec` before it reaches the store, and back when it is read: inputs, arguments,
    /// results, errors, messages, questions and answers, streams, large values, schedules. Ids, names, labels, times and
    /// statuses stay in the open.
    ///
    /// Runs that are open may have been recorded without it, or with other keys of it: each value says by which key it was
    /// encoded. `aether::encryption` has a codec that encrypts.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// use aether_core::codec::PayloadCodec;
    ///
    /// # fn with(codec: impl PayloadCodec) {
    /// let builder = Engine::builder().payload_codec(codec);
    /// # }
    /// ```
    pub fn payload_codec(mut self, codec: impl PayloadCodec) -> Self {
        self.codec = Some(Arc::new(codec));
        self
    }

    /// Replaces what `masking` finds before it is recorded, hashed or handed on: in inputs, arguments, results, errors with
    /// their texts, messages of panics, plans, what probes and verifiers say, HTTP exchanges, prompts, messages, questions,
    /// streams, progress, and answers that a fork replaces. What was replaced is gone: a body gets the arguments that are
    /// recorded, and a model the prompt that is recorded.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// use aether_core::recording::Masking;
    ///
    /// # fn with(api_key: &str) {
    /// let builder = Engine::builder().redact(Masking::standard().text(api_key));
    /// # }
    /// ```
    pub fn redact(mut self, masking: Masking) -> Self {
        self.redaction = Redaction::by(masking);
        self
    }

    /// Provides a value to step bodies, which get it with `cx.dep::<T>()`. One value per type.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// struct Mailer {
    ///     host: String,
    /// }
    ///
    /// // In a step's body: `let mailer = cx.dep::<Mailer>()?;`
    /// let builder = Engine::builder().provide(Mailer { host: "localhost".to_owned() });
    /// ```
    pub fn provide<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.deps.insert(value);
        self
    }

    /// Provides all of `deps` to step bodies, and drops what was provided before.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::deps::Deps;
    /// let mut deps = Deps::default();
    /// deps.insert("a value that steps share");
    /// let builder = Engine::builder().deps(deps);
    /// ```
    pub fn deps(mut self, deps: Deps) -> Self {
        self.deps = deps;
        self
    }

    /// Registers a workflow that `#[workflow]` does not register by itself, such as an instance of a generic one.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::workflow::Workflow;
    /// # #[allow(non_camel_case_types)]
    /// # struct import<T>(T);
    /// # fn with<Customer>() where import<Customer>: Workflow {
    /// let builder = Engine::builder().register::<import<Customer>>();
    /// # }
    /// ```
    pub fn register<W: Workflow>(mut self) -> Self {
        self.workflows.push(RegisteredWorkflow::of::<W>());
        self
    }

    /// Registers a step that `#[step]` does not register by itself, such as an instance of a generic one. What it declares
    /// is then checked when the engine starts, and it can be called to undo another step.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::step::Step;
    /// # #[allow(non_camel_case_types)]
    /// # struct save<T>(T);
    /// # fn with<Customer>() where save<Customer>: Step {
    /// let builder = Engine::builder().register_step::<save<Customer>>();
    /// # }
    /// ```
    pub fn register_step<S: Step>(mut self) -> Self {
        self.steps.push(RegisteredStep::of::<S>());
        self
    }

    /// Consults `policy` before every command.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::outcome::EffectClass;
    /// # use aether_core::policy::{Consulted, ReplayPolicy, Verdict};
    /// /// Lets recorded runs be read, and no new tool call be made.
    /// #[derive(Debug)]
    /// struct NoTools;
    ///
    /// impl ReplayPolicy for NoTools {
    ///     fn consult(&self, command: &Consulted<'_>) -> Verdict {
    ///         match command.class {
    ///             EffectClass::Tool if !command.recorded => Verdict::Forbid("tools are off".into()),
    ///             _ => Verdict::Default,
    ///         }
    ///     }
    /// }
    ///
    /// let builder = Engine::builder().policy(NoTools);
    /// ```
    pub fn policy(mut self, policy: impl ReplayPolicy) -> Self {
        self.policy = Arc::new(policy);
        self
    }

    /// Lets `interceptor` answer instead of step bodies. For tests.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::payload::Payload;
    /// # use aether_core::step::{BodyCall, BodyResult, Interceptor, StepCx};
    /// # use futures_util::future::BoxFuture;
    /// # use std::sync::Arc;
    /// /// Answers every call with `null`, whatever the step.
    /// #[derive(Debug)]
    /// struct Silence;
    ///
    /// impl Interceptor for Silence {
    ///     fn intercept(&self, _: &BodyCall<'_>, _: &StepCx) -> Option<BoxFuture<'static, BodyResult>> {
    ///         Some(Box::pin(std::future::ready(Ok(Ok(Payload::null())))))
    ///     }
    /// }
    ///
    /// let builder = Engine::builder().interceptor(Arc::new(Silence));
    /// ```
    pub fn interceptor(mut self, interceptor: Arc<dyn Interceptor>) -> Self {
        self.interceptor = Some(interceptor);
        self
    }

    /// Puts bodies into the trace context of their attempts, and sends it on: in the header `traceparent` of requests of
    /// `cx.http()`, in the `_meta` of calls of MCP tools, and to child runs, which then belong to the trace of their parent.
    /// Without this, none is sent. Nothing that is recorded depends on it.
    ///
    /// ```
    /// # use aether_core::engine::{Engine, EngineBuilder};
    /// # use aether_core::step::TraceBodies;
    /// # use std::sync::Arc;
    /// # fn with(nested: Arc<dyn TraceBodies>) -> EngineBuilder {
    /// let builder = Engine::builder().trace_bodies(nested);
    /// # builder }
    /// ```
    pub fn trace_bodies(mut self, tracing: Arc<dyn TraceBodies>) -> Self {
        self.trace_bodies = Some(tracing);
        self
    }

    /// Lets `verifier` inspect resources of `kind` before a recorded change to one is trusted again. Every kind that a
    /// step of the program declares in `changes` needs a verifier.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::policy::Verifier;
    /// # fn with(tracker: impl Verifier) {
    /// let builder = Engine::builder().verifier("issue", tracker);
    /// # }
    /// ```
    pub fn verifier(mut self, kind: impl Into<String>, verifier: impl Verifier) -> Self {
        self.verifiers.insert(kind.into(), Arc::new(verifier));
        self
    }

    /// Asks a person before the calls that `approvals` names, in addition to those whose steps declare it.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::policy::Approvals;
    /// let builder = Engine::builder().approvals(Approvals::new().step("refund"));
    /// ```
    pub fn approvals(mut self, approvals: Approvals) -> Self {
        self.approvals = approvals;
        self
    }

    /// Sets the sizes that the engine does not let a run exceed.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::limits::Limits;
    /// let builder = Engine::builder().limits(Limits { payload: 64 * 1024, ..Limits::default() });
    /// ```
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets when another attempt is made at reads that declare no `retry`, HTTP reads included. Default [`Retry::READ`].
    ///
    /// ```
    /// # use aether_core::definition::def::Retry;
    /// # use aether_core::engine::Engine;
    /// let builder = Engine::builder().read_retry(Retry::times(3));
    /// ```
    pub fn read_retry(mut self, retry: Retry) -> Self {
        self.retries.read = retry;
        self
    }

    /// Sets when another attempt is made at model calls that declare no `retry`. Default [`Retry::READ`].
    ///
    /// ```
    /// # use aether_core::definition::def::Retry;
    /// # use aether_core::engine::Engine;
    /// # use std::time::Duration;
    /// let day = Duration::from_secs(24 * 60 * 60);
    /// let builder = Engine::builder().model_retry(Retry { patience: Some(day), ..Retry::READ });
    /// ```
    pub fn model_retry(mut self, retry: Retry) -> Self {
        self.retries.model = retry;
        self
    }

    /// Sets how long another engine must see this one silent before it may take its runs over. Default 15 s, at
    /// least 100 ms. The engine renews its leases four times in it, on a thread of its own.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use std::time::Duration;
    /// let builder = Engine::builder().lease(Duration::from_secs(30));
    /// ```
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease.max(Duration::from_millis(100));
        self
    }

    /// Sets how often the store is polled for runs that other processes released or sent messages to. Default 200 ms, at
    /// least 5 ms.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use std::time::Duration;
    /// let builder = Engine::builder().poll_interval(Duration::from_secs(1));
    /// ```
    pub fn poll_interval(mut self, poll: Duration) -> Self {
        self.settings.poll = poll.max(Duration::from_millis(5));
        self
    }

    /// Sets how often a reader of a stream looks into the store for what other processes wrote, while nothing arrives. What
    /// this engine writes reaches its readers without that. Default 100 ms, at least 5 ms.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use std::time::Duration;
    /// let builder = Engine::builder().stream_poll_interval(Duration::from_millis(20));
    /// ```
    pub fn stream_poll_interval(mut self, poll: Duration) -> Self {
        self.settings.stream_poll = poll.max(Duration::from_millis(5));
        self
    }

    /// Sets how many runs this engine has in memory before it stops claiming more. Runs that this engine starts are not
    /// held up by it. Default 10,000, at least one.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// let builder = Engine::builder().max_active(500);
    /// ```
    pub fn max_active(mut self, runs: usize) -> Self {
        self.settings.max_active = runs.max(1);
        self
    }

    /// Sets how long a run that only waits stays in memory before it is evicted to the store. Default 1 s.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use std::time::Duration;
    /// let builder = Engine::builder().eviction_grace(Duration::from_secs(10));
    /// ```
    pub fn eviction_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Deletes ended runs that are older than `retention` allows, when the engine starts and at intervals from then on.
    /// Without it, everything is kept.
    ///
    /// ```
    /// # use aether_core::engine::{Engine, Retention};
    /// # use std::time::Duration;
    /// const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    /// let builder = Engine::builder().retention(Retention::new().completed(30 * DAY));
    /// ```
    pub fn retention(mut self, retention: Retention) -> Self {
        self.retention = Some(retention);
        self
    }

    /// Sets how long world-changing bodies in flight may continue when their run is cancelled. After that they are
    /// dropped, and their calls stay in doubt. Default 5 s.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use std::time::Duration;
    /// let builder = Engine::builder().cancel_grace(Duration::from_secs(30));
    /// ```
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.cancel_grace = grace;
        self
    }

    /// Refuses to start on a store that does not survive a crash.
    ///
    /// ```
    /// # use aether_core::engine::{BuildError, Engine};
    /// # async fn start() {
    /// let refused = Engine::builder().memory().production().start().await;
    /// assert!(matches!(refused, Err(BuildError::NotDurable { .. })));
    /// # }
    /// ```
    pub fn production(mut self) -> Self {
        self.production = true;
        self
    }
}
