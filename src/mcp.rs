//! Tools over the Model Context Protocol: for programs whose workflows call the tools of MCP servers.

pub use aether_mcp::call::KEY_FIELD;
pub use aether_mcp::{
    Contract, CxMcp, ListedTool, Mcp, McpError, McpServer, Server, ToolCall, ToolHints, ToolList, ToolResult,
};
