//! Language models as a recorded effect: `cx.llm("plan")`.
//!
//! Promise: the whole request stands in the journal before it is sent, the whole answer before it is used; a replay
//! asks no model. Recorded types are our own and never a provider's. Anything a provider can answer is a value or a
//! typed error.
//!
//! ```
//! use aether_core::failure::Result;
//! use aether_core::workflow::Cx;
//! use aether_effects::llm::CxLlm;
//! #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
//! struct Plan { query: String }
//! # async fn workflow(cx: &mut Cx) -> Result<String> {
//! let plan: Plan = cx.llm("plan").system("You plan searches.").user("How do I reset my key?").json().await?;
//! # Ok(plan.query)
//! # }
//! ```

pub(crate) mod builder;
pub(crate) mod engine;
#[cfg(feature = "genai")]
pub(crate) mod genai;
pub(crate) mod openai;

#[cfg(feature = "genai")]
pub use self::genai::GenAiClient;
pub use crate::model::chat::{ChatMessage, ChatRequest, ChatResponse, ToolCall, ToolSpec, Usage};
pub use crate::model::client::{ModelClient, ModelError, Models};
pub use builder::{CxLlm, LlmRequest};
pub use engine::EngineModel;
pub use openai::OpenAiClient;
