//! What a step's body reports of the resources it changed.

use std::path::Path;

use aether_core::failure::Result;
use aether_core::step::StepCx;

use super::{file, http};
use crate::http::response::HttpResponse;

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
    /// The URL is recorded with its secrets masked; credentials belong into the verifier's client. Where something is masked
    /// (a user name, the value of a parameter such as `key`, `session` or `token`), nobody can look at it later: the change
    /// is recorded as kind `http-masked`, under the masked URL and a digest, with a warning in the log. It is not inspected
    /// unless the step declares that kind and the program has a verifier of its own for it.
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
