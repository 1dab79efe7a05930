//! Chunks of streams through the codec.
//!
//! Promise: a chunk that cannot be encoded is refused, and takes no other along.

use futures_util::future::BoxFuture;

use crate::codec::coded::CodedStore;
use crate::store::error::StoreError;
use crate::store::streams::{StreamItem, StreamWrite};

impl CodedStore {
    /// Encodes chunks, passes them on, and decodes what was made of them.
    pub(super) fn write_sealed_streams(
        &self,
        mut writes: Vec<StreamWrite>,
    ) -> BoxFuture<'_, Result<Vec<Option<Vec<StreamItem>>>, StoreError>> {
        let runs: Vec<_> = writes.iter().map(|write| write.run.clone()).collect();
        let seal = |write: &mut StreamWrite| {
            let labels = self.labels_here(&write.run)?;
            self.seal.seal_stream(write, labels.as_ref())
        };
        let is_sealed = |write: &mut StreamWrite| match seal(write) {
            Ok(()) => true,
            Err(error) => {
                let (run, command) = (&write.run, &write.command);
                tracing::warn!(target: "aether::step", %run, %command, %error, "a chunk of a stream cannot be encoded");
                false
            }
        };
        let sealed: Vec<_> = writes.iter_mut().map(is_sealed).collect();
        let mut kept = sealed.iter();
        writes.retain(|_| kept.next().is_some_and(|sealed| *sealed));
        let written = self.inner.write_streams(writes);
        Box::pin(async move {
            let mut written = written.await?.into_iter();
            let mut answers = Vec::with_capacity(runs.len());
            for (run, sealed) in runs.iter().zip(sealed) {
                let mut items = if sealed { written.next().flatten() } else { None };
                for item in items.iter_mut().flatten() {
                    self.seal.open_stream(item, run)?;
                }
                answers.push(items);
            }
            Ok(answers)
        })
    }
}
