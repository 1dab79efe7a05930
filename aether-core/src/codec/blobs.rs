//! Bytes of large values through the codec.
//!
//! Promise: they are bound to their run, and found again whether they were stored before or after there was a codec.

use crate::codec::coded::CodedStore;
use crate::store::error::StoreError;
use crate::vocabulary::id::RunId;

impl CodedStore {
    /// Stores bytes of a run.
    pub(super) async fn put_sealed_blob(
        &self,
        run: &RunId,
        hash: &str,
        bytes: Vec<u8>,
    ) -> Result<(), StoreError> {
        let labels = self.labels(run).await?;
        let sealed = self.seal.seal_blob(run, hash, &bytes, labels.as_ref())?;
        let name = self.seal.blob_name(run, hash)?;
        self.inner.put_blob(run, &name, sealed.map_or(bytes, String::into_bytes)).await
    }

    /// The bytes of a run that have this hash.
    pub(super) async fn opened_blob(&self, run: &RunId, hash: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let name = self.seal.blob_name(run, hash)?;
        let mut bytes = self.inner.blob(run, &name).await?;
        if bytes.is_none() && name != hash {
            // Stored before there was a codec.
            bytes = self.inner.blob(run, hash).await?;
        }
        bytes.map(|bytes| self.seal.open_blob(run, hash, bytes)).transpose()
    }
}
