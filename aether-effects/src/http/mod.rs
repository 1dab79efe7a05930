//! HTTP as a recorded effect: `cx.http()` in workflows and in step bodies.
//!
//! Promise: what is recorded holds the method, the URL with its secrets masked, allow-listed headers, the status and
//! the body; credentials never. A request that may change the world carries an idempotency key, and when its answer
//! is lost the outcome is *unknown*, never "failed". A large body goes to the store piece by piece, and is recorded by its
//! digests. A request that has to wait for its host waits before its intent.
//!
//! In a workflow, `GET`, `HEAD` and `OPTIONS` are reads, retried by themselves; every other method is a
//! world-changing command whose intent is durable before anything is sent:
//!
//! ```
//! use aether_core::failure::Result;
//! use aether_core::workflow::Cx;
//! use aether_effects::http::CxHttp;
//! # async fn workflow(cx: &mut Cx) -> Result<String> {
//! let user = cx.http().get("https://api.example.com/user").query(&[("id", 7)]).send().await?;
//! let name: String = user.error_for_status()?.json()?;
//! cx.http().post("https://api.example.com/greetings").json(&name).idempotent().send().await?;
//! # Ok(name)
//! # }
//! ```

pub(crate) mod client;
pub(crate) mod door;
pub(crate) mod download;
pub(crate) mod draft;
pub(crate) mod error;
pub(crate) mod exchange;
pub(crate) mod host_limit;
pub(crate) mod hosts;
pub(crate) mod keeping;
pub(crate) mod mask;
mod members;
pub(crate) mod pools;
pub(crate) mod recorded;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod upload;

pub use client::{HttpClient, HttpClientBuilder};
pub use door::{CxHttp, Door, StepHttp};
pub use download::{Download, DownloadError, DownloadReader};
pub use error::{Exchange, HttpError};
pub use host_limit::HostLimit;
#[doc(hidden)]
pub use members::sort_body;
pub use request::HttpRequest;
pub use response::{Body, HttpResponse};
pub use upload::Upload;
