//! Driving rig's protocol: which question and which calls come next follows from recorded answers alone.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use aether_core::definition::def::{Retry, StepOptions};
use aether_core::failure::{Failure, StepError};
use aether_core::outcome::EffectClass;
use aether_core::payload::Payload;
use aether_core::workflow::{BoxEffect, Cx};
use rig_agent::agent::{
    AgentRun, AgentRunStep, ModelTurn, ModelTurnOutcome, PendingToolCall, PromptResponse,
};
use rig_agent::run::prepare::prepare_request;
use rig_agent::run::{OutputMode, PromptError, RunSpec, UnhandledInvalidToolCall};
use rig_core::completion::{CompletionRequest, CompletionResponse, Message};
use rig_core::message::{ToolCall, UserContent};
use rig_core::tool::ToolResult;
use rig_core::transcript::{invalid_arguments_feedback, tool_result_message, tool_result_output};
use serde_json::{Map, Value};

use crate::contract::Contract;
use crate::error::ToolFailed;
use crate::model::{AskModel, ModelArgs};
use crate::settings::{ReadSettings, Settings, SettingsArgs};
use crate::tool::{CallTool, ToolArgs};

/// What a prompt says besides its text.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) agent: String,
    pub(crate) history: Option<Vec<Message>>,
    pub(crate) max_turns: Option<usize>,
    pub(crate) unhandled: Option<UnhandledInvalidToolCall>,
    pub(crate) output: Option<(Value, OutputMode)>,
    pub(crate) contracts: BTreeMap<String, Contract>,
    pub(crate) retry: Option<Retry>,
    pub(crate) timeout: Duration,
}

/// Prompts an agent until it is done.
pub(crate) async fn drive(
    cx: &mut Cx,
    plan: Plan,
    prompt: Message,
) -> Result<PromptResponse, StepError<Failure>> {
    let Settings { spec, capabilities, tools, .. } = settings(cx, &plan.agent).await?;
    plan.check_contracts(tools.iter().map(|tool| tool.name.as_str()))?;
    let spec = plan.applied_to(spec);
    let mut run = AgentRun::from_spec(&spec, prompt, plan.history.clone());
    loop {
        match run.next_step().map_err(ended)? {
            AgentRunStep::CallModel { prompt, history, turn } => {
                let committed = run.output_tool_name().map(str::to_owned);
                let prepared = prepare_request(
                    &spec,
                    &capabilities,
                    &history,
                    tools.clone(),
                    committed.as_deref(),
                    None,
                )
                .map_err(refusal)?;
                if let Some(name) = &prepared.output_tool_name {
                    // Refused where the first question has set it: the name stays.
                    let _ = run.commit_output_tool_name(name.clone());
                }
                run.advertise_tools(turn, prepared.tools.clone());
                let names = (prepared.executable_tool_names.clone(), prepared.allowed_tool_names.clone());
                let answer = ask(cx, &plan, prepared.apply(CompletionRequest::new(prompt))).await?;
                take_in(&mut run, ModelTurn::from_response_parts(&answer, names.0, names.1))?;
            }
            AgentRunStep::CallTools { calls } => {
                let mut results = Vec::with_capacity(calls.len());
                for call in calls {
                    results.push(plan.answer_of(cx, call).await?);
                }
                run.tool_results(results).map_err(ended)?;
            }
            AgentRunStep::Done(response) => return Ok(response),
        }
    }
}

/// Gives the run a model's answer, and says what becomes of calls of tools that there are not.
fn take_in(run: &mut AgentRun, turn: ModelTurn) -> Result<(), StepError<Failure>> {
    let mut outcome = run.model_response(turn).map_err(ended)?;
    while let ModelTurnOutcome::NeedsResolution(_) = outcome {
        outcome = run.resolve_unhandled_invalid_tool_call().map_err(ended)?;
    }
    Ok(())
}

fn settings<'c>(cx: &'c mut Cx, agent: &str) -> BoxEffect<'c, Result<Settings, StepError<Failure>>> {
    let args = Payload::encode(&SettingsArgs { agent: agent.to_owned() });
    let options = StepOptions::of(EffectClass::Read);
    cx.effect(format!("rig.{agent}.settings"), options, args, Arc::new(ReadSettings))
}

fn ask<'c>(
    cx: &'c mut Cx,
    plan: &Plan,
    request: CompletionRequest,
) -> BoxEffect<'c, Result<CompletionResponse, StepError<Failure>>> {
    let Plan { agent, retry, timeout, .. } = plan;
    let args = Payload::encode(&ModelArgs { agent: agent.clone(), request });
    let options = StepOptions { timeout: Some(*timeout), retry: *retry, ..StepOptions::of(EffectClass::Llm) };
    cx.effect(format!("rig.{agent}.model"), options, args, Arc::new(AskModel))
}

impl Plan {
    fn applied_to(&self, mut spec: RunSpec) -> RunSpec {
        spec.max_turns = self.max_turns.or(spec.max_turns);
        spec.unhandled_invalid_tool_call = self.unhandled.unwrap_or(spec.unhandled_invalid_tool_call);
        if let Some((schema, mode)) = &self.output {
            spec.output_schema = Some(schema.clone());
            spec.output_mode = mode.clone();
        }
        spec
    }

    /// A contract for a tool that the agent does not have is most likely misspelt, and the tool it was meant for would
    /// then have another one.
    fn check_contracts<'t>(
        &self,
        tools: impl Iterator<Item = &'t str> + Clone,
    ) -> Result<(), StepError<Failure>> {
        for name in self.contracts.keys() {
            if !tools.clone().any(|tool| tool == name) {
                let (agent, known) = (&self.agent, tools.clone().collect::<Vec<_>>().join(", "));
                return Err(refusal(format_args!(
                    "rig agent `{agent}` has no tool `{name}` for the contract given (there are: {known})"
                )));
            }
        }
        Ok(())
    }

    /// What the model is told about a call it asked for.
    async fn answer_of(
        &self,
        cx: &mut Cx,
        pending: PendingToolCall,
    ) -> Result<UserContent, StepError<Failure>> {
        let PendingToolCall { tool_call, preresolved_result } = pending;
        if let Some(result) = preresolved_result {
            return Ok(result);
        }
        let ToolCall { id, function, .. } = tool_call;
        if let Some(raw) = &function.invalid_arguments {
            let feedback = invalid_arguments_feedback(function.name.as_str(), raw);
            return Ok(tool_result_message(id, function.name, feedback));
        }
        let arguments = match function.arguments_value() {
            Value::Object(arguments) => arguments,
            _ => Map::new(),
        };
        let contract = self.contracts.get(function.name.as_str()).copied().unwrap_or_default();
        match self.call(cx, function.name.as_str(), arguments, contract).await {
            Ok(result) => Ok(tool_result_output(id, function.name, &result)),
            Err(StepError::App(error) | StepError::Exhausted(error)) => {
                Ok(tool_result_output(id, function.name, &error.result))
            }
            Err(error) => Ok(tool_result_message(id, function.name, told(error, contract)?)),
        }
    }

    fn call<'c>(
        &self,
        cx: &'c mut Cx,
        tool: &str,
        arguments: Map<String, Value>,
        contract: Contract,
    ) -> BoxEffect<'c, Result<ToolResult, StepError<ToolFailed>>> {
        let (agent, tool) = (self.agent.clone(), tool.to_owned());
        let name = format!("rig.{agent}.tool.{tool}");
        let args = Payload::encode(&ToolArgs { agent: agent.clone(), tool: tool.clone(), arguments });
        let body = CallTool { agent, tool, changes_world: contract.changes_world() };
        cx.effect(name, contract.step_options(), args, Arc::new(body))
    }
}

/// What the model is told about a call without a result; or the error itself, where it is not known whether the call
/// changed the world, or where the run is to end.
fn told(error: StepError<ToolFailed>, contract: Contract) -> Result<String, StepError<Failure>> {
    let changes_world = contract.changes_world();
    let error: StepError<Failure> = match error {
        StepError::App(error) => StepError::App(Failure::permanent(error)),
        StepError::Exhausted(error) => StepError::Exhausted(Failure::permanent(error)),
        // No one approved the call in time: what the run does then is not for the model to decide.
        StepError::TimedOut(failure) if failure.time_limit().is_some_and(|it| it.waiting.is_some()) => {
            return Err(StepError::TimedOut(failure));
        }
        StepError::TimedOut(failure) => StepError::TimedOut(failure),
        StepError::Rejected(failure) => StepError::Rejected(failure),
        StepError::Taken(holder) => StepError::Taken(holder),
        StepError::InDoubt(failure) => return Err(StepError::InDoubt(failure)),
        StepError::Cancelled(failure) => return Err(StepError::Cancelled(failure)),
        StepError::OverBudget(over) => return Err(StepError::OverBudget(over)),
        StepError::Panicked(failure) if changes_world => return Err(StepError::Panicked(failure)),
        StepError::Panicked(failure) => StepError::Panicked(failure),
        StepError::Unrecordable(failure) if changes_world => return Err(StepError::Unrecordable(failure)),
        StepError::Unrecordable(failure) => StepError::Unrecordable(failure),
        other => refusal(format_args!("{other:?}")),
    };
    Ok(format!("error: {error}"))
}

/// The end of a run that rig's protocol ended.
fn ended(error: PromptError) -> StepError<Failure> {
    refusal(error)
}

pub(crate) fn refusal(reason: impl Display) -> StepError<Failure> {
    StepError::App(Failure::permanent(reason))
}
