//! Agents of the rig crate: for programs that have some, and want them durable.

pub use aether_rig::{
    Contract, CxRig, IdempotencyKey, ModelFailed, Refused, RigAgents, RigPrompt, Settings, rig_agent,
};
