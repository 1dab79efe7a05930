//! Tools over the Model Context Protocol (MCP) as a recorded effect: `cx.mcp("tracker").tool("create_issue")`.
//!
//! Promise: a call is one `tools/call` under a durable intent, and it is never issued again while nobody knows what became
//! of it. A server's list of tools is data of the run, and what a server says about itself is believed only where the
//! program says so. Servers that are child processes get no credentials from the environment, and end with the program.

pub mod call;
pub mod contract;
pub mod error;
pub mod input;
pub mod list;
pub mod result;
pub mod server;
pub mod toolbox;

mod bodies;
mod connection;
mod drive;
mod process;
mod reply;
#[cfg(feature = "server")]
mod serve;

pub use bodies::KEY_FIELD;
pub use call::{CxMcp, McpServer, ToolCall};
pub use connection::Mcp;
pub use contract::Contract;
pub use error::McpError;
pub use input::{InputAnswer, InputQuestion};
pub use list::{ListedTool, ToolHints, ToolList};
pub use reply::TaskEnd;
pub use result::ToolResult;
#[cfg(feature = "server")]
pub use serve::{HttpServer, McpService, ServeError, serve};
pub use server::Server;
pub use toolbox::McpToolbox;
