//! The bodies of recorded commands: one request of a call, a list of tools, and what is asked about a task.
//!
//! Promise: a body sends one request. A call that began a task leaves behind what would cancel it. No budget holds for what
//! is asked about a task: the call that began it has counted.

use std::pin::pin;
use std::time::Duration;

use aether_core::definition::def::{OnUnknown, Retry, StepOptions};
use aether_core::failure::Failure;
use aether_core::outcome::EffectClass;
use aether_core::payload::{Payload, PayloadError};
use aether_core::step::{
    Body, BodyResult, Declared, ErrorClass, RegisteredStep, Signature, Step, StepBody, StepCx, Undo,
};
use aether_core::trace::TraceContext;
use aether_effects::recorded_error::body_error;
use futures_util::future::{BoxFuture, Either, select};
use rmcp::model::{CallToolRequestParams, RequestMetaObject, UpdateTaskParams};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::connection::{Answer, Mcp};
use crate::contract::Contract;
use crate::error::{Asked, McpError};
use crate::input::Responses;
use crate::list::ToolList;
use crate::reply::{CallArgs, InputRequired, Reply, TaskArgs, TaskSeen, TaskState};

/// Where a call's idempotency key stands in its `_meta`.
pub const KEY_FIELD: &str = "dev.aether/idempotencyKey";

/// Time for a list of tools, and for what is asked about a task.
const SHORT_TIMEOUT: Duration = Duration::from_secs(30);

/// One request of a call.
pub(crate) struct Call {
    pub(crate) server: String,
    pub(crate) tool: String,
    pub(crate) contract: Contract,
    pub(crate) problem: Option<String>,
    /// Which request of the call it is, from 0.
    pub(crate) round: usize,
}

impl Call {
    fn asked(&self) -> Asked {
        let changes_world = self.contract.changes_world();
        Asked { server: self.server.clone(), tool: Some(self.tool.clone()), changes_world }
    }

    /// What is sent: the arguments, the key that tells repeats, and the trace context if there is one.
    fn params(
        &self,
        args: CallArgs,
        key: &str,
        trace: Option<TraceContext>,
    ) -> Result<CallToolRequestParams, PayloadError> {
        let mut arguments = args.arguments;
        if let Some(name) = &self.contract.key_argument {
            arguments.insert(name.clone(), Value::from(key));
        }
        let mut params = CallToolRequestParams::new(args.tool).with_arguments(arguments);
        let mut meta = RequestMetaObject::new();
        meta.insert(KEY_FIELD.into(), Value::from(key));
        if let Some(trace) = trace {
            meta.insert("traceparent".into(), Value::from(trace.to_string()));
        }
        params.meta = Some(meta);
        if let Some(round) = args.round {
            params.input_responses =
                if round.responses.is_empty() { None } else { Some(on_wire(&round.responses)?) };
            params.request_state = round.state;
        }
        Ok(params)
    }
}

/// Answers as the wire has them.
fn on_wire(responses: &Responses) -> Result<std::collections::BTreeMap<String, Value>, PayloadError> {
    Payload::encode(responses)?.decode()
}

impl Body for Call {
    fn call(&self, cx: StepCx, args: &Payload) -> BoxFuture<'static, BodyResult> {
        let (args, asked, limit) = (args.decode::<CallArgs>(), self.asked(), self.contract.timeout);
        let invalid = self.problem.clone().map(|reason| McpError::Invalid { asked: asked.clone(), reason });
        let request = args.and_then(|args| {
            // All rounds of a call have the key of its first.
            let key = args
                .round
                .as_ref()
                .map_or_else(|| cx.idempotency_key().to_string(), |round| round.key.clone());
            Ok((self.params(args, &key, cx.trace_context())?, key))
        });
        Box::pin(async move {
            let (params, key) = request?;
            if let Some(error) = invalid {
                return encoded::<Reply>(Err(error));
            }
            let at = cx.now();
            let answer = answer(&cx, &asked, async |mcp: &Mcp| mcp.call(&asked, at, params, limit).await);
            encoded(answer.await.map(|answer| match answer {
                Answer::Complete(result) => Reply::Complete(result),
                Answer::Input(requests, state) => {
                    Reply::Input { input_required: InputRequired { key, requests, state } }
                }
                Answer::Task(task) => Reply::Task { task },
            }))
        })
    }

    /// A person who edits the arguments of a call does not make it another tool's.
    fn check(&self, args: &Payload) -> Result<(), PayloadError> {
        let args: CallArgs = args.decode()?;
        if (&args.server, &args.tool) == (&self.server, &self.tool) {
            return Ok(());
        }
        let (server, tool) = (&self.server, &self.tool);
        Err(PayloadError::Decode {
            ty: std::any::type_name::<CallArgs>(),
            reason: format!("this is a call of tool `{tool}` of server `{server}`, and of no other"),
            start: format!("{}/{}", args.server, args.tool),
        })
    }

    fn needs_approval(&self, args: &Payload) -> Result<bool, PayloadError> {
        let Some(rule) = &self.contract.approval_rule else { return Ok(false) };
        let args: CallArgs = args.decode()?;
        Ok((rule.0)(&Payload::encode(&args.arguments)?))
    }

    fn accepts(&self, value: &Payload) -> Result<(), PayloadError> {
        value.decode::<Reply>().map(drop)
    }

    /// A later round repeats no earlier one, also where it says the same: what the call is about has the key of its first.
    fn business_key(&self, args: &Payload) -> Result<Option<String>, PayloadError> {
        let args: CallArgs = args.decode()?;
        Ok(args.round.map(|round| format!("{}#{}", round.key, self.round)))
    }

    /// A call that began a task is undone by the end of the task.
    fn compensation(&self, _args: &Payload, output: Option<&Payload>) -> Result<Option<Undo>, PayloadError> {
        let Some(Reply::Task { task }) = output.map(Payload::decode).transpose()? else { return Ok(None) };
        let (server, tool) = (self.server.clone(), self.tool.clone());
        let args = TaskArgs { server, tool, task: task.id, responses: Responses::new() };
        Ok(Some(Undo::of::<CancelTask>(&args)))
    }
}

/// A list of the tools of a server.
pub(crate) struct List;

/// The recorded arguments of a list.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ListArgs {
    pub(crate) server: String,
}

impl Body for List {
    fn call(&self, cx: StepCx, args: &Payload) -> BoxFuture<'static, BodyResult> {
        let args = args.decode::<ListArgs>();
        Box::pin(async move {
            let asked = Asked { server: args?.server, tool: None, changes_world: false };
            let at = cx.now();
            let list = async |mcp: &Mcp| mcp.list(&asked, at, SHORT_TIMEOUT).await;
            encoded(answer(&cx, &asked, list).await)
        })
    }

    fn accepts(&self, value: &Payload) -> Result<(), PayloadError> {
        value.decode::<ToolList>().map(drop)
    }
}

/// How far a task is.
pub(crate) struct SeeTask;

impl Body for SeeTask {
    fn call(&self, cx: StepCx, args: &Payload) -> BoxFuture<'static, BodyResult> {
        let args = args.decode::<TaskArgs>();
        Box::pin(async move {
            let args = args?;
            let asked = about(&args, false);
            let at = cx.now();
            let see = async |mcp: &Mcp| mcp.task(&asked, at, &args.task, SHORT_TIMEOUT).await;
            encoded(answer(&cx, &asked, see).await.map(|state| TaskSeen { at, state }))
        })
    }

    fn accepts(&self, value: &Payload) -> Result<(), PayloadError> {
        value.decode::<TaskSeen>().map(drop)
    }

    fn counts(&self) -> bool {
        false
    }
}

/// Tells a task what it asked for. A repeat changes nothing: what was answered and is not asked again is passed over.
pub(crate) struct UpdateTask {
    /// How often the task was told something before.
    pub(crate) before: usize,
}

impl Body for UpdateTask {
    fn call(&self, cx: StepCx, args: &Payload) -> BoxFuture<'static, BodyResult> {
        let args = args.decode::<TaskArgs>();
        Box::pin(async move {
            let args = args?;
            let asked = about(&args, true);
            let at = cx.now();
            let params = UpdateTaskParams::new(args.task.clone(), on_wire(&args.responses)?);
            let update = async |mcp: &Mcp| mcp.update_task(&asked, at, params, SHORT_TIMEOUT).await;
            encoded(answer(&cx, &asked, update).await)
        })
    }

    /// The same may be told again, where the task asks as if it had not been told.
    fn business_key(&self, args: &Payload) -> Result<Option<String>, PayloadError> {
        let args: TaskArgs = args.decode()?;
        Ok(Some(format!("{}/{}#{}", args.server, args.task, self.before)))
    }

    fn counts(&self) -> bool {
        false
    }
}

/// Ends a task that takes too long, as [`CancelTask`] does.
pub(crate) struct StopTask;

impl Body for StopTask {
    fn call(&self, cx: StepCx, args: &Payload) -> BoxFuture<'static, BodyResult> {
        StepBody::<CancelTask>::shared().call(cx, args)
    }

    fn accepts(&self, value: &Payload) -> Result<(), PayloadError> {
        value.decode::<bool>().map(drop)
    }

    fn counts(&self) -> bool {
        false
    }
}

/// Ends a task that still runs. A step, so that a run that is cancelled or fails ends its tasks by it.
pub(crate) struct CancelTask;

/// How the requests about a task that change something are made: repeats do no harm.
pub(crate) const REPEATABLE: StepOptions = StepOptions {
    retry: Some(Retry::times(3)),
    on_unknown: OnUnknown::Retry,
    idempotent: true,
    // A request has a timeout of its own, and there are two.
    timeout: None,
    ..StepOptions::of(EffectClass::Tool)
};

impl Signature for CancelTask {
    type Returned = Result<bool, Failure>;
}

impl Step for CancelTask {
    const DECLARED: Declared<Self::Returned> = Declared {
        name: "mcp.cancel_task",
        path: "aether_mcp::cancel_task",
        function: "",
        fingerprint: "",
        doc: "Ends a task of an MCP server, if it still runs.",
        file: file!(),
        line: line!(),
        class: REPEATABLE.class,
        classify: ErrorClass::of,
    };
    const OPTIONS: StepOptions = REPEATABLE;
    type Args = TaskArgs;

    fn encode(args: &TaskArgs) -> Result<Payload, PayloadError> {
        Payload::encode(args)
    }

    fn decode(args: &Payload) -> Result<TaskArgs, PayloadError> {
        args.decode()
    }

    /// Whether the task still ran.
    fn call(cx: StepCx, args: TaskArgs) -> BoxFuture<'static, Result<bool, Failure>> {
        Box::pin(async move {
            let asked = about(&args, true);
            let at = cx.now();
            let cancel = async |mcp: &Mcp| {
                let running = match mcp.task(&asked, at, &args.task, SHORT_TIMEOUT).await? {
                    TaskState::Working { .. } | TaskState::InputRequired { .. } => true,
                    _ => return Ok(false),
                };
                mcp.cancel_task(&asked, at, &args.task, SHORT_TIMEOUT).await?;
                Ok(running)
            };
            answer(&cx, &asked, cancel).await.map_err(Failure::from)
        })
    }
}

inventory::submit! { RegisteredStep::of::<CancelTask>() }

fn about(args: &TaskArgs, changes_world: bool) -> Asked {
    Asked { server: args.server.clone(), tool: Some(args.tool.clone()), changes_world }
}

fn encoded<T: Serialize>(answer: Result<T, McpError>) -> BodyResult {
    Ok(match answer {
        Ok(value) => Ok(Payload::encode(&value)?),
        Err(error) => Err(body_error(error)?),
    })
}

/// Asks a server that the program provides. What changes nothing is dropped when the run is cancelled; anything else is
/// waited for, so that its outcome is known.
async fn answer<T>(
    cx: &StepCx,
    asked: &Asked,
    ask: impl AsyncFnOnce(&Mcp) -> Result<T, McpError>,
) -> Result<T, McpError> {
    let mcp = cx
        .dep::<Mcp>()
        .map_err(|error| McpError::Invalid { asked: asked.clone(), reason: error.to_string() })?;
    if asked.changes_world {
        return ask(&mcp).await;
    }
    match select(pin!(ask(&mcp)), pin!(cx.cancelled())).await {
        Either::Left((answer, _)) => answer,
        Either::Right(_) => Err(McpError::Cancelled { asked: asked.clone() }),
    }
}
