//! Rules about blobs, the effect store and snapshots.

use std::sync::Arc;

use aether_core::id::{CommandId, IdempotencyKey};
use aether_core::journal::Frame;
use aether_core::journal::{BlobRef, LargeValue};
use aether_core::store::StoredEffect;
use aether_core::store::ledger::LedgerStatus;
use aether_core::store::{Snapshot, Store, StoreError};

use super::kit::{Hand, json, run_id};

/// Blobs are read back byte for byte, also after they were stored twice.
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

fn effect(run: &str, number: u32, text: &str) -> StoredEffect {
    let command = CommandId::new(&number.to_string(), "act");
    StoredEffect {
        run: run_id(run),
        key: IdempotencyKey::new(&run_id(run), &command, 0),
        frame: Frame { count: 1, text: text.into() },
        status: (number > 0).then_some(LedgerStatus::Succeeded),
    }
}

/// Outcomes are read back unchanged, in order and by run, and their values are blobs.
pub async fn effects_are_kept(store: &Arc<dyn Store>) {
    Hand::create(store, "a").await;
    Hand::create(store, "b").await;
    assert_eq!(store.effects(&run_id("a")).await, Ok(Vec::new()));
    let value = json(&format!("\"{}\"", "é".repeat(50_000)));
    let kept = LargeValue { at: BlobRef::of(&value), value };
    let (first, second) = (effect("a", 0, r#"[{"x":{ "a": 1.50 }}]"#), effect("a", 1, "[]"));
    store.put_effect(first.clone(), vec![kept.clone()]).await.unwrap();
    store.put_effect(second.clone(), vec![kept.clone()]).await.unwrap();
    store.put_effect(effect("b", 0, "[]"), Vec::new()).await.unwrap();
    assert_eq!(store.effects(&run_id("a")).await, Ok(vec![first, second]));
    assert_eq!(store.effects(&run_id("b")).await.map(|effects| effects.len()), Ok(1));
    assert_eq!(store.blob(&kept.at.sha256).await, Ok(Some(kept.value.as_str().into())));
}

/// The first outcome under a key stays. An outcome of an unknown run is refused.
pub async fn the_first_effect_is_kept(store: &Arc<dyn Store>) {
    Hand::create(store, "a").await;
    let first = effect("a", 1, "[]");
    store.put_effect(first.clone(), Vec::new()).await.unwrap();
    store.put_effect(effect("a", 1, "[1]"), Vec::new()).await.unwrap();
    assert_eq!(store.effects(&run_id("a")).await, Ok(vec![first]));
    let unknown = store.put_effect(effect("nobody", 1, "[]"), Vec::new()).await;
    assert_eq!(unknown, Err(StoreError::UnknownRun { run: run_id("nobody") }));
    assert_eq!(store.effects(&run_id("nobody")).await, Ok(Vec::new()));
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

/// Deleting every snapshot leaves the journal unchanged.
pub async fn snapshots_can_be_deleted(store: &Arc<dyn Store>) {
    Hand::create(store, "a").await;
    store.save_snapshot(&run_id("a"), snapshot(1)).await.unwrap();
    store.delete_snapshots().await.unwrap();
    assert_eq!(store.snapshot(&run_id("a")).await, Ok(None));
    assert_eq!(store.load(&run_id("a"), 0).await.unwrap().len(), 1);
    store.save_snapshot(&run_id("a"), snapshot(0)).await.unwrap();
    assert_eq!(store.snapshot(&run_id("a")).await, Ok(Some(snapshot(0))));
}
