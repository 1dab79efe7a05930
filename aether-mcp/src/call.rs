//! `cx.mcp(..)`: calling a tool, and listing tools, as recorded commands.

use std::sync::Arc;

use aether_core::definition::def::StepOptions;
use aether_core::failure::{Failure, StepError};
use aether_core::outcome::EffectClass;
use aether_core::payload::Payload;
use aether_core::workflow::{BoxEffect, Cx};
use rmcp::model::JsonObject;
use serde::Serialize;
use serde_json::Value;

use crate::bodies::{List, ListArgs};
use crate::contract::Contract;
use crate::drive::Driven;
use crate::list::ToolList;
use crate::reply::CallArgs;
use crate::result::ToolResult;

/// `cx.mcp(..)` in workflows.
pub trait CxMcp {
    /// The server that the program calls `name`; see [`Mcp::server`](crate::Mcp::server).
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
        let args = CallArgs { server, tool: name.into(), arguments: JsonObject::new(), round: None };
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
    /// What the tool asks for in the middle is a question to a person, answered by `engine.answer(..)` with an
    /// [`InputAnswer`](crate::InputAnswer), or by [`Contract::answered_by`]. A call that becomes a task of the server is waited
    /// for by durable timers.
    ///
    /// The step error is `App` or `Exhausted` when the tool surely was not called or changes nothing, and `InDoubt` when the
    /// answer of a tool that may have changed the world was lost. How a task ended that gave no result says
    /// [`TaskEnd::of`](crate::TaskEnd::of).
    pub fn call(self) -> BoxEffect<'c, Result<ToolResult, StepError<Failure>>> {
        let Self { cx, args, contract } = self;
        let (args, problem) = match args {
            Ok(args) => (args, None),
            Err((args, problem)) => (args, Some(problem)),
        };
        let driven = Driven { args, contract, problem, limit: cx.take_limit() };
        cx.scoped(move |mut cx| async move { driven.run(&mut cx).await })
    }
}
