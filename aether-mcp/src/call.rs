//! `cx.mcp(..)`: calling a tool, and listing tools, as recorded commands.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use aether_core::definition::def::StepOptions;
use aether_core::failure::{Failure, StepError};
use aether_core::outcome::EffectClass;
use aether_core::payload::{Payload, PayloadError};
use aether_core::step::{Body, BodyResult, StepCx};
use aether_core::workflow::{BoxEffect, Cx};
use aether_effects::recorded_error::body_error;
use futures_util::future::{BoxFuture, Either, select};
use rmcp::model::{CallToolRequestParams, JsonObject, RequestMetaObject};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::connection::Mcp;
use crate::contract::Contract;
use crate::error::{Asked, McpError};
use crate::list::ToolList;
use crate::result::ToolResult;

/// Where a call's idempotency key stands in its `_meta`.
pub const KEY_FIELD: &str = "dev.aether/idempotencyKey";

/// Time for a list of tools.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// `cx.mcp(..)` in workflows.
pub trait CxMcp {
    /// The server that the program calls `name`; see [`Mcp::server`].
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// use aether_mcp::CxMcp;
    /// use serde_json::json;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// let issue = cx.mcp("tracker").tool("create_issue").args(&json!({ "title": "A leak" })).call().await?;
    /// println!("{}", issue.error_if_failed()?.text());
    /// # Ok(())
    /// # }
    /// ```
    fn mcp(&mut self, name: impl Into<String>) -> McpServer<'_>;
}

impl CxMcp for Cx {
    fn mcp(&mut self, name: impl Into<String>) -> McpServer<'_> {
        McpServer { cx: self, name: name.into() }
    }
}

/// A server, as a workflow sees it.
#[must_use = "a server does something by `.tool(..)` or `.tools()`"]
#[derive(Debug)]
pub struct McpServer<'c> {
    cx: &'c mut Cx,
    name: String,
}

impl<'c> McpServer<'c> {
    /// Begins a call of the tool `name`.
    pub fn tool(self, name: impl Into<String>) -> ToolCall<'c> {
        let Self { cx, name: server } = self;
        let args = CallArgs { server, tool: name.into(), arguments: JsonObject::new() };
        ToolCall { cx, args: Ok(args), contract: Contract::default() }
    }

    /// The tools of the server, sorted by name. Recorded, as a read: a server that changes its tools later changes nothing
    /// for this run.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// use aether_mcp::{Contract, CxMcp};
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// let tools = cx.mcp("tracker").tools().await?;
    /// if let Some(search) = tools.get("search") {
    ///     let contract = Contract::trusting(&search.hints);
    ///     cx.mcp("tracker").tool("search").contract(contract).call().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn tools(self) -> BoxEffect<'c, Result<ToolList, StepError<Failure>>> {
        let Self { cx, name: server } = self;
        let name = format!("mcp.{server}.tools");
        let options = StepOptions { timeout: None, ..StepOptions::of(EffectClass::Read) };
        cx.effect(name, options, Payload::encode(&ListArgs { server }), Arc::new(List))
    }
}

/// A call of a tool under construction.
#[must_use = "a tool is called by `.call().await`"]
#[derive(Debug)]
pub struct ToolCall<'c> {
    cx: &'c mut Cx,
    args: Result<CallArgs, (CallArgs, String)>,
    contract: Contract,
}

impl<'c> ToolCall<'c> {
    /// The arguments: something that serializes to a JSON object. They are recorded; keep secrets out of them. Without this
    /// there are none.
    pub fn args(mut self, arguments: &(impl Serialize + ?Sized)) -> Self {
        let mut args = match self.args {
            Ok(args) | Err((args, _)) => args,
        };
        self.args = match serde_json::to_value(arguments) {
            Ok(Value::Object(arguments)) => {
                args.arguments = arguments;
                Ok(args)
            }
            Ok(_) => Err((args, "the arguments are not a JSON object: give a struct or a map".into())),
            Err(error) => Err((args, format!("the arguments do not serialize: {error}"))),
        };
        self
    }

    /// What the program says about the tool. Without it, the tool changes the world.
    pub fn contract(mut self, contract: Contract) -> Self {
        self.contract = contract;
        self
    }

    /// Calls the tool, recorded. An error that the tool reports is a value: see [`ToolResult::error_if_failed`].
    ///
    /// The step error is `App` or `Exhausted` when the tool surely was not called or changes nothing, and `InDoubt` when the
    /// answer of a tool that may have changed the world was lost.
    pub fn call(self) -> BoxEffect<'c, Result<ToolResult, StepError<Failure>>> {
        let Self { cx, args, contract } = self;
        let (args, problem) = match args {
            Ok(args) => (args, None),
            Err((args, problem)) => (args, Some(problem)),
        };
        let name = format!("mcp.{}.{}", args.server, args.tool);
        let options = contract.step_options();
        let recorded = Payload::encode(&args);
        let body = Call { server: args.server, tool: args.tool, contract, problem };
        cx.effect(name, options, recorded, Arc::new(body))
    }
}

/// The recorded arguments of a call.
#[derive(Debug, Serialize, Deserialize)]
struct CallArgs {
    server: String,
    tool: String,
    arguments: JsonObject,
}

/// The recorded arguments of a list.
#[derive(Debug, Serialize, Deserialize)]
struct ListArgs {
    server: String,
}

/// The body of a call.
struct Call {
    server: String,
    tool: String,
    contract: Contract,
    problem: Option<String>,
}

impl Call {
    fn asked(&self) -> Asked {
        let changes_world = self.contract.changes_world();
        Asked { server: self.server.clone(), tool: Some(self.tool.clone()), changes_world }
    }

    /// What is sent: the arguments, and the key that tells repeats.
    fn params(&self, args: CallArgs, key: &str) -> CallToolRequestParams {
        let mut arguments = args.arguments;
        if let Some(name) = &self.contract.key_argument {
            arguments.insert(name.clone(), Value::from(key));
        }
        let mut params = CallToolRequestParams::new(args.tool).with_arguments(arguments);
        let mut meta = RequestMetaObject::new();
        meta.insert(KEY_FIELD.into(), Value::from(key));
        params.meta = Some(meta);
        params
    }
}

impl Body for Call {
    fn call(&self, cx: StepCx, args: &Payload) -> BoxFuture<'static, BodyResult> {
        let (args, asked, limit) = (args.decode::<CallArgs>(), self.asked(), self.contract.timeout);
        let invalid = self.problem.clone().map(|reason| McpError::Invalid { asked: asked.clone(), reason });
        let params = args.map(|args| self.params(args, &cx.next_request_key()));
        Box::pin(async move {
            let params = params?;
            let answer = match invalid {
                Some(error) => Err(error),
                None => answer(&cx, &asked, async |mcp: &Mcp| mcp.call(&asked, params, limit).await).await,
            };
            encoded(answer)
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

    fn accepts(&self, value: &Payload) -> Result<(), PayloadError> {
        value.decode::<ToolResult>().map(drop)
    }
}

/// The body of a list.
struct List;

impl Body for List {
    fn call(&self, cx: StepCx, args: &Payload) -> BoxFuture<'static, BodyResult> {
        let args = args.decode::<ListArgs>();
        Box::pin(async move {
            let asked = Asked { server: args?.server, tool: None, changes_world: false };
            encoded(answer(&cx, &asked, async |mcp: &Mcp| mcp.list(&asked, LIST_TIMEOUT).await).await)
        })
    }

    fn accepts(&self, value: &Payload) -> Result<(), PayloadError> {
        value.decode::<ToolList>().map(drop)
    }
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
