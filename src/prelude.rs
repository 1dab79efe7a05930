//! Everything a file with workflows and steps needs: `use aether::prelude::*;`.

pub use aether_core::budget::Budget;
pub use aether_core::definition::def::{Probe, Retry};
pub use aether_core::engine::{Engine, RunHandle};
pub use aether_core::failure::{Failure, InContext as _, Result, StepError};
pub use aether_core::step::StepCx;
pub use aether_core::workflow::Cx;
pub use aether_effects::agent::CxAgent as _;
pub use aether_effects::http::{CxHttp as _, StepHttp as _};
pub use aether_effects::llm::{CxLlm as _, EngineModel as _};
pub use aether_effects::resource::StepResources as _;
pub use aether_macros::{step, workflow, workflow_mod};
#[cfg(feature = "mcp")]
pub use aether_mcp::CxMcp as _;
#[cfg(feature = "postgres")]
pub use aether_postgres::{EnginePostgres as _, PostgresStep as _};
#[cfg(feature = "rig")]
pub use aether_rig::CxRig as _;
#[cfg(feature = "sqlite")]
pub use aether_sqlite::{EngineSqlite as _, SqlStep as _};
