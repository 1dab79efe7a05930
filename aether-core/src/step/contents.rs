//! Contents: bytes that a body keeps beside the journal, in pieces, each under its SHA-256.
//!
//! Promise: a piece is durable when the call that keeps it returns, so before the outcome that names it; pieces belong to
//! their run and are purged with it; a codec of the program covers them, redaction does not.

use futures_util::future::BoxFuture;

use crate::vocabulary::id::RunId;

/// Where the bodies of a run keep contents. A store that is locked or full is asked again, and no error comes back: as for
/// everything that a run asks of its store.
pub(crate) trait Contents: Send + Sync {
    /// Keeps bytes of the run under their hash.
    fn put(&self, sha256: String, bytes: Vec<u8>) -> BoxFuture<'_, ()>;

    /// What `run` keeps under the hash.
    fn get(&self, run: RunId, sha256: String) -> BoxFuture<'_, Option<Vec<u8>>>;

    /// Whether the engine redacts what is recorded.
    fn redacts(&self) -> bool;
}

/// Contents are kept or read by who may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoContents {
    /// The body of a `pure` step, which touches nothing.
    #[error("the body of a `pure` step keeps and reads no contents: declare the step as `read`")]
    Pure,
    /// What a body left behind that is over.
    #[error("the body of the step is over, and what goes on without it keeps nothing: await it in the body")]
    Over,
}
