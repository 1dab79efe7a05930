//! Rules about blobs and snapshots.

use std::sync::Arc;

use aether_core::store::{Snapshot, Store, StoreError};

use super::kit::{Hand, json, run_id};

/// Blobs come back as they were, the first time and every time.
pub async fn blobs_are_kept(store: &Arc<dyn Store>) {
    let (hash, bytes) = ("ab".repeat(32), (0..=255).cycle().take(100_000).collect::<Vec<u8>>());
    assert_eq!(store.blob(&hash).await, Ok(None));
    for _ in 0..2 {
        store.put_blob(&hash, bytes.clone()).await.unwrap();
        assert_eq!(store.blob(&hash).await, Ok(Some(bytes.clone())));
    }
    store.put_blob("empty", Vec::new()).await.unwrap();
    assert_eq!(store.blob("empty").await, Ok(Some(Vec::new())));
}

fn snapshot(position: u64) -> Snapshot {
    Snapshot { position, state: json(&format!("{{ \"at\": {position} }}")) }
}

/// A newer snapshot replaces an older one, never the other way round.
pub async fn the_newest_snapshot_is_kept(store: &Arc<dyn Store>) {
    Hand::create(store, "a").await;
    for (saved, kept) in [(5, 5), (9, 9), (7, 9), (9, 9)] {
        store.save_snapshot(&run_id("a"), snapshot(saved)).await.unwrap();
        assert_eq!(store.snapshot(&run_id("a")).await, Ok(Some(snapshot(kept))));
    }
    let nobody = run_id("nobody");
    let unknown = store.save_snapshot(&nobody, snapshot(1)).await;
    assert_eq!(unknown, Err(StoreError::UnknownRun { run: nobody.clone() }));
}

/// Deleting every snapshot leaves the journal as it was.
pub async fn snapshots_can_be_deleted(store: &Arc<dyn Store>) {
    Hand::create(store, "a").await;
    store.save_snapshot(&run_id("a"), snapshot(1)).await.unwrap();
    store.delete_snapshots().await.unwrap();
    assert_eq!(store.snapshot(&run_id("a")).await, Ok(None));
    assert_eq!(store.load(&run_id("a"), 0).await.unwrap().len(), 1);
    store.save_snapshot(&run_id("a"), snapshot(0)).await.unwrap();
    assert_eq!(store.snapshot(&run_id("a")).await, Ok(Some(snapshot(0))));
}
