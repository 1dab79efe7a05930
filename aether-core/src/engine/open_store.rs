//! What opens the store of an engine.
//!
//! Promise: plain types.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::store::api::Store;
use crate::store::error::StoreError;

/// Opens a store when the engine starts.
pub(super) type OpenStore =
    Box<dyn FnOnce(Opening) -> BoxFuture<'static, Result<Arc<dyn Store>, StoreError>> + Send>;

/// How a store is to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Opening {
    /// Whether tables of an older build may be brought to those of this one.
    pub migrate: bool,
}
