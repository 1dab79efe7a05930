//! Tools that a run learns of while it runs: those of a server, whose list is recorded.
//!
//! Promise: what a toolbox offers is asked for once for an agent, as a recorded command, and an agent works with that
//! answer to its end.

use std::fmt;
use std::sync::Arc;

use aether_core::failure::{Failure, StepError};
use aether_core::payload::{Payload, PayloadError};
use aether_core::step::Tool;
use aether_core::workflow::{BoxEffect, Cx};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::Value;

use super::hand_off::HandOffTool;
use crate::model::chat::ToolSpec;

/// A source of tools that only the running workflow can ask for them. Give it to an agent by
/// [`Agent::toolbox`](super::Agent::toolbox).
pub trait Toolbox: Send + Sync {
    /// The tools, by recorded commands of `cx`. What they are must follow from what is recorded.
    fn open<'c>(&'c self, cx: &'c mut Cx) -> BoxEffect<'c, Result<RuntimeTools, StepError<Failure>>>;
}

/// What a toolbox offers.
pub type RuntimeTools = Vec<Arc<dyn RuntimeTool>>;

/// A tool that is made while a run runs, and not by a step of the program.
pub trait RuntimeTool: Send + Sync {
    /// The name by which a model calls it.
    fn name(&self) -> &str;

    /// What it does, for a model to decide by.
    fn description(&self) -> &str;

    /// JSON Schema of its arguments, an object.
    fn schema(&self) -> &Value;

    /// Whether a call may change the world: such calls are made one after the other, and one whose outcome is not known
    /// ends the agent.
    fn changes_world(&self) -> bool;

    /// Checks that a call with `args` could be made, without making it.
    ///
    /// # Errors
    /// [`PayloadError`], whose text is told to the model.
    fn check(&self, args: &Payload) -> Result<(), PayloadError>;

    /// Where it comes from, for messages: such as "MCP server `tracker`".
    fn source(&self) -> String {
        "a toolbox".into()
    }

    /// Calls it, recorded. The value is what the model is told.
    fn call<'c>(&'c self, cx: &'c mut Cx, args: Payload)
    -> BoxEffect<'c, Result<String, StepError<Failure>>>;
}

/// One tool of an agent.
#[derive(Clone)]
pub(super) enum AgentTool {
    /// A step of the program.
    Step(Tool),
    /// One from a toolbox.
    Runtime(Arc<dyn RuntimeTool>),
    /// One that hands the conversation over.
    HandOff(HandOffTool),
}

impl AgentTool {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Step(tool) => tool.name(),
            Self::Runtime(tool) => tool.name(),
            Self::HandOff(tool) => &tool.name,
        }
    }

    /// Where it comes from, for messages.
    pub(super) fn source(&self) -> String {
        match self {
            Self::Step(_) => "the program".into(),
            Self::Runtime(tool) => tool.source(),
            Self::HandOff(tool) => format!("the hand-off to `{}`", tool.to),
        }
    }

    pub(super) fn changes_world(&self) -> bool {
        match self {
            Self::Step(tool) => tool.def.options.class.changes_world(),
            Self::Runtime(tool) => tool.changes_world(),
            Self::HandOff(_) => false,
        }
    }

    /// What the model sees of it.
    pub(super) fn spec(&self) -> ToolSpec {
        let (description, schema) = match self {
            Self::Step(tool) => (tool.def.doc, &tool.schema),
            Self::Runtime(tool) => (tool.description(), tool.schema()),
            Self::HandOff(tool) => (&*tool.description, tool.schema()),
        };
        ToolSpec { name: self.name().into(), description: description.trim().into(), schema: schema.clone() }
    }

    pub(super) fn check(&self, args: &Payload) -> Result<(), PayloadError> {
        match self {
            Self::Step(tool) => tool.check(args),
            Self::Runtime(tool) => tool.check(args),
            Self::HandOff(tool) => tool.check(args),
        }
    }

    /// Calls it; the value is what the model is told.
    pub(super) fn call<'c>(
        &'c self,
        cx: &'c mut Cx,
        args: Payload,
    ) -> BoxFuture<'c, Result<String, StepError<Failure>>> {
        match self {
            Self::Step(tool) => cx.call_tool(tool, args).map(as_text).boxed(),
            Self::Runtime(tool) => tool.call(cx, args).boxed(),
            Self::HandOff(tool) => std::future::ready(Ok(tool.told())).boxed(),
        }
    }
}

impl fmt::Debug for AgentTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AgentTool").field(&self.name()).finish()
    }
}

/// What a step answered, as a model is told it.
fn as_text(answer: Result<Payload, StepError<Payload>>) -> Result<String, StepError<Failure>> {
    match answer {
        Ok(value) => Ok(value.decode::<String>().unwrap_or_else(|_| value.as_str().to_owned())),
        Err(StepError::App(error)) => Err(StepError::App(failure(&error))),
        Err(StepError::Exhausted(error)) => Err(StepError::Exhausted(failure(&error))),
        Err(StepError::TimedOut(why)) => Err(StepError::TimedOut(why)),
        Err(StepError::Rejected(why)) => Err(StepError::Rejected(why)),
        Err(StepError::Taken(holder)) => Err(StepError::Taken(holder)),
        Err(StepError::InDoubt(why)) => Err(StepError::InDoubt(why)),
        Err(StepError::Cancelled(why)) => Err(StepError::Cancelled(why)),
        Err(StepError::Panicked(why)) => Err(StepError::Panicked(why)),
        Err(StepError::Unrecordable(why)) => Err(StepError::Unrecordable(why)),
        Err(StepError::OverBudget(over)) => Err(StepError::OverBudget(over)),
        Err(other) => Err(StepError::App(Failure::permanent(format_args!("{other:?}")))),
    }
}

/// A tool's own error, whatever its type.
fn failure(error: &Payload) -> Failure {
    error.decode().unwrap_or_else(|_| Failure::new(error.as_str()))
}

/// The toolboxes of an agent, in the order in which they were given.
#[derive(Clone, Default)]
pub(super) struct Toolboxes(pub(super) Vec<Arc<dyn Toolbox>>);

impl Toolboxes {
    /// All tools of all toolboxes.
    pub(super) async fn open(&self, cx: &mut Cx) -> Result<Vec<AgentTool>, StepError<Failure>> {
        let mut tools = Vec::new();
        for toolbox in &self.0 {
            tools.extend(toolbox.open(cx).await?.into_iter().map(AgentTool::Runtime));
        }
        Ok(tools)
    }
}

impl fmt::Debug for Toolboxes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Toolboxes({})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use aether_core::budget::{BudgetKind, OverBudget};

    use super::*;

    /// A model cannot mend it: the agent ends, and its caller is told.
    #[test]
    fn a_tool_that_a_budget_does_not_allow_is_no_word_for_the_model() {
        let over = OverBudget {
            budget: "b".into(),
            kind: BudgetKind::Calls,
            limit: 1,
            spent: 1,
            reserved: 0,
            needed: Some(1),
            why: None,
        };
        assert_eq!(as_text(Err(StepError::OverBudget(over.clone()))), Err(StepError::OverBudget(over)));
    }
}
