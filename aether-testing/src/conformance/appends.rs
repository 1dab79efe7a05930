//! Rules about appends and reading them back.

use std::sync::Arc;

use aether_core::contract::Status;
use aether_core::id::Position;
use aether_core::journal::event::Event;
use aether_core::journal::{Frame, read_verified};
use aether_core::store::ledger::{Acquired, LedgerStatus};
use aether_core::store::{AppendError, Store, StoreError};

use super::kit::{Hand, acquire, at, becomes, entry, frame, message, run_id, update};

async fn places(store: &Arc<dyn Store>, name: &str, from: Position) -> Vec<Position> {
    store.load(&run_id(name), from).await.unwrap().iter().map(|frame| frame.position).collect()
}

/// Appends take effect in the order of the calls, and their hashes chain.
pub async fn frames_are_ordered_and_chained(store: &Arc<dyn Store>) {
    let mut one = Hand::create(store, "a").await;
    let mut two = Hand::create(store, "b").await;
    for _ in 0..50 {
        one.silent(|append| append.frame = frame(&["x", "y"]));
        two.silent(|_| {});
    }
    one.append(|_| {}).await.unwrap();
    two.append(|_| {}).await.unwrap();
    for (name, count) in [("a", 102), ("b", 52)] {
        let frames = store.load(&run_id(name), 0).await.unwrap();
        let events = read_verified(&frames).unwrap();
        assert_eq!(events.len(), count);
        assert!(events.iter().all(|event| matches!(event, Event::NodeFinished(_))));
        assert_eq!(store.run(&run_id(name)).await.unwrap().unwrap().next, count as Position);
    }
}

/// A frame is read back byte for byte, with time and epoch, whatever its text holds.
pub async fn a_frame_is_kept_byte_for_byte(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    let text = "[{\"moon_landed\":{ \"z\" : 1,\"a\":\"\\u0000 ü 🌙 '\\\"\"}}]".to_owned();
    let unusual = Frame { count: 1, text: text.clone() };
    hand.append(|append| {
        append.frame = unusual;
        append.at = at(77);
    })
    .await
    .unwrap();
    let last = store.last_frame(&run_id("a")).await.unwrap().unwrap();
    assert_eq!((last.readable(), last.at, last.epoch, last.position), (Ok(&*text), at(77), 1, 1));
    assert_eq!(store.run(&run_id("a")).await.unwrap().unwrap().updated_at, at(77));
}

/// An append that does not follow the last one is refused, before and after the end.
pub async fn a_wrong_position_is_refused(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    hand.append(|_| {}).await.unwrap();
    for expected in [0, 1, 3, 900] {
        let refused = Hand::of(store, "a", 1, expected).append(|_| {}).await.unwrap_err();
        assert_eq!(refused, AppendError::WrongPosition { run: run_id("a"), expected, found: 2 });
    }
    assert_eq!(places(store, "a", 0).await, [0, 1]);
}

/// An append under another epoch than the run's is refused, older or newer.
pub async fn a_stale_epoch_is_refused(store: &Arc<dyn Store>) {
    Hand::create(store, "a").await;
    for held in [0, 2] {
        let refused = Hand::of(store, "a", held, 1).append(|_| {}).await.unwrap_err();
        assert_eq!(refused, AppendError::StaleEpoch { run: run_id("a"), held, found: 1 });
    }
    assert_eq!(places(store, "a", 0).await, [0]);
}

/// After a terminal status every append is refused, also one that was queued before the answer.
pub async fn nothing_follows_a_terminal_status(store: &Arc<dyn Store>) {
    for (name, status) in
        [("a", Status::Completed), ("b", Status::Failed), ("c", Status::Cancelled), ("d", Status::Rejected)]
    {
        let mut hand = Hand::create(store, name).await;
        hand.silent(|append| append.status = Some(becomes(status, None, true)));
        let at_once = hand.append(|_| {}).await.unwrap_err();
        let later = Hand::of(store, name, 1, 2).append(|_| {}).await.unwrap_err();
        let ended = AppendError::RunEnded { run: run_id(name), status };
        assert_eq!((at_once, later), (ended.clone(), ended));
        assert_eq!(places(store, name, 0).await, [0, 1]);
    }
}

/// An append to an unknown run is refused.
pub async fn an_unknown_run_is_refused(store: &Arc<dyn Store>) {
    let refused = Hand::of(store, "nobody", 1, 0).append(|_| {}).await.unwrap_err();
    assert_eq!(refused, AppendError::Store(StoreError::UnknownRun { run: run_id("nobody") }));
}

/// A refused append fails alone; what was queued around it is durable.
pub async fn a_refused_append_leaves_its_batch_alone(store: &Arc<dyn Store>) {
    let mut one = Hand::create(store, "a").await;
    let mut two = Hand::create(store, "b").await;
    let before = one.queue(|_| {});
    let stale = Hand::of(store, "b", 7, 1).queue(|_| {});
    let wrong = Hand::of(store, "a", 1, 9).queue(|_| {});
    let nobody = Hand::of(store, "nobody", 1, 0).queue(|_| {});
    let after = two.queue(|_| {});
    let last = one.queue(|_| {});
    assert!(matches!(stale.await.unwrap(), Err(AppendError::StaleEpoch { .. })));
    assert!(matches!(wrong.await.unwrap(), Err(AppendError::WrongPosition { .. })));
    assert!(matches!(nobody.await.unwrap(), Err(AppendError::Store(_))));
    for reply in [before, after, last] {
        reply.await.unwrap().unwrap();
    }
    assert_eq!(places(store, "a", 0).await, [0, 1, 2]);
    assert_eq!(places(store, "b", 0).await, [0, 1]);
}

/// After a refused append the later ones of the same claim fail too; the watermark keeps the first error.
pub async fn nothing_follows_a_refused_append(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    hand.silent(|_| {});
    hand.silent(|append| {
        append.ledger = vec![update(&entry(&run_id("a"), "none", None).key, LedgerStatus::Failed)]
    });
    hand.silent(|_| {});
    let late = hand.append(|_| {}).await.unwrap_err();
    assert!(matches!(late, AppendError::WrongPosition { expected: 4, found: 2, .. }), "{late}");
    let first = hand.watermark.failed().await;
    assert!(matches!(first, AppendError::Store(StoreError::Corrupt { .. })), "{first}");
    assert_eq!(hand.watermark.durable(), 2);
    assert_eq!(places(store, "a", 0).await, [0, 1]);
}

/// A refused append leaves neither events nor ledger, status or inbox changes.
pub async fn a_refused_append_leaves_nothing_behind(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    store.send(&run_id("a"), message("m", 1)).await.unwrap();
    let seq = store.inbox(&run_id("a"), 0).await.unwrap()[0].seq;
    let before = store.run(&run_id("a")).await.unwrap();
    let granted = acquire(&run_id("a"), "granted", Some("business"));
    let missing = entry(&run_id("a"), "missing", None).key;
    let (key, epoch) = (granted.entry.key.clone(), hand.epoch);
    for (epoch, ledger) in [
        (epoch, vec![update(&key, LedgerStatus::Succeeded), update(&missing, LedgerStatus::Failed)]),
        (9, vec![]),
    ] {
        let refused = hand
            .append(|append| {
                append.epoch = epoch;
                append.acquire = Some(granted.clone());
                append.ledger = ledger;
                append.status = Some(becomes(Status::Completed, None, true));
                append.consumed = vec![seq];
            })
            .await;
        assert!(refused.is_err());
        hand.next = 1;
    }
    assert_eq!(store.run(&run_id("a")).await.unwrap(), before);
    assert_eq!(store.entry(&run_id("a"), &key).await.unwrap(), None);
    assert_eq!(store.inbox(&run_id("a"), 0).await.unwrap().len(), 1);
    let again = hand.append(|append| append.acquire = Some(granted)).await.unwrap();
    assert_eq!(again.acquired, Acquired::Granted);
}

/// Loading starts with the frame that holds the requested position.
pub async fn loading_starts_at_a_position(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    for names in [&["x", "y", "z"][..], &["u"], &["v", "w"]] {
        hand.append(|append| append.frame = frame(names)).await.unwrap();
    }
    assert_eq!(places(store, "a", 0).await, [0, 1, 4, 5]);
    assert_eq!(places(store, "a", 1).await, [1, 4, 5]);
    assert_eq!(places(store, "a", 3).await, [1, 4, 5]);
    assert_eq!(places(store, "a", 4).await, [4, 5]);
    assert_eq!(places(store, "a", 6).await, [5]);
    assert_eq!(places(store, "a", 7).await, [] as [Position; 0]);
    assert_eq!(places(store, "a", Position::MAX).await, [] as [Position; 0]);
}

/// Read in pages of any size, a journal is what it is when read at once.
pub async fn pages_make_up_the_journal(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    for names in [&["x", "y", "z"][..], &["u"], &["v", "w"]] {
        hand.append(|append| append.frame = frame(names)).await.unwrap();
    }
    let run = run_id("a");
    let whole = store.load(&run, 0).await.unwrap();
    for size in [0, 1, 2, 3, 100] {
        let (mut read, mut from) = (Vec::new(), 0);
        loop {
            let page = store.load_page(&run, from, size).await.unwrap();
            let Some(last) = page.last() else { break };
            from = last.position + last.events().unwrap().len() as u64;
            read.extend(page);
        }
        assert_eq!(read, whole, "pages of {size}");
    }
    // A page that begins inside a frame holds that frame.
    assert_eq!(store.load_page(&run, 2, 1).await.unwrap(), whole[1..2]);
    assert_eq!(store.load_page(&run_id("nobody"), 0, 5).await, Ok(Vec::new()));
}

/// `last_frame` returns the newest frame.
pub async fn the_last_frame_is_the_newest(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    assert_eq!(store.last_frame(&run_id("a")).await.unwrap().unwrap().position, 0);
    hand.append(|append| append.frame = frame(&["x", "y"])).await.unwrap();
    hand.append(|_| {}).await.unwrap();
    assert_eq!(store.last_frame(&run_id("a")).await.unwrap().unwrap().position, 3);
}

/// An append may hold no events and still change a status; the journal does not grow.
pub async fn an_append_without_events_changes_the_rest(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    let nothing = frame(&[]);
    hand.append(|append| {
        append.frame = nothing;
        append.status = Some(becomes(Status::Waiting, Some(at(50)), false));
    })
    .await
    .unwrap();
    hand.append(|_| {}).await.unwrap();
    assert_eq!(places(store, "a", 0).await, [0, 1]);
    let record = store.run(&run_id("a")).await.unwrap().unwrap();
    assert_eq!((record.status, record.wake_at, record.next), (Status::Waiting, Some(at(50)), 2));
    read_verified(&store.load(&run_id("a"), 0).await.unwrap()).unwrap();
}

/// Appends whose answer no caller awaits become durable by themselves, and advance the watermark.
pub async fn silent_appends_move_the_tail(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    for _ in 0..5 {
        hand.silent(|_| {});
    }
    hand.watermark.reached(6).await.unwrap();
    assert_eq!(places(store, "a", 0).await, [0, 1, 2, 3, 4, 5]);
}
