//! Whether the values of a run, or of a store, are encoded for whoever reads through this store.
//!
//! Promise: told from what stands in the open, and without a key. A store in front that decodes them is one for which they
//! are not encoded.

use serde::Deserialize;

use crate::journal::encoded::key_of;
use crate::journal::frame::StoredFrame;
use crate::store::api::Store;
use crate::store::error::StoreError;
use crate::store::filter::RunFilter;
use crate::vocabulary::codec::{CodecError, SEALED};
use crate::vocabulary::id::RunId;

/// The key of values of a run that this store does not decode; `None` where it decodes them, or they are in the open. The
/// start of the run and its newest frame say it: a run may have begun before there was a codec.
pub(crate) async fn key_of_run(store: &dyn Store, run: &RunId) -> Result<Option<String>, StoreError> {
    let Some(record) = store.run(run).await? else { return Ok(None) };
    if let Some(key) = key_of_value(record.digest.as_str()) {
        return Ok(Some(key));
    }
    Ok(store.last_frame(run).await?.as_ref().and_then(key_of_frame))
}

/// The key under which a program encodes what it records in this store, where no codec is in front of it: that of the newest
/// run of the workflow, or else of the newest run.
pub(crate) async fn key_of_program(store: &dyn Store, workflow: &str) -> Result<Option<String>, StoreError> {
    let newest = RunFilter::new().limit(1);
    let mut found = store.runs(newest.clone().workflow(workflow)).await?;
    if found.is_empty() {
        found = store.runs(newest).await?;
    }
    let Some(newest) = found.first() else { return Ok(None) };
    match store.last_frame(&newest.id).await {
        Ok(frame) => Ok(frame.as_ref().and_then(key_of_frame)),
        Err(StoreError::Codec { error: CodecError::NoCodec { key }, .. }) => Ok(Some(key)),
        // There is a codec, and it lacks the key of that run.
        Err(StoreError::Codec { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn key_of_frame(frame: &StoredFrame) -> Option<String> {
    // One that was decoded is not encoded for whoever reads it here.
    if frame.decoded.is_some() { None } else { key_of(&frame.text) }
}

/// The key that a stored value was encoded under; `None` where it is not encoded.
fn key_of_value(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Encoded {
        key: Option<String>,
    }
    if !text.starts_with(SEALED) {
        return None;
    }
    serde_json::from_str::<Encoded>(text).ok()?.key
}
