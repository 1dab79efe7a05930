//! The tools of a server for an agent: `cx.agent("support").toolbox(&McpToolbox::of("tracker"))`.
//!
//! Promise: the agent works with the list that its run recorded. A tool is called as its contract says, and a tool that the
//! server has no more is an answer to the model.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aether_core::failure::{Failure, StepError};
use aether_core::payload::{Payload, PayloadError};
use aether_core::workflow::{BoxEffect, Cx};
use aether_effects::agent::{RuntimeTool, RuntimeTools, Toolbox};
use rmcp::model::JsonObject;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::call::CxMcp as _;
use crate::contract::Contract;
use crate::list::{ListedTool, ToolList};
use crate::result::ToolResult;

/// Longest name of a tool that providers of models take.
const LONGEST_NAME: usize = 64;
/// Hexadecimal digits that tell names apart which had to be changed.
const DIGITS: usize = 8;

/// The tools of a server, for an agent. A model sees a tool by the name of its server and its own, `tracker__search`, so that
/// servers do not get into each other's way.
///
/// Without a word each tool changes the world: it is called once, and a lost answer ends the agent with `InDoubt`.
///
/// ```
/// # use aether_core::failure::Result;
/// # use aether_core::workflow::Cx;
/// use aether_effects::agent::CxAgent;
/// use aether_mcp::{Contract, McpToolbox};
/// # async fn workflow(cx: &mut Cx) -> Result<()> {
/// let tracker = McpToolbox::of("tracker")
///     .contract("search", Contract::read())
///     .contract("close_issue", Contract::tool().needs_approval());
/// let report = cx.agent("support").toolbox(&tracker).run("Close the ticket about the leak.").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct McpToolbox {
    server: String,
    contracts: BTreeMap<String, Contract>,
    otherwise: Contract,
    trusted: bool,
    only: Option<BTreeSet<String>>,
    without: BTreeSet<String>,
}

impl McpToolbox {
    /// All tools of the server that the program calls `server`; see [`Mcp::server`](crate::Mcp::server).
    pub fn of(server: impl Into<String>) -> Self {
        Self {
            server: server.into(),
            contracts: BTreeMap::new(),
            otherwise: Contract::tool(),
            trusted: false,
            only: None,
            without: BTreeSet::new(),
        }
    }

    /// What the program says about the tool `name`, as the server calls it. A server that has no such tool is no error.
    pub fn contract(mut self, name: impl Into<String>, contract: Contract) -> Self {
        self.contracts.insert(name.into(), contract);
        self
    }

    /// What the program says about every tool of which it says nothing by name. Without this, [`Contract::tool`].
    pub fn otherwise(mut self, contract: Contract) -> Self {
        self.otherwise = contract;
        self
    }

    /// Believes what the server says about its tools, where the program says nothing of them by name: see
    /// [`Contract::trusting`]. A server that is wrong about itself makes calls repeat.
    pub fn trust_annotations(mut self) -> Self {
        self.trusted = true;
        self
    }

    /// Offers these tools and no others, by the server's names.
    ///
    /// ```
    /// use aether_mcp::McpToolbox;
    /// let readers = McpToolbox::of("files").only(["read_file", "list_directory"]);
    /// ```
    pub fn only(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.only = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Does not offer these tools, by the server's names.
    pub fn without(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.without.extend(names.into_iter().map(Into::into));
        self
    }

    fn contract_of(&self, tool: &ListedTool) -> Contract {
        match self.contracts.get(&tool.name) {
            Some(contract) => contract.clone(),
            // What else the program says of all tools holds for these as well.
            None if self.trusted => self.otherwise.believing(&tool.hints),
            None => self.otherwise.clone(),
        }
    }

    /// The tools that are offered, of those that the server has.
    fn offered(&self, list: ToolList) -> RuntimeTools {
        let is_offered = |name: &String| {
            self.only.as_ref().is_none_or(|only| only.contains(name)) && !self.without.contains(name)
        };
        let (mut tools, mut taken) = (RuntimeTools::new(), BTreeSet::new());
        for tool in list.tools {
            if !is_offered(&tool.name) {
                continue;
            }
            let mut shown = shown_name(&self.server, &tool.name, false);
            if !taken.insert(shown.clone()) {
                shown = shown_name(&self.server, &tool.name, true);
                taken.insert(shown.clone());
            }
            let contract = self.contract_of(&tool);
            tools.push(Arc::new(ServerTool { server: self.server.clone(), shown, contract, tool }));
        }
        tools
    }
}

impl Toolbox for McpToolbox {
    fn open<'c>(&'c self, cx: &'c mut Cx) -> BoxEffect<'c, Result<RuntimeTools, StepError<Failure>>> {
        cx.mcp(&self.server).tools().map(|list| Ok(self.offered(list?)))
    }
}

/// One tool of a server.
struct ServerTool {
    server: String,
    /// The name by which a model calls it.
    shown: String,
    contract: Contract,
    tool: ListedTool,
}

impl RuntimeTool for ServerTool {
    fn name(&self) -> &str {
        &self.shown
    }

    fn description(&self) -> &str {
        &self.tool.description
    }

    fn schema(&self) -> &Value {
        &self.tool.schema
    }

    fn source(&self) -> String {
        format!("MCP server `{}`", self.server)
    }

    fn changes_world(&self) -> bool {
        self.contract.changes_world()
    }

    fn check(&self, args: &Payload) -> Result<(), PayloadError> {
        args.decode::<JsonObject>().map(drop)
    }

    fn call<'c>(
        &'c self,
        cx: &'c mut Cx,
        args: Payload,
    ) -> BoxEffect<'c, Result<String, StepError<Failure>>> {
        let call = cx.mcp(&self.server).tool(&self.tool.name).contract(self.contract.clone());
        call.args(&args).call().map(|answer| Ok(told(&answer?)))
    }
}

/// What a model is told of an answer.
fn told(result: &ToolResult) -> String {
    let texts = result.content.iter().map(|block| match (block["type"].as_str(), block["text"].as_str()) {
        (Some("text"), Some(text)) => text.to_owned(),
        (Some(kind @ ("image" | "audio")), _) => {
            format!("[{kind}, {}]", block["mimeType"].as_str().unwrap_or("of an unknown type"))
        }
        _ => block.to_string(),
    });
    let mut text = texts.collect::<Vec<_>>().join("\n");
    if let (true, Some(structured)) = (text.is_empty(), &result.structured) {
        text = structured.to_string();
    }
    if result.is_error { format!("error: {text}") } else { text }
}

/// The name of a tool as a model sees it: letters, digits, `_` and `-`, and not too long. Names that are changed for this are
/// told apart by a hash.
fn shown_name(server: &str, tool: &str, distinct: bool) -> String {
    let whole = format!("{server}__{tool}");
    let plain: String =
        whole.chars().map(|c| if c.is_ascii_alphanumeric() || "_-".contains(c) { c } else { '_' }).collect();
    if !distinct && plain.len() <= LONGEST_NAME {
        return plain;
    }
    let hash = Sha256::digest(json!([server, tool]).to_string());
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).take(DIGITS / 2).collect();
    let start: String = plain.chars().take(LONGEST_NAME - DIGITS - 1).collect();
    format!("{start}_{hash}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::ToolHints;

    fn listed(name: &str, hints: ToolHints) -> ListedTool {
        ListedTool { name: name.into(), schema: json!({ "type": "object" }), hints, ..ListedTool::default() }
    }

    #[test]
    fn names_are_such_as_providers_take_and_stay_apart() {
        let long = "x".repeat(100);
        let tools = ["a.b", "a/b", "a_b", "ä", &long].map(|name| listed(name, ToolHints::default()));
        let offered = McpToolbox::of("my server").offered(ToolList { tools: tools.into() });
        let names: Vec<_> = offered.iter().map(|tool| tool.name().to_owned()).collect();
        assert_eq!((names[0].as_str(), names.len()), ("my_server__a_b", 5));
        for (number, name) in names.iter().enumerate() {
            assert!(name.len() <= 64 && !names[..number].contains(name), "{names:?}");
            assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'), "{name}");
        }
    }

    #[test]
    fn a_contract_by_name_comes_before_the_hints_and_these_count_only_where_they_are_believed() {
        let read = ToolHints { read_only: Some(true), ..ToolHints::default() };
        let tools = || ToolList { tools: vec![listed("a", read), listed("b", read)] };
        let changes = |toolbox: &McpToolbox| -> Vec<bool> {
            toolbox.offered(tools()).iter().map(|tool| tool.changes_world()).collect()
        };
        let plain = McpToolbox::of("s");
        assert_eq!(changes(&plain), [true, true]);
        let trusted = plain.clone().trust_annotations();
        assert_eq!(changes(&trusted), [false, false]);
        assert_eq!(changes(&trusted.contract("b", Contract::tool())), [false, true]);
        assert_eq!(changes(&plain.clone().otherwise(Contract::read())), [false, false]);
        assert_eq!(plain.clone().only(["b"]).offered(tools()).len(), 1);
        assert_eq!(plain.without(["b"]).offered(tools())[0].name(), "s__a");
    }

    #[test]
    fn a_model_is_told_texts_and_what_else_there_is() {
        let content = vec![
            json!({ "type": "text", "text": "17" }),
            json!({ "type": "image", "mimeType": "image/png", "data": "aGk=" }),
        ];
        let result = ToolResult { content, structured: Some(json!({ "n": 17 })), is_error: false };
        assert_eq!(told(&result), "17\n[image, image/png]");
        let failed = ToolResult { structured: Some(json!({ "n": 17 })), is_error: true, content: vec![] };
        assert_eq!(told(&failed), "error: {\"n\":17}");
    }
}
