//! The tools that a server has, as data of a run.

use rmcp::model::Tool;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The tools of a server, sorted by name. Recorded: a server that changes its tools later changes nothing for the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolList {
    /// The tools, sorted by name.
    pub tools: Vec<ListedTool>,
}

/// One tool of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ListedTool {
    /// The name by which it is called.
    pub name: String,
    /// What it does, in the server's words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// JSON Schema of its arguments.
    pub schema: Value,
    /// What the server says about it.
    #[serde(default)]
    pub hints: ToolHints,
}

/// What a server says about a tool: hints, which count only where [`Contract::trusting`](crate::Contract::trusting) is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolHints {
    /// It changes nothing (`readOnlyHint`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// It may destroy something (`destructiveHint`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// Calling it again with the same arguments does nothing more (`idempotentHint`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// It reaches beyond the server's own domain (`openWorldHint`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
}

impl ToolList {
    /// What the wire said, in an order of its own.
    pub(crate) fn of(tools: Vec<Tool>) -> Self {
        let mut tools: Vec<_> = tools.into_iter().map(ListedTool::of).collect();
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        tools.dedup_by(|a, b| a.name == b.name);
        Self { tools }
    }

    /// The tool of this name.
    ///
    /// ```
    /// use aether_mcp::{ListedTool, ToolList};
    /// let tools = vec![ListedTool { name: "search".into(), ..ListedTool::default() }];
    /// let list = ToolList { tools };
    /// assert!(list.get("search").is_some() && list.get("find").is_none());
    /// ```
    pub fn get(&self, name: &str) -> Option<&ListedTool> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}

impl ListedTool {
    fn of(tool: Tool) -> Self {
        let hints = tool.annotations.map_or_else(ToolHints::default, |hints| ToolHints {
            read_only: hints.read_only_hint,
            destructive: hints.destructive_hint,
            idempotent: hints.idempotent_hint,
            open_world: hints.open_world_hint,
        });
        Self {
            name: tool.name.into_owned(),
            description: tool.description.unwrap_or_default().into_owned(),
            schema: Value::Object(tool.input_schema.as_ref().clone()),
            hints,
        }
    }
}
