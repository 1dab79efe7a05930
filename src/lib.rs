//! Durable AI agents as plain annotated Rust functions.
//!
//! Every contact with the world (model calls, tools, HTTP, time, randomness, UUIDs) is a *recorded effect*. Kill the
//! process at any instant: the agent continues where it stopped, and no tool is blindly run twice. What would break
//! replay does not compile.
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

#[cfg(doctest)]
mod doctests;
mod engine;
mod explain;
pub mod prelude;

pub use aether_core::approval::{ApprovalCall, Approvals};
pub use aether_core::branch::Each;
pub use aether_core::callback::{Callback, CallbackError, CallbackPending};
pub use aether_core::child::{Child, ChildRun};
pub use aether_core::confirm::{Seen, Verifier};
pub use aether_core::contract;
pub use aether_core::cx::Cx;
pub use aether_core::def;
pub use aether_core::deps::{Deps, MissingDep};
pub use aether_core::effect_store;
pub use aether_core::engine::{
    AnyWorkflow, BuildError, DecideError, Fate, PurgeReport, Retention, Retiring, RunError, RunHandle,
    StartError, StartRun, Verified, VerifyError,
};
pub use aether_core::event;
pub use aether_core::failure::{Context, Failure, Holder, Result, StepError, Unconfirmed};
pub use aether_core::fault::{Divergence, Fault, Side};
pub use aether_core::gate::{BoxEffect, Effect, Recorded};
pub use aether_core::host::{Limits, Observed};
pub use aether_core::human::{ApprovalRequest, Decision, Question};
pub use aether_core::id;
pub use aether_core::journal;
pub use aether_core::ledger;
pub use aether_core::memory::MemoryStore;
pub use aether_core::outcome::{Classify, EffectClass, FailureClass, Outcome};
pub use aether_core::payload::{Digest, Payload, PayloadError};
pub use aether_core::pending::{Pending, Waiting};
pub use aether_core::policy;
pub use aether_core::recording::{self, Masking, Recording, RecordingError};
pub use aether_core::step::{Recordable, RecordableError, Step, Workflow};
pub use aether_core::step_cx::StepCx;
pub use aether_core::store;
pub use aether_core::tool::Tool;
pub use aether_core::unknown::Resolution;
pub use aether_core::view;
pub use aether_core::wait::Signal;
pub use aether_core::world::World;
pub use aether_core::{RunEnd, def::Probe};
pub use aether_effects::agent;
pub use aether_effects::cassette;
pub use aether_effects::http;
pub use aether_effects::llm;
pub use aether_effects::resource;
pub use aether_effects::secret::Secret;
pub use aether_effects::world::SystemWorld;
pub use aether_macros::{step, test, workflow, workflow_mod};
#[cfg(feature = "sqlite")]
pub use aether_sqlite::{Sql, SqlError, SqlStep, SqliteOptions, SqliteStore, rusqlite};
pub use engine::{Engine, EngineBuilder};
pub use explain::{codes, explain};

/// What generated code calls. Not for people.
#[doc(hidden)]
pub use aether_core::private as __private;
