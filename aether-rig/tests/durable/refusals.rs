//! What an agent may not have.

use aether::rig::rig_agent::agent::AgentHook;
use aether::rig::rig_agent::bus::Bus;
use aether::rig::rig_agent::core::effect::{EffectFamily, model_key};
use aether::rig::rig_agent::core::memory::InMemoryConversationMemory;
use aether::rig::rig_agent::core::serve::{ErasedHandler, ServingPolicy, adapters::ModelAdapter};
use aether::rig::rig_agent::tool::ToolSet;
use aether::rig::rig_agent::{Agent, AgentBuilder};
use aether::rig::{Refused, RigAgents};

use crate::kit::{builder, model};

/// Nothing listens there: no agent here is asked anything.
const URL: &str = "http://127.0.0.1:9";

struct Watch;

impl AgentHook for Watch {}

fn refused(agent: Agent) -> Refused {
    RigAgents::new().with("support", agent).expect_err("it is refused")
}

#[test]
fn what_would_run_beside_the_journal_is_refused_by_name() {
    let hooked = refused(builder(URL).add_hook(Watch).build());
    assert!(matches!(&hooked, Refused::Hooks { hooks, .. } if hooks.len() == 1), "{hooked:?}");
    assert!(hooked.to_string().contains("add_hook"), "{hooked}");

    let remembers = refused(builder(URL).memory(InMemoryConversationMemory::new()).build());
    assert_eq!(remembers, Refused::Memory { agent: "support".into() });

    let index = ModelAdapter::<aether::rig::rig_agent::core::operation::Completion>::new("x", model(URL));
    let retrieves = refused(builder(URL).retrieved_tools_handler(1, index, ToolSet::default()).build());
    assert!(matches!(&retrieves, Refused::Retrieval { indexes, .. } if indexes.len() == 1), "{retrieves:?}");

    let serial = ServingPolicy { serial_per_handler: true, ..ServingPolicy::default() };
    let serial = refused(builder(URL).configure_bus(serial).build());
    assert_eq!(serial, Refused::SerialTools { agent: "support".into() });
}

#[test]
fn an_agent_that_others_drive_is_refused() {
    let agent = builder(URL).build();
    let _other = agent.clone();
    assert_eq!(refused(agent), Refused::Shared { agent: "support".into() });

    let (dispatcher, registrar, mut driver) = Bus::channel();
    let handler = ModelAdapter::<aether::rig::rig_agent::core::operation::Completion>::new("x", model(URL));
    driver.register_erased(model_key("x"), ErasedHandler::new(handler)).unwrap();
    assert_eq!(dispatcher.descriptor(&model_key("x")).unwrap().family.family(), EffectFamily::Completion);
    let hosted = AgentBuilder::over_bus(dispatcher, registrar, "host", model_key("x")).build();
    assert_eq!(refused(hosted), Refused::HostBus { agent: "support".into() });
}

#[test]
fn names_are_used_once() {
    let agents = RigAgents::new().with("support", builder(URL).build()).unwrap();
    let error = agents.with("support", builder(URL).build()).unwrap_err();
    assert!(error.to_string().contains("another agent has it"), "{error}");
    assert!(RigAgents::new().with("", builder(URL).build()).is_err());
}
