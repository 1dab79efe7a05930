//! Resources that steps change, and verifiers that look at them again: files, and what an HTTP server keeps.
//!
//! Promise: a report holds what its verifier needs to tell later whether the resource is still as it was left; a
//! verifier changes nothing.
//!
//! ```
//! use aether_core::failure::Result;
//! use aether_core::step::StepCx;
//! use aether_effects::http::StepHttp;
//! use aether_effects::resource::StepResources;
//!
//! // #[step(effect = "tool", changes = ["file", "http"], confirm = "strict")]
//! async fn publish(cx: &mut StepCx, page: &str) -> Result<()> {
//!     std::fs::write("page.html", page)?;
//!     cx.changed_file("page.html")?;
//!     let url = "https://example.com/page";
//!     let answer = cx.http().put(url).json(page).send().await?.error_for_status()?;
//!     cx.changed_http(url, &answer);
//!     Ok(())
//! }
//! ```

pub(crate) mod file;
pub(crate) mod http;
pub(crate) mod kind;
pub(crate) mod step;

pub use file::FileVerifier;
pub use http::HttpVerifier;
pub use kind::{FILE, HTTP, HTTP_MASKED};
pub use step::StepResources;
