//! Tools over MCP, against servers that drop the connection at every message and every byte, hang, forget sessions, and
//! change their tools. A tool is never executed twice for one call, and what nobody knows is in doubt.
//!
//! The servers are our own, so that they can be rude: one that speaks HTTP over plain sockets, and a process in Python that
//! speaks over its standard input and output. Both count what they executed.

#![allow(clippy::unwrap_used, clippy::expect_used)]

aether::allow_missing_deps!("each test runs a few of the workflows that are linked here");

mod calls;
mod conformance;
mod cuts;
mod hints;
mod http_server;
mod killed;
mod kit;
mod processes;
mod real;
mod rounds;
mod serving;
mod slow;
mod tasks;
mod toolboxes;
mod waits;
