//! An MCP server of an engine: its workflows are tools, its runs are tasks, and what a run asks people is asked of the client.
//!
//! Promise: a call is a run, started once for the caller's key, and lives on when client, connection or process do not. Only
//! workflows that were named are tools, and only runs that were started over MCP are tasks. Over HTTP the server listens on
//! loopback and wants a token.

pub(crate) mod exposed;
pub(crate) mod handler;
pub(crate) mod http;
pub(crate) mod questions;
pub(crate) mod runs;
pub(crate) mod server;

pub use http::{HttpServer, ServeError};
pub use server::{McpService, serve};
