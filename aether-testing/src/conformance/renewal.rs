//! Rules about runs that continue as new.

use std::sync::Arc;

use aether_core::contract::Status;
use aether_core::id::{CommandId, Position};
use aether_core::store::ledger::{LedgerEntry, LedgerStatus};
use aether_core::store::{CodeChange, Renewal, Sent, Snapshot, Store, StoredEffect};

use super::kit::{
    Hand, acquire, becomes, claim, code, entry, frame, held, json, message, names, run_id, update,
};

/// The append that begins a generation, with the journal of the one before from `began` on.
pub(super) fn renewal(began: Position) -> Renewal {
    Renewal { workflow: "later".into(), version: 4, began }
}

/// Makes a call, whose outcome becomes `status`; returns its row.
async fn call(hand: &mut Hand, name: &str, business: Option<&str>, status: LedgerStatus) -> LedgerEntry {
    let (row, asked) = (entry(&hand.run, name, business), acquire(&hand.run, name, business));
    hand.append(|append| append.acquire = Some(asked)).await.unwrap();
    let known = update(&row.key, status);
    hand.append(|append| append.ledger = vec![known]).await.unwrap();
    let effect = StoredEffect {
        run: hand.run.clone(),
        key: row.key.clone(),
        frame: frame(&["effect"]),
        status: Some(status),
    };
    hand.store.put_effect(effect, hand.epoch, Vec::new()).await.unwrap();
    row
}

/// The journal begins at the append that continues as new, and its chain follows what was there before.
pub async fn a_generation_begins_a_journal(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    let mut other = Hand::create(store, "b").await;
    for _ in 0..3 {
        hand.append(|_| {}).await.unwrap();
    }
    let (base, before) = (hand.next, store.last_frame(&hand.run).await.unwrap().unwrap());
    store.save_snapshot(&hand.run, Snapshot { position: 2, state: json("{}") }).await.unwrap();
    store.save_progress(&hand.run, 1, &CommandId::new("1", "x"), json("1")).await.unwrap();
    hand.append(|append| {
        append.renews = Some(renewal(0));
        append.code = Some(CodeChange::Adopted(code("later")));
        append.status = Some(becomes(Status::Running, Some(append.at), true));
    })
    .await
    .unwrap();
    let frames = store.load(&hand.run, 0).await.unwrap();
    assert_eq!(frames.iter().map(|frame| frame.position).collect::<Vec<_>>(), [base]);
    let chained = aether_core::journal::chain(&before.chain, base, frames[0].at, &frames[0].text);
    assert_eq!(frames[0].chain, chained, "the chain goes on");
    assert_eq!(
        store.load_page(&hand.run, 0, 1).await.unwrap(),
        frames,
        "a page begins where the journal does"
    );
    assert_eq!(store.last_frame(&hand.run).await.unwrap().as_ref(), frames.first());
    assert_eq!(store.snapshot(&hand.run).await, Ok(None));
    assert_eq!(store.progress(&hand.run, &CommandId::new("1", "x")).await, Ok(None));

    let record = store.run(&hand.run).await.unwrap().unwrap();
    assert_eq!((&*record.workflow, record.version, record.next), ("later", 4, base + 1));
    assert_eq!((record.status, record.owner), (Status::Running, None));
    let request = aether_core::store::ClaimRequest { codes: vec![code("later")], ..claim("second", 9) };
    assert_eq!(names(&store.claim(request).await.unwrap()), ["a"]);
    let mut next = Hand::of(store, "a", 2, base + 1);
    next.append(|_| {}).await.unwrap();
    assert_eq!(store.load(&hand.run, 0).await.unwrap().len(), 2);
    other.append(|_| {}).await.unwrap();
    assert_eq!(store.load(&other.run, 0).await.unwrap().len(), 2, "other runs keep their journals");
}

/// Of the ledger, what holds a business key or is unknown stays, with its stored effect; the rest goes.
pub async fn a_generation_keeps_business_keys_and_doubts(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    let done = call(&mut hand, "done", None, LedgerStatus::Succeeded).await;
    let failed = call(&mut hand, "failed", Some("a/failed"), LedgerStatus::Failed).await;
    let kept = call(&mut hand, "kept", Some("a/kept"), LedgerStatus::Succeeded).await;
    let doubt = call(&mut hand, "doubt", None, LedgerStatus::InDoubt).await;
    let mut other = Hand::create(store, "a:b").await;
    let others = call(&mut other, "done", None, LedgerStatus::Succeeded).await;
    hand.append(|append| append.renews = Some(renewal(0))).await.unwrap();
    for gone in [done, failed] {
        assert_eq!(store.entry(&hand.run, &gone.key).await, Ok(None), "{}", gone.key);
    }
    let keys = [kept.key.clone(), doubt.key.clone()];
    let rows = store.entries(&hand.run).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.key.clone()).collect::<Vec<_>>(), keys);
    let effects = store.effects(&hand.run).await.unwrap();
    assert_eq!(effects.iter().map(|effect| effect.key.clone()).collect::<Vec<_>>(), keys);
    assert!(held(store, &hand.run, "a/kept").await.is_some());
    assert_eq!(held(store, &hand.run, "a/failed").await, None);
    assert!(store.entry(&other.run, &others.key).await.unwrap().is_some(), "other runs keep their rows");
    // A key that is gone can be acquired again.
    let asked = acquire(&hand.run, "done", None);
    hand.append(|append| append.acquire = Some(asked)).await.unwrap();
}

/// Unread messages stay. The id of a consumed one is a duplicate until the generation after the one that consumed it ends.
pub async fn a_generation_keeps_unread_messages(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    let id = run_id("a");
    for name in ["m1", "m2", "m3"] {
        store.send(&id, message(name, 4)).await.unwrap();
    }
    let seqs: Vec<_> = store.inbox(&id, 0).await.unwrap().iter().map(|message| message.seq).collect();
    hand.append(|append| append.consumed = vec![seqs[0]]).await.unwrap();
    let first = hand.next;
    hand.append(|append| append.renews = Some(renewal(0))).await.unwrap();
    assert_eq!(store.send(&id, message("m1", 5)).await, Ok(Sent::Duplicate), "in the generation after");
    let unread =
        |inbox: Vec<aether_core::store::Message>| inbox.into_iter().map(|m| m.id).collect::<Vec<_>>();
    assert_eq!(unread(store.inbox(&id, 0).await.unwrap()), ["m2", "m3"]);
    hand.append(|append| append.consumed = vec![seqs[1]]).await.unwrap();
    hand.append(|append| append.renews = Some(renewal(first))).await.unwrap();
    assert_eq!(store.send(&id, message("m2", 5)).await, Ok(Sent::Duplicate));
    assert_eq!(store.send(&id, message("m1", 5)).await, Ok(Sent::Delivered), "and no longer");
    assert_eq!(unread(store.inbox(&id, 0).await.unwrap()), ["m3", "m1"]);
    assert_eq!(store.unread(&id).await.unwrap().messages, 2);
}

/// A refused append that would continue as new deletes nothing.
pub async fn a_refused_generation_changes_nothing(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    let row = call(&mut hand, "done", None, LedgerStatus::Succeeded).await;
    let before = store.load(&hand.run, 0).await.unwrap();
    let mut stale = Hand::of(store, "a", 7, hand.next);
    stale.append(|append| append.renews = Some(renewal(0))).await.unwrap_err();
    let mut early = Hand::of(store, "a", 1, hand.next + 1);
    early.append(|append| append.renews = Some(renewal(0))).await.unwrap_err();
    assert_eq!(store.load(&hand.run, 0).await.unwrap(), before);
    assert!(store.entry(&hand.run, &row.key).await.unwrap().is_some());
    assert_eq!(store.run(&hand.run).await.unwrap().unwrap().workflow, "flow");
}
