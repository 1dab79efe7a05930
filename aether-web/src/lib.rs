//! The web console of an engine: a router for axum, to nest anywhere, or a server on loopback of its own.
//!
//! Promise: a console changes nothing that it was not allowed to change, and a GET changes nothing at all. Whoever opens
//! it has shown a token that works once, or was named by the program's own authentication. Every action is a call of the
//! engine with an actor. No text of a run reaches a page unescaped, and every page works without script.
//!
//! ```no_run
//! # async fn example(engine: aether_core::engine::Engine) -> Result<(), aether_web::ServeError> {
//! // Prints an address with a token that opens the console once.
//! aether_web::serve(engine, aether_web::Options::new()).await
//! # }
//! ```

#![allow(clippy::result_large_err, reason = "the error of a page is its answer, and is handed on once")]

mod access;
mod assets;
mod console;
mod live;
mod pages;
mod permissions;
mod serve;
mod spending;
mod text;
mod timeline;

pub use access::sessions::NoRandomness;
pub use console::{Console, console};
pub use permissions::{Actions, Role, User};
pub use serve::{Options, ServeError, Server, bind, serve};
