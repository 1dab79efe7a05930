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

mod file;
mod http;

use std::path::Path;

use aether_core::failure::Result;
use aether_core::step::StepCx;

pub use file::FileVerifier;
pub use http::HttpVerifier;

use crate::http::HttpResponse;

/// Kind under which files are reported.
pub const FILE: &str = "file";
/// Kind under which what an HTTP server keeps is reported.
pub const HTTP: &str = "http";

/// Version of a resource that is not there.
const ABSENT: &str = "absent";

/// Reports of step bodies about what they changed.
pub trait StepResources {
    /// Says that this body wrote or removed the file at `path`, and reads what it left: length and SHA-256 of the
    /// content, or that there is no file. Call it after the change. Recorded under the absolute path, as kind `file`.
    ///
    /// # Errors
    /// A failure naming the path when it is not UTF-8, is a folder, or cannot be read.
    fn changed_file(&self, path: impl AsRef<Path>) -> Result<()>;

    /// Says that this body changed what is found at `url`, as kind `http`. `response` tells in which state: the answer to
    /// the change itself, or better to a `GET` after it. Recorded are its entity tag (`ETag`), for a `GET` the SHA-256 of
    /// its body, and its `Location`; after a `DELETE`, a 404 or a 410, that there is nothing. With neither tag nor
    /// body, all that can be confirmed later is that there is something.
    ///
    /// The URL is recorded with its secrets masked; credentials belong into the verifier's client.
    fn changed_http(&self, url: &str, response: &HttpResponse);
}

impl StepResources for StepCx {
    fn changed_file(&self, path: impl AsRef<Path>) -> Result<()> {
        file::report(self, path.as_ref())
    }

    fn changed_http(&self, url: &str, response: &HttpResponse) {
        http::report(self, url, response);
    }
}
