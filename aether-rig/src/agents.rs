//! The agents that a program provides.
//!
//! Promise: an agent that is here has nothing that would run unrecorded; one that has was refused when it was added.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use aether_core::deps::Need;
use aether_core::engine::EffectNeed;
use rig_agent::agent::AgentParts;
use rig_agent::bus::{BusDriver, Dispatcher};
use rig_agent::{Agent, ModelHandle};
use rig_core::completion::{CompletionRequest, CompletionResponse};
use rig_core::effect::{EffectFamily, EffectRow};
use rig_core::error::{ErrorKind, ErrorReport};
use rig_core::tool::ToolContext;

use crate::error::{ModelFailed, Refused};

/// The agents of a program, by name. `.provide(..)` them on the engine's builder.
///
/// ```
/// # fn with(
/// #     builder: aether_core::engine::EngineBuilder,
/// #     agent: aether_rig::rig_agent::Agent,
/// # ) -> Result<aether_core::engine::EngineBuilder, aether_rig::Refused> {
/// use aether_rig::RigAgents;
/// Ok(builder.provide(RigAgents::new().with("support", agent)?))
/// # }
/// ```
#[derive(Clone, Default)]
pub struct RigAgents {
    agents: BTreeMap<String, Arc<ServedAgent>>,
}

impl RigAgents {
    /// No agents yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an agent under the name by which workflows ask for it.
    ///
    /// # Errors
    /// [`Refused`] where the agent has something that would run unrecorded, such as hooks, a memory or an index, or where
    /// the name cannot be used.
    pub fn with(self, name: impl Into<String>, agent: Agent) -> Result<Self, Refused> {
        self.with_context(name, agent, ToolContext::new())
    }

    /// Adds an agent whose tools get the values in `context`, such as credentials. They are not recorded.
    ///
    /// # Errors
    /// As [`RigAgents::with`].
    pub fn with_context(
        mut self,
        name: impl Into<String>,
        agent: Agent,
        context: ToolContext,
    ) -> Result<Self, Refused> {
        let name = name.into();
        let refused = |reason| Refused::Name { agent: name.clone(), reason };
        if name.is_empty() {
            return Err(refused("it is empty"));
        }
        if self.agents.contains_key(&name) {
            return Err(refused("another agent has it"));
        }
        let served = ServedAgent::of(&name, agent, context)?;
        self.agents.insert(name, Arc::new(served));
        Ok(self)
    }

    /// The agent of this name.
    pub(crate) fn get(&self, name: &str) -> Result<&ServedAgent, ModelFailed> {
        self.agents.get(name).map(|agent| &**agent).ok_or_else(|| {
            let known = self.agents.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            let reason =
                format!("there is no agent of this name; add it with `RigAgents::with` (there are: {known})");
            ModelFailed::missing(name, "agent", reason)
        })
    }
}

impl fmt::Debug for RigAgents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.agents.keys()).finish()
    }
}

inventory::submit! {
    EffectNeed {
        effect: "rig",
        need: Need::provided::<RigAgents>(),
        remedy: ".provide(RigAgents::new().with(..)?)",
    }
}

/// An agent with the bus by which its model is reached.
pub(crate) struct ServedAgent {
    pub(crate) agent: Agent,
    pub(crate) context: ToolContext,
    dispatcher: Dispatcher,
    /// The serving half of the bus, until the first call.
    driver: Mutex<Option<BusDriver>>,
}

impl ServedAgent {
    fn of(name: &str, agent: Agent, context: ToolContext) -> Result<Self, Refused> {
        check(name, &agent)?;
        let AgentParts { agent, dispatcher, driver, .. } =
            agent.into_parts().map_err(|_| Refused::Shared { agent: name.to_owned() })?;
        let hooks = hooks_of(&agent, &dispatcher);
        if !hooks.is_empty() {
            return Err(Refused::Hooks { agent: name.to_owned(), hooks });
        }
        Ok(Self { agent, context, dispatcher, driver: Mutex::new(Some(driver)) })
    }

    /// The model as it is registered now.
    pub(crate) fn model(&self) -> Result<ModelHandle, Box<ErrorReport>> {
        self.dispatcher.bind(self.agent.model_key()).map_err(Box::new)
    }

    /// Asks the agent's model. The future asks nothing before it is polled, and nothing after it was dropped.
    pub(crate) async fn ask(
        &self,
        request: CompletionRequest,
    ) -> Result<CompletionResponse, Box<ErrorReport>> {
        self.serve()?;
        self.model()?.call(request).await.map_err(Box::new)
    }

    /// Has the bus served by the runtime of the first call.
    fn serve(&self) -> Result<(), Box<ErrorReport>> {
        let mut driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
        if driver.is_none() {
            return Ok(());
        }
        let runtime = tokio::runtime::Handle::try_current()
            .map_err(|error| Box::new(ErrorReport::new(ErrorKind::Internal, error.to_string())))?;
        if let Some(driver) = driver.take() {
            runtime.spawn(served(driver));
        }
        Ok(())
    }
}

/// Serves the bus until the agent is gone. A call that panics ends alone: its caller is told that the bus lost it.
async fn served(mut driver: BusDriver) {
    std::future::poll_fn(|cx| {
        loop {
            match catch_unwind(AssertUnwindSafe(|| Pin::new(&mut driver).poll(cx))) {
                Ok(Poll::Pending) => return Poll::Pending,
                Ok(Poll::Ready(())) => return Poll::Ready(()),
                Err(_panic) => tracing::error!(target: "aether::rig", "a model of rig panicked"),
            }
        }
    })
    .await;
}

/// Refuses an agent that has something besides a model and tools.
fn check(name: &str, agent: &Agent) -> Result<(), Refused> {
    let agent_name = || name.to_owned();
    let row = agent.required_row();
    let indexes = keys_of(&row, EffectFamily::Retrieve);
    if !indexes.is_empty() {
        return Err(Refused::Retrieval { agent: agent_name(), indexes });
    }
    if !keys_of(&row, EffectFamily::Memory).is_empty() {
        return Err(Refused::Memory { agent: agent_name() });
    }
    let Some(policy) = agent.bus_config() else {
        return Err(Refused::HostBus { agent: agent_name() });
    };
    if policy.serial_per_handler && !keys_of(&row, EffectFamily::Tool).is_empty() {
        return Err(Refused::SerialTools { agent: agent_name() });
    }
    Ok(())
}

fn keys_of(row: &EffectRow, family: EffectFamily) -> Vec<String> {
    row.iter().filter(|(_, its)| **its == family).map(|(key, _)| key.to_string()).collect()
}

/// Names of the agent's hooks. Those of layers, which rig lists behind them, are part of a model or a tool, and run when it
/// is called.
fn hooks_of(agent: &Agent, dispatcher: &Dispatcher) -> Vec<String> {
    let layers: usize = dispatcher.descriptors().iter().map(|handler| handler.layers.len()).sum();
    let mut names = agent.program_names();
    names.truncate(names.len().saturating_sub(layers));
    names
}
