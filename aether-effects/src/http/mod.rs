//! HTTP as a recorded effect: `cx.http()` in workflows and in step bodies.
//!
//! Promise: what is recorded holds the method, the URL with its secrets masked, allow-listed headers, the status and
//! the body; credentials never. A request that may change the world carries an idempotency key, and when its answer
//! is lost the outcome is *unknown*, never "failed".
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

mod client;
mod error;
mod exchange;
mod mask;
mod request;
mod response;

use aether_core::step::StepCx;
use aether_core::workflow::Cx;

pub use client::{HttpClient, HttpClientBuilder};
pub use error::{Exchange, HttpError};
pub(crate) use exchange::send;
pub(crate) use mask::url as mask_url;
pub(crate) use request::Draft;
pub use request::{Door, HttpRequest};
pub use response::{Body, HttpResponse};
pub(crate) use {error::start_of, request::body_error};

/// HTTP for workflows.
pub trait CxHttp {
    /// Begins a recorded request.
    fn http(&mut self) -> Door<&mut Cx>;
}

impl CxHttp for Cx {
    fn http(&mut self) -> Door<&mut Cx> {
        Door(self)
    }
}

/// HTTP for step bodies.
pub trait StepHttp {
    /// Begins a request whose exchange is recorded with the step's outcome.
    fn http(&self) -> Door<StepCx>;
}

impl StepHttp for StepCx {
    fn http(&self) -> Door<StepCx> {
        Door(self.clone())
    }
}
