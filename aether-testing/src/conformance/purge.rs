//! Rules about deleting runs that have ended.

use std::sync::Arc;
use std::time::Duration;

use aether_core::contract::Status;
use aether_core::id::{CommandId, IdempotencyKey};
use aether_core::journal::{BlobRef, Frame, LargeValue};
use aether_core::payload::Payload;
use aether_core::store::ledger::{Acquired, LedgerStatus, PURGED, STORE_WIDE};
use aether_core::store::{EndedRuns, NewRun, Purged, Sent, Snapshot, Store, StoredEffect};

use super::kit::{
    Hand, acquire, at, becomes, entry, held, json, message, new_run, reservation, run_id, update,
};

/// Ends the run `name` at second `when`.
async fn end(store: &Arc<dyn Store>, name: &str, status: Status, when: u64) {
    let mut hand = Hand::create(store, name).await;
    hand.append(|append| {
        append.at = at(when);
        append.status = Some(becomes(status, None, true));
    })
    .await
    .unwrap();
}

async fn ended(
    store: &Arc<dyn Store>,
    before: &[(Status, u64)],
    after: u64,
    limit: usize,
) -> Vec<(u64, String)> {
    let before = before.iter().map(|(status, seconds)| (*status, at(*seconds))).collect();
    let found = store.ended(EndedRuns { before, after, limit }).await.unwrap();
    found.into_iter().map(|(place, record)| (place, record.id.to_string())).collect()
}

/// Runs are listed by how and when they ended, in the order of their creation, page by page; open ones never are.
pub async fn ended_runs_are_listed_by_age(store: &Arc<dyn Store>) {
    end(store, "a", Status::Completed, 10).await;
    end(store, "b", Status::Failed, 10).await;
    Hand::create(store, "open").await;
    end(store, "c", Status::Completed, 20).await;
    end(store, "d", Status::Cancelled, 5).await;
    let names = |found: Vec<(u64, String)>| found.into_iter().map(|(_, name)| name).collect::<Vec<_>>();
    assert_eq!(names(ended(store, &[(Status::Completed, 11)], 0, 9).await), ["a"]);
    assert_eq!(names(ended(store, &[(Status::Completed, 20)], 0, 9).await), ["a"], "before, and not at");
    assert_eq!(
        names(ended(store, &[(Status::Failed, 30), (Status::Completed, 30)], 0, 9).await),
        ["a", "b", "c"]
    );
    assert_eq!(names(ended(store, &[(Status::Running, 30), (Status::Waiting, 30)], 0, 9).await), [""; 0]);
    assert!(ended(store, &[], 0, 9).await.is_empty());
    let all = [(Status::Completed, 30), (Status::Failed, 30), (Status::Cancelled, 30)];
    let first = ended(store, &all, 0, 2).await;
    // The next page follows the last one, also when the runs of the last one were deleted.
    assert_eq!(store.purge(&run_id("b"), None).await, Ok(Purged::Deleted));
    let second = ended(store, &all, first[1].0, 2).await;
    assert_eq!((names(first), names(second)), (vec!["a".into(), "b".into()], vec!["c".into(), "d".into()]));
}

/// Nothing of a purged run remains: no record, journal, ledger row, message or snapshot.
pub async fn a_purged_run_leaves_nothing(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    let (id, row) = (run_id("a"), entry(&run_id("a"), "x", Some("a/x")));
    let asked = acquire(&id, "x", Some("a/x"));
    hand.append(|append| append.acquire = Some(asked)).await.unwrap();
    store.send(&id, message("m", 4)).await.unwrap();
    store.save_snapshot(&id, Snapshot { position: 1, state: json("{}") }).await.unwrap();
    hand.status(becomes(Status::Completed, None, true)).await;
    let mut other = Hand::create(store, "a:b").await;
    let kept = acquire(&other.run, "y", Some("a:b/y"));
    other.append(|append| append.acquire = Some(kept)).await.unwrap();

    assert_eq!(store.purge(&id, None).await, Ok(Purged::Deleted));
    assert_eq!(store.run(&id).await, Ok(None));
    assert_eq!((store.load(&id, 0).await, store.last_frame(&id).await), (Ok(Vec::new()), Ok(None)));
    assert_eq!((store.entry(&id, &row.key).await, store.entries(&id).await), (Ok(None), Ok(Vec::new())));
    assert_eq!((store.inbox(&id, 0).await, store.snapshot(&id).await), (Ok(Vec::new()), Ok(None)));
    assert_eq!(held(store, &id, "a/x").await, None, "a key within the run goes with the run");
    assert_eq!(store.purge(&id, None).await, Ok(Purged::Unknown));
    assert_eq!(store.entries(&other.run).await.unwrap().len(), 1, "other runs keep what they have");
    assert!(held(store, &other.run, "a:b/y").await.is_some());
    assert!(other.append(|_| {}).await.is_ok());
}

/// The blobs of a purged run go with it, those of an outcome too; what another run stored as well stays for that one.
pub async fn a_purged_run_takes_its_blobs_along(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    let (gone, stays, id) = ("aa".repeat(32), "bb".repeat(32), hand.run.clone());
    let value = json(r#""large""#);
    let kept = LargeValue { at: BlobRef::of(&value), value };
    let effect = StoredEffect {
        run: id.clone(),
        key: IdempotencyKey::new(&id, &CommandId::new("0", "look"), 0),
        frame: Frame { count: 1, text: "[]".into() },
        status: None,
    };
    store.put_effect(effect, hand.epoch, vec![kept.clone()]).await.unwrap();
    for hash in [&gone, &stays] {
        store.put_blob(&id, hash, b"bytes".to_vec()).await.unwrap();
    }
    Hand::create(store, "b").await;
    store.put_blob(&run_id("b"), &stays, b"bytes".to_vec()).await.unwrap();
    hand.status(becomes(Status::Completed, None, true)).await;

    assert_eq!(store.purge(&id, None).await, Ok(Purged::Deleted));
    for hash in [&gone, &kept.at.sha256] {
        assert_eq!(store.blob(&id, hash).await, Ok(None), "{hash}");
    }
    assert_eq!(store.blob(&run_id("b"), &stays).await, Ok(Some(b"bytes".to_vec())));
    // Kept anew, it is there again.
    store.put_blob(&run_id("b"), &gone, b"bytes".to_vec()).await.unwrap();
    assert_eq!(store.blob(&run_id("b"), &gone).await, Ok(Some(b"bytes".to_vec())));
}

/// A run that has not ended is not deleted, whatever it waits for.
pub async fn an_open_run_is_not_purged(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    assert_eq!(store.purge(&run_id("a"), None).await, Ok(Purged::Open(Status::Running)));
    hand.status(becomes(Status::Waiting, None, true)).await;
    assert_eq!(store.purge(&run_id("a"), None).await, Ok(Purged::Open(Status::Waiting)));
    assert_eq!(store.load(&run_id("a"), 0).await.unwrap().len(), 2);
    assert_eq!(store.send(&run_id("a"), message("m", 4)).await, Ok(Sent::Delivered));
}

/// A child is not deleted before its parent has ended: the parent still reads its result.
pub async fn a_child_of_an_open_parent_is_not_purged(store: &Arc<dyn Store>) {
    let mut parent = Hand::create(store, "a").await;
    store.create(NewRun { parent: Some(run_id("a")), ..new_run("a/0:c") }).await.unwrap();
    let mut child = Hand::of(store, "a/0:c", 1, 1);
    child.status(becomes(Status::Completed, None, true)).await;
    assert_eq!(store.purge(&child.run, None).await, Ok(Purged::ParentOpen(run_id("a"))));
    parent.status(becomes(Status::Failed, None, true)).await;
    assert_eq!(store.purge(&run_id("a"), None).await, Ok(Purged::Deleted));
    assert_eq!(store.purge(&child.run, None).await, Ok(Purged::Deleted), "a parent that is gone is not open");
}

/// A store-wide business key stays taken after its run was purged, by a tombstone without a result; a failed call's key
/// is free.
pub async fn a_store_wide_key_outlives_its_run(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    let (taken, free) = (format!("{STORE_WIDE}taken"), format!("{STORE_WIDE}free"));
    for (name, key) in [("x", &taken), ("y", &free)] {
        let wanted = reservation("a", name, key);
        assert_eq!(store.reserve(wanted.clone(), None).await, Ok(wanted));
        let asked = acquire(&hand.run, name, Some(key));
        hand.append(|append| append.acquire = Some(asked)).await.unwrap();
    }
    let mut succeeded = update(&entry(&hand.run, "x", None).key, LedgerStatus::Succeeded);
    succeeded.result = Some(Payload::null());
    let failed = update(&entry(&hand.run, "y", None).key, LedgerStatus::Failed);
    hand.append(|append| append.ledger = vec![succeeded, failed]).await.unwrap();
    hand.status(becomes(Status::Completed, None, true)).await;
    let before = held(store, &hand.run, &taken).await.unwrap();
    assert_eq!(store.purge(&hand.run, None).await, Ok(Purged::Deleted));

    let tombstone = before.tombstone().unwrap();
    assert!(tombstone.key.as_str().starts_with(PURGED) && tombstone.result.is_none());
    let other = run_id("b");
    assert_eq!(held(store, &other, &taken).await, Some(tombstone.clone()));
    assert_eq!(store.reservation(&free).await.unwrap().unwrap().sealed, None, "what failed is not sealed");
    assert_eq!(held(store, &other, &free).await, None);
    // Whoever asks gets the sealed reservation, also in place of one that it read before.
    for replaces in [None, Some(reservation("a", "x", &taken)), store.reservation(&taken).await.unwrap()] {
        let found = store.reserve(reservation("b", "p", &taken), replaces).await.unwrap();
        assert_eq!((found.run, found.sealed), (run_id("a"), Some(Box::new(tombstone.clone()))));
    }
    let wanted = reservation("b", "p", &free);
    let found = store.reserve(wanted.clone(), Some(reservation("a", "y", &free))).await;
    assert_eq!(found, Ok(wanted));
}

/// The id of a purged run is free; a new run with it shares nothing with the old one.
pub async fn a_purged_id_can_be_used_again(store: &Arc<dyn Store>) {
    end(store, "a", Status::Completed, 5).await;
    assert_eq!(store.purge(&run_id("a"), None).await, Ok(Purged::Deleted));
    let mut again = Hand::create(store, "a").await;
    let asked = acquire(&again.run, "x", None);
    assert_eq!(
        again.append(|append| append.acquire = Some(asked)).await.unwrap().acquired,
        Acquired::Granted
    );
    let frames = store.load(&run_id("a"), 0).await.unwrap();
    assert_eq!(frames.iter().map(|frame| frame.position).collect::<Vec<_>>(), [0, 1]);
    aether_core::journal::read_verified(&frames).unwrap();
}

/// A run that was not meant is not deleted: the one that is there was created at another time under the same id.
pub async fn a_purge_means_the_run_of_its_time(store: &Arc<dyn Store>) {
    end(store, "a", Status::Completed, 10).await;
    let created_at = store.run(&run_id("a")).await.unwrap().unwrap().created_at;
    let earlier = created_at.saturating_sub(Duration::from_secs(1)).unwrap();
    assert_eq!(store.purge(&run_id("a"), Some(earlier)).await, Ok(Purged::Unknown));
    assert!(store.run(&run_id("a")).await.unwrap().is_some());
    assert_eq!(store.purge(&run_id("a"), Some(created_at)).await, Ok(Purged::Deleted));
}
