//! Rules about blobs, the effect store and snapshots.

use std::sync::Arc;

use aether_core::id::{CommandId, IdempotencyKey};
use aether_core::journal::Frame;
use aether_core::journal::{BlobRef, LargeValue};
use aether_core::store::StoredEffect;
use aether_core::store::ledger::LedgerStatus;
use aether_core::store::{AppendError, Snapshot, Store, StoreError};

use super::kit::{Hand, json, run_id, takeover};

/// Blobs are read back byte for byte, also after they were stored twice.
pub async fn blobs_are_kept(store: &Arc<dyn Store>) {
    let (hash, bytes) = ("ab".repeat(32), (0..=255).cycle().take(100_000).collect::<Vec<u8>>());
    assert_eq!(store.blob(&run_id("a"), &hash).await, Ok(None));
    for _ in 0..2 {
        store.put_blob(&run_id("a"), &hash, bytes.clone()).await.unwrap();
        assert_eq!(store.blob(&run_id("a"), &hash).await, Ok(Some(bytes.clone())));
    }
    store.put_blob(&run_id("a"), "empty", Vec::new()).await.unwrap();
    assert_eq!(store.blob(&run_id("a"), "empty").await, Ok(Some(Vec::new())));
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
    store.put_effect(first.clone(), 1, vec![kept.clone()]).await.unwrap();
    store.put_effect(second.clone(), 1, vec![kept.clone()]).await.unwrap();
    store.put_effect(effect("b", 0, "[]"), 1, Vec::new()).await.unwrap();
    assert_eq!(store.effects(&run_id("a")).await, Ok(vec![first, second]));
    assert_eq!(store.effects(&run_id("b")).await.map(|effects| effects.len()), Ok(1));
    assert_eq!(store.blob(&run_id("a"), &kept.at.sha256).await, Ok(Some(kept.value.as_str().into())));
}

/// The first outcome under a key stays. An outcome of an unknown run is refused.
pub async fn the_first_effect_is_kept(store: &Arc<dyn Store>) {
    Hand::create(store, "a").await;
    let first = effect("a", 1, "[]");
    store.put_effect(first.clone(), 1, Vec::new()).await.unwrap();
    store.put_effect(effect("a", 1, r#"[{"other":{}}]"#), 1, Vec::new()).await.unwrap();
    assert_eq!(store.effects(&run_id("a")).await, Ok(vec![first]));
    let unknown = store.put_effect(effect("nobody", 1, "[]"), 1, Vec::new()).await;
    assert_eq!(unknown, Err(StoreError::UnknownRun { run: run_id("nobody") }.into()));
    assert_eq!(store.effects(&run_id("nobody")).await, Ok(Vec::new()));
}

/// An outcome of a worker that lost its run is refused, with its values: the new owner may have decided otherwise.
pub async fn an_effect_of_a_stale_epoch_is_refused(store: &Arc<dyn Store>) {
    Hand::create(store, "a").await;
    // The lease of the first worker expires at second 60.
    assert_eq!(store.claim(takeover("second", 61, "first", 0)).await.unwrap().len(), 1);
    let value = json("\"stale\"");
    let kept = LargeValue { at: BlobRef::of(&value), value };
    let stale = store.put_effect(effect("a", 1, r#"[{"other":{}}]"#), 1, vec![kept.clone()]).await;
    assert_eq!(stale, Err(AppendError::StaleEpoch { run: run_id("a"), held: 1, found: 2 }));
    assert_eq!(store.effects(&run_id("a")).await, Ok(Vec::new()));
    assert_eq!(store.blob(&run_id("a"), &kept.at.sha256).await, Ok(None));
    let mine = effect("a", 1, r#"[{"mine":{}}]"#);
    store.put_effect(mine.clone(), 2, Vec::new()).await.unwrap();
    assert_eq!(store.effects(&run_id("a")).await, Ok(vec![mine]));
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
