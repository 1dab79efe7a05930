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
pub(crate) mod call;
pub(crate) mod engine;
#[cfg(feature = "genai")]
pub(crate) mod genai;
pub(crate) mod openai;
pub(crate) mod openai_events;
pub(crate) mod openai_wire;
pub(crate) mod rounds;

#[cfg(feature = "genai")]
pub use self::genai::GenAiClient;
pub use crate::model::attachment::{Attachment, AttachmentContent, AttachmentSource};
pub use crate::model::chat::{ChatMessage, ChatRequest, ChatResponse, ToolCall, ToolSpec};
pub use crate::model::client::{ModelClient, Models, OnText};
pub use crate::model::error::ModelError;
pub use crate::model::price::{Cost, Price, PriceTable};
pub use crate::model::usage::Usage;
pub use builder::{CxLlm, LlmRequest};
pub use engine::EngineModel;
pub use openai::OpenAiClient;
