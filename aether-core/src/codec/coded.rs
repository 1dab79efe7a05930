//! A store with a codec in front of it: what it holds.
//!
//! Promise: without a codec nothing is encoded, and what is encoded is told from what is not.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::{BoxFuture, ready};

use crate::codec::seal::Seal;
use crate::codec::subjects::Subjects;
use crate::sched::Mutex;
use crate::store::api::Store;
use crate::vocabulary::codec::{PayloadCodec, PayloadOwner, PayloadPlace};
use crate::vocabulary::id::RunId;

/// A store whose values go through a codec: what an engine with
/// [`EngineBuilder::payload_codec`](crate::engine::EngineBuilder::payload_codec) works on. For programs that read a store
/// without an engine.
///
/// ```
/// use std::sync::Arc;
/// use aether_core::codec::{CodedStore, PayloadCodec};
/// use aether_core::id::RunId;
/// use aether_core::recording::{Masking, Recording, RecordingError};
/// use aether_core::store::Store;
///
/// # async fn example(store: Arc<dyn Store>, codec: Arc<dyn PayloadCodec>, run: RunId) -> Result<(), RecordingError> {
/// let store = CodedStore::new(store, Some(codec));
/// Recording::export(&store, &run, &Masking::standard()).await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct CodedStore {
    pub(super) inner: Arc<dyn Store>,
    pub(super) seal: Seal,
    pub(super) subjects: Arc<Subjects>,
    /// Schedules of which it was said that they are erased.
    pub(super) erased: Mutex<BTreeSet<String>>,
}

impl CodedStore {
    /// Puts `codec` in front of `inner`. Without one, nothing is encoded, and what is encoded is told apart from what is not.
    pub fn new(inner: Arc<dyn Store>, codec: Option<Arc<dyn PayloadCodec>>) -> Self {
        Self { inner, seal: Seal(codec), subjects: Arc::default(), erased: Mutex::default() }
    }
}

/// An error that is there already.
pub(super) fn failed<'a, T: Send + 'a, E: Send + 'a>(error: E) -> BoxFuture<'a, Result<T, E>> {
    Box::pin(ready(Err(error)))
}

/// The place of a run's digest, of a snapshot's state, of a body's progress.
pub(super) fn of_run<'p>(run: &'p RunId, name: &'p str) -> PayloadPlace<'p> {
    PayloadPlace::new(PayloadOwner::Run(run), name)
}
