//! Tools over the Model Context Protocol: for programs whose workflows call the tools of MCP servers.

pub use aether_mcp::{
    Contract, CxMcp, InputAnswer, InputQuestion, KEY_FIELD, ListedTool, Mcp, McpError, McpServer, McpToolbox,
    Server, TaskEnd, ToolCall, ToolHints, ToolList, ToolResult,
};

#[cfg(feature = "mcp-server")]
pub use aether_mcp::{HttpServer, McpService, ServeError, serve};
