//! A server of its own for a console: on loopback unless the program says who may look.
//!
//! Promise: without authentication of the program's own it binds no other address than loopback. A client that is slow to
//! say what it wants, or takes nothing of the answer, is cut off. There are never more connections than a limit, and those
//! of strangers make room for others.

mod server;

pub use server::{Options, ServeError, Server, bind, serve};
