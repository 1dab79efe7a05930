//! What an agent is, as a run reads it before the first question.
//!
//! Promise: a run keeps the settings that it has read. A program whose agent has another preamble, another model or other
//! tools is no divergence for the runs that are in it.

use aether_core::payload::{Payload, PayloadError};
use aether_core::step::{Body, BodyResult, StepCx};
use aether_effects::recorded_error::body_error;
use futures_util::future::BoxFuture;
use rig_agent::run::RunSpec;
use rig_core::completion::{ModelRef, ProviderCapabilities, ToolDefinition};
use serde::{Deserialize, Serialize};

use crate::agents::{RigAgents, ServedAgent};
use crate::error::ModelFailed;

/// What an agent is: recorded once for each prompt.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Settings {
    /// How questions are made: preamble, documents, sampling, limits.
    pub spec: RunSpec,
    /// Label of the model.
    pub model: ModelRef,
    /// What the model can do, as far as questions depend on it.
    pub capabilities: ProviderCapabilities,
    /// The tools, in the order in which the model is told of them.
    pub tools: Vec<ToolDefinition>,
}

impl Settings {
    fn of(name: &str, served: &ServedAgent) -> Result<Self, ModelFailed> {
        let model = served.model().map_err(|report| ModelFailed::reported(name, &report))?;
        Ok(Self {
            spec: served.agent.run_spec(),
            model: model.label(),
            capabilities: model.capabilities(),
            tools: served.agent.tool_server_handle().static_tool_defs(),
        })
    }
}

/// The recorded arguments.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SettingsArgs {
    pub(crate) agent: String,
}

/// The body that reads the settings.
pub(crate) struct ReadSettings;

impl Body for ReadSettings {
    fn call(&self, cx: StepCx, args: &Payload) -> BoxFuture<'static, BodyResult> {
        let args = args.decode::<SettingsArgs>();
        Box::pin(async move {
            match read(&cx, &args?.agent) {
                Ok(settings) => Ok(Ok(Payload::encode(&settings)?)),
                Err(error) => Ok(Err(body_error(error)?)),
            }
        })
    }

    fn accepts(&self, value: &Payload) -> Result<(), PayloadError> {
        value.decode::<Settings>().map(drop)
    }
}

fn read(cx: &StepCx, agent: &str) -> Result<Settings, ModelFailed> {
    let agents = cx.dep::<RigAgents>().map_err(|error| ModelFailed::missing(agent, "agent", error))?;
    Settings::of(agent, agents.get(agent)?)
}
