//! One call of an agent's tool, as the body of a recorded command.

use aether_core::payload::{Payload, PayloadError};
use aether_core::step::{Body, BodyError, BodyResult, StepCx};
use futures_util::future::BoxFuture;
use rig_core::tool::{ContextValue, ToolExecutionError, ToolResult};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::agents::RigAgents;
use crate::error::{ToolFailed, class_of};

/// The key of a tool call, in the tool's context: the same for every physical try at one attempt. A tool that hands it to a
/// receiver that spots repeats may be declared [`idempotent`](crate::Contract::idempotent).
///
/// ```
/// use aether_rig::IdempotencyKey;
/// use aether_rig::rig_agent::tool::ToolContext;
/// fn header(context: &ToolContext) -> Option<String> {
///     Some(context.get::<IdempotencyKey>().ok()??.0)
/// }
/// assert_eq!(header(&ToolContext::new()), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdempotencyKey(pub String);

impl ContextValue for IdempotencyKey {
    const KEY: &'static str = "aether.idempotency_key";
}

/// The recorded arguments.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ToolArgs {
    pub(crate) agent: String,
    pub(crate) tool: String,
    pub(crate) arguments: Map<String, Value>,
}

/// The body of a call.
pub(crate) struct CallTool {
    pub(crate) agent: String,
    pub(crate) tool: String,
    pub(crate) changes_world: bool,
}

impl Body for CallTool {
    fn call(&self, cx: StepCx, args: &Payload) -> BoxFuture<'static, BodyResult> {
        let (args, changes_world) = (args.decode::<ToolArgs>(), self.changes_world);
        Box::pin(async move {
            let result = call(&cx, args?).await;
            match result.error() {
                None => Ok(Ok(Payload::encode(&result)?)),
                Some(error) => Ok(Err(failed(error, &result, changes_world)?)),
            }
        })
    }

    /// A person who edits the arguments of a call does not make it another tool's.
    fn check(&self, args: &Payload) -> Result<(), PayloadError> {
        let args: ToolArgs = args.decode()?;
        if (&args.agent, &args.tool) == (&self.agent, &self.tool) {
            return Ok(());
        }
        let (agent, tool) = (&self.agent, &self.tool);
        Err(PayloadError::Decode {
            ty: std::any::type_name::<ToolArgs>(),
            reason: format!("this is a call of tool `{tool}` of rig agent `{agent}`, and of no other"),
            start: format!("{}/{}", args.agent, args.tool),
        })
    }

    fn accepts(&self, value: &Payload) -> Result<(), PayloadError> {
        value.decode::<ToolResult>().map(drop)
    }

    fn failure(&self, error: &Payload) -> Result<BodyError, PayloadError> {
        let told: ToolFailed = error.decode()?;
        let class = told.result.error().map(|error| class_of(error, self.changes_world)).unwrap_or_default();
        Ok(BodyError { error: error.clone(), message: told.message, class, retry_after: None })
    }
}

fn failed(
    error: &ToolExecutionError,
    result: &ToolResult,
    changes_world: bool,
) -> Result<BodyError, PayloadError> {
    let (message, class) = (error.to_string(), class_of(error, changes_world));
    let error = Payload::encode(&ToolFailed { message: message.clone(), result: result.clone() })?;
    Ok(BodyError { error, message, class, retry_after: None })
}

/// Calls the tool as it is registered now.
async fn call(cx: &StepCx, args: ToolArgs) -> ToolResult {
    let nothing_called = |why: String| ToolResult::failed(ToolExecutionError::not_found(why));
    let agents = match cx.dep::<RigAgents>() {
        Ok(agents) => agents,
        Err(missing) => return nothing_called(missing.to_string()),
    };
    let served = match agents.get(&args.agent) {
        Ok(served) => served,
        Err(missing) => return nothing_called(missing.to_string()),
    };
    let mut context = served.context.clone();
    // A string always serializes.
    if let Err(error) = context.insert(IdempotencyKey(cx.idempotency_key().to_string())) {
        return nothing_called(error.to_string());
    }
    let tools = served.agent.tool_server_handle().snapshot();
    tools.execute(&args.tool, &Value::Object(args.arguments).to_string(), &mut context).await
}
