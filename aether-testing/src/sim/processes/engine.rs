//! Engines and runtimes of simulations.
//!
//! Promise: time on the runtime is paused; no engine looks at a real resource unless the test asks for it.

use std::sync::Arc;

use aether_core::engine::{Engine, EngineBuilder};
use aether_core::failure::Failure;
use aether_core::id::RunId;
use aether_core::journal::event::StateChanged;
use aether_core::policy::Inspection;
use aether_core::policy::Verifier;
use aether_core::step::RegisteredStep;
use aether_core::store::Store;
use aether_core::workflow::Workflow;
use futures_util::future::{BoxFuture, ready};
use tokio::runtime::Runtime;

use crate::sim::dispatch::dispatcher::StubDispatcher;
use crate::sim::report::error::SimError;
use crate::sim::settings::Settings;
use crate::sim::world::SimEnvironment;
use crate::trap::watch::LastCommands;

/// A runtime of one thread whose time is paused.
pub(crate) fn runtime() -> Result<Runtime, SimError> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().map_err(|error| SimError::Broken(error.to_string()))
}

/// Finds every resource unchanged.
#[derive(Debug)]
struct Trusting;

impl Verifier for Trusting {
    fn name(&self) -> &str {
        "simulated"
    }

    fn look<'a>(&'a self, _: &'a RunId, _: &'a StateChanged) -> BoxFuture<'a, Result<Inspection, Failure>> {
        Box::pin(ready(Ok(Inspection::Unchanged)))
    }
}

/// An engine that takes every resource to be unchanged: nothing real is looked at. A stub needs none of what its step
/// takes, so nothing has to be provided.
pub(crate) fn trusting(engine: EngineBuilder) -> EngineBuilder {
    let engine = engine.allow_missing_deps();
    let kinds = RegisteredStep::linked().flat_map(|step| step.def.options.changes);
    kinds.fold(engine, |engine, kind| engine.verifier(*kind, Trusting))
}

/// An engine that looks at resources and redacts values as `settings` say: nothing real is looked at unasked.
pub(crate) fn verifying(engine: EngineBuilder, settings: &Settings) -> EngineBuilder {
    let engine = trusting(engine);
    let engine = match &settings.redact {
        Some(masking) => engine.redact(masking.clone()),
        None => engine,
    };
    let given = settings.verifiers.iter().cloned();
    given.fold(engine, |engine, (kind, verifier)| engine.verifier(kind, verifier))
}

/// An engine that only replays what is in `store`.
pub(crate) async fn replaying<W: Workflow>(
    settings: &Settings,
    world: SimEnvironment,
    store: Arc<dyn Store>,
    dispatcher: Arc<StubDispatcher>,
) -> Result<Engine, SimError> {
    let engine = verifying(EngineBuilder::new(Arc::new(world)), settings)
        .store(store)
        .deps(settings.deps.clone())
        .interceptor(dispatcher)
        .policy(LastCommands)
        .limits(settings.limits)
        .register::<W>();
    Ok(engine.start().await?)
}
