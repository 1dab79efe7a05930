//! The parts that an [`Engine`](crate::Engine) is built from, and the values it returns: for the program's `main`, and for
//! tests that bring a clock or a replay policy of their own.

pub use aether_core::deps::{Deps, Need};
pub use aether_core::engine::{
    AdoptionCounts, AnyWorkflow, ChangeAdvice, ChangePlace, ChangeReport, CheckReport, Defaults, Drained,
    EffectNeed, EngineBuilder, Fit, ForkPlan, ForkReport, ForkRun, Health, Hold, MissingNeed, OnUnfit,
    OpenOrigin, OpenWaitOf, Opening, ParkedPage, ParkedRun, PlannedFork, Probe, RunCheck, RunGroup,
    RunVerdict, StartNamed, StartRun, StepLimits, Verified, VersionUse, WorkerView,
};
pub use aether_core::environment::Environment;
pub use aether_core::journal::event::{ForkDecision, ForkedFrom};
pub use aether_core::journal::{BilledCall, CallOutcome};
pub use aether_core::limits::Limits;
pub use aether_core::policy::{Consulted, DefaultPolicy, Mode, ReplayPolicy, Verdict};
pub use aether_core::run::{Observed, RunEnd};
pub use aether_core::step::{BodyCall, Interceptor};
pub use aether_effects::environment::SystemEnvironment;
