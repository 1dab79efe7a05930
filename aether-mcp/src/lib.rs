//! Tools over the Model Context Protocol (MCP) as a recorded effect: `cx.mcp("tracker").tool("create_issue")`.
//!
//! Promise: a call is one `tools/call` under a durable intent, and it is never issued again while nobody knows what became
//! of it. A server's list of tools is data of the run, and what a server says about itself is believed only where the
//! program says so. Servers that are child processes get no credentials from the environment, and end with the program.

pub mod call;
pub mod contract;
pub mod error;
pub mod list;
pub mod result;
pub mod server;

mod connection;
mod process;

pub use call::{CxMcp, McpServer, ToolCall};
pub use connection::Mcp;
pub use contract::Contract;
pub use error::McpError;
pub use list::{ListedTool, ToolHints, ToolList};
pub use result::ToolResult;
pub use server::Server;
