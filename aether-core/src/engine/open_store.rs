//! What opens the store of an engine.
//!
//! Promise: plain types.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::store::api::Store;
use crate::store::error::StoreError;

/// What opening a store comes to.
type Opened = Result<Arc<dyn Store>, StoreError>;

/// The store of an engine.
pub(super) enum OpenStore {
    /// Opened when the engine starts.
    When(Box<dyn FnOnce(Opening) -> BoxFuture<'static, Opened> + Send>),
    /// The program has it, and gives it to the engine.
    Given(Arc<dyn Store>),
}

/// How a store is to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Opening {
    /// Whether tables of an older build may be brought to those of this one.
    pub migrate: bool,
}
