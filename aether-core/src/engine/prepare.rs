//! What is done to a store before the engine begins to work on it.
//!
//! Promise: it is done after the program was checked and before a worker is registered, so that no run of this engine is
//! resumed on a store that is not prepared.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::engine::build_error::{BuildError, PrepareError};
use crate::store::api::Store;

/// Something to be done to the store when the engine starts.
pub(super) type Preparation =
    Box<dyn FnOnce(Arc<dyn Store>) -> BoxFuture<'static, Result<(), PrepareError>> + Send>;

/// Does everything in its order, up to the first error.
pub(super) async fn prepare(
    store: &Arc<dyn Store>,
    preparations: Vec<Preparation>,
) -> Result<(), BuildError> {
    for preparation in preparations {
        let prepared = preparation(Arc::clone(store)).await;
        prepared.map_err(|error| BuildError::Prepare { store: store.describe(), error })?;
    }
    Ok(())
}
