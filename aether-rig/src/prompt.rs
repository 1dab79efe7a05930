//! `cx.rig(..)`: a prompt to an agent under construction.

use std::collections::BTreeMap;
use std::time::Duration;

use aether_core::definition::def::Retry;
use aether_core::failure::{Failure, StepError};
use aether_core::workflow::{BoxEffect, Cx};
use rig_agent::agent::PromptResponse;
use rig_agent::run::{OutputMode, UnhandledInvalidToolCall};
use rig_core::completion::Message;
use schemars::{JsonSchema, schema_for};
use serde::de::DeserializeOwned;

use crate::contract::Contract;
use crate::drive::{Plan, drive, refusal};

/// Time for one answer of a model, where the prompt says nothing.
const MODEL_TIMEOUT: Duration = Duration::from_secs(300);

/// `cx.rig(..)` in workflows.
pub trait CxRig {
    /// Begins a prompt to the agent that the program calls `agent`; see [`RigAgents`](crate::RigAgents).
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// use aether_rig::{Contract, CxRig};
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// let answer = cx.rig("support").contract("search", Contract::read()).prompt("Where is my parcel?").await?;
    /// println!("{}", answer.output());
    /// # Ok(())
    /// # }
    /// ```
    fn rig(&mut self, agent: impl Into<String>) -> RigPrompt<'_>;
}

impl CxRig for Cx {
    fn rig(&mut self, agent: impl Into<String>) -> RigPrompt<'_> {
        let plan = Plan {
            agent: agent.into(),
            history: None,
            max_turns: None,
            unhandled: None,
            output: None,
            contracts: BTreeMap::new(),
            retry: None,
            timeout: MODEL_TIMEOUT,
        };
        RigPrompt { cx: self, plan }
    }
}

/// A prompt under construction.
#[must_use = "an agent does nothing until `.prompt(..).await`"]
#[derive(Debug)]
pub struct RigPrompt<'c> {
    cx: &'c mut Cx,
    plan: Plan,
}

impl<'c> RigPrompt<'c> {
    /// What the program says about a tool of the agent. Without it, the tool changes the world.
    pub fn contract(mut self, tool: impl Into<String>, contract: Contract) -> Self {
        self.plan.contracts.insert(tool.into(), contract);
        self
    }

    /// What was said before this prompt.
    pub fn history(mut self, history: Vec<Message>) -> Self {
        self.plan.history = Some(history);
        self
    }

    /// How many answers of the model this prompt may take, in place of what the agent was built with.
    pub fn max_turns(mut self, turns: usize) -> Self {
        self.plan.max_turns = Some(turns);
        self
    }

    /// What becomes of a call of a tool that the agent does not have. By default it ends the prompt with an error.
    pub fn unhandled_invalid_tool_call(mut self, policy: UnhandledInvalidToolCall) -> Self {
        self.plan.unhandled = Some(policy);
        self
    }

    /// When another attempt is made at an answer of the model. Without it, the engine's policy for model calls holds: an
    /// hour of attempts by default.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.plan.retry = Some(retry);
        self
    }

    /// Time for one attempt at an answer of the model. Default five minutes.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.plan.timeout = timeout;
        self
    }

    /// Prompts the agent, and answers its tool calls until it is done.
    ///
    /// # Errors
    /// [`StepError::App`] where rig's protocol ends with an error, such as too many turns; the error of the model call that
    /// failed; [`StepError::InDoubt`] where nobody knows whether a tool changed the world.
    pub fn prompt(
        self,
        prompt: impl Into<Message>,
    ) -> BoxEffect<'c, Result<PromptResponse, StepError<Failure>>> {
        let Self { cx, plan } = self;
        let prompt = prompt.into();
        cx.scoped(|mut cx| async move { drive(&mut cx, plan, prompt).await })
    }

    /// As [`RigPrompt::prompt`], with an answer that is a `T`: its schema goes with every question, in the provider's own
    /// form of structured output as far as rig has one, and the last text is read as a `T`.
    ///
    /// # Errors
    /// Also [`StepError::App`] where the text is no `T`.
    pub fn prompt_typed<T>(
        mut self,
        prompt: impl Into<Message>,
    ) -> BoxEffect<'c, Result<T, StepError<Failure>>>
    where
        T: JsonSchema + DeserializeOwned + Send + 'static,
    {
        self.plan.output = Some((schema_for!(T).to_value(), OutputMode::Native));
        let agent = self.plan.agent.clone();
        self.prompt(prompt).map(move |answer| {
            let text = answer?.output();
            read(&text).map_err(|error| {
                let wanted = std::any::type_name::<T>();
                refusal(format_args!("rig agent `{agent}`: the answer is no `{wanted}`: {error}"))
            })
        })
    }
}

/// Reads a text as a `T`, with prose or a fence around it if need be.
fn read<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    let text = text.trim();
    serde_json::from_str(text).or_else(|error| {
        let inside = text.find(['{', '[']).and_then(|start| text.get(start..));
        let first = inside.and_then(|text| serde_json::Deserializer::from_str(text).into_iter().next());
        first.unwrap_or(Err(error))
    })
}
