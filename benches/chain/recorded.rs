//! What the engine writes for one chain, so that a bare writer can write the same bytes.

use std::sync::Arc;

use aether::id::RunId;
use aether::prelude::*;
use aether::store::journal::StoredFrame;
use aether::store::{MemoryStore, Store};

use crate::flows::{self, Class};

/// The frames of one chain.
pub(crate) async fn frames(class: Class, steps: u32) -> std::result::Result<Vec<StoredFrame>, String> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = Engine::builder().store(store.clone()).start().await.map_err(|e| e.to_string())?;
    let run = RunId::new(uuid::Uuid::now_v7().to_string()).map_err(|e| e.to_string())?;
    flows::one(&engine, class, steps, run.to_string()).await?;
    let journal = store.load(&run, 0).await.map_err(|e| e.to_string())?;
    engine.shutdown().await.map_err(|e| e.to_string())?;
    Ok(journal)
}

/// Whether a frame says that a body which may change the world is about to be called. The engine waits for those.
pub(crate) fn starts(frame: &StoredFrame) -> bool {
    frame.text.contains("{\"tool_invocation_started\":")
}
