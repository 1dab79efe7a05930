//! Durable AI agents as plain annotated Rust functions.
//!
//! Every contact with the world (model calls, tools, HTTP, time, randomness, UUIDs) is a *recorded effect*. Kill the
//! process at any moment: the agent resumes where it left off, and no tool is ever blindly called twice. Nondeterminism in
//! a workflow is a compile error.
//!
//! ```
//! use aether::prelude::*;
//!
//! /// Look a word up.
//! #[step(effect = "read")]
//! async fn look_up(cx: &mut StepCx, word: &str) -> Result<usize> {
//!     Ok(word.len())
//! }
//!
//! /// Measure a word.
//! #[workflow]
//! async fn measure(cx: &mut Cx, word: String) -> Result<usize> {
//!     Ok(look_up(cx, &word).await?)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> aether::Result<()> {
//! let engine = Engine::builder().memory().start().await?;
//! let run = engine.start::<measure>("aether".to_owned()).id("first").await?;
//! assert_eq!(run.result().await?, 6);
//! # Ok(())
//! # }
//! ```
//!
//! [`Engine`] starts and resumes runs, [`RunHandle`] waits for one, [`Cx`] is the context of a workflow, and [`StepCx`] that
//! of a step. The modules hold the rest, and say whom each is for.

#[cfg(doctest)]
mod doctests;

#[cfg(feature = "cli")]
pub mod cli;
pub mod definition;
pub mod effect;
#[cfg(feature = "encryption")]
pub mod encryption;
pub mod engine;
pub mod error;
#[cfg(feature = "mcp")]
pub mod mcp;
#[cfg(feature = "otel")]
pub mod otel;
pub mod people;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod prelude;
pub mod queue;
pub mod resource;
pub mod retention;
#[cfg(feature = "rig")]
pub mod rig;
pub mod schedule;
#[cfg(feature = "signals")]
pub mod signals;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(feature = "axum")]
pub mod sse;
pub mod store;
pub mod view;
#[cfg(feature = "web")]
pub mod web;

pub use aether_core::allow_missing_deps;
pub use aether_core::budget;
pub use aether_core::definition::diff;
pub use aether_core::engine::{Engine, RunHandle};
pub use aether_core::failure::{Failure, Result, StepError};
pub use aether_core::id;
pub use aether_core::labels;
pub use aether_core::recording;
pub use aether_core::step::StepCx;
pub use aether_core::stream;
pub use aether_core::workflow::Cx;
pub use aether_effects::agent;
pub use aether_effects::cassette;
pub use aether_effects::http;
pub use aether_effects::llm;
pub use aether_effects::secret::Secret;
pub use aether_macros::{accepts, deterministic, step, test, workflow, workflow_mod};
/// Times and zones: `cx.now()` returns a [`jiff::Timestamp`].
pub use jiff;

/// What generated code calls. Not a public interface.
#[doc(hidden)]
pub use aether_core::private as __private;
