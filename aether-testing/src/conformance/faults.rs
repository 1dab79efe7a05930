//! Rules about a store whose caller gets a wrong answer, or none, because of a fault between the two.
//!
//! An engine resumes its runs after each of these faults; see [`Sim::fail_at_every_call`](crate::Sim::fail_at_every_call).

use std::sync::Arc;

use aether_core::contract::Status;
use aether_core::store::ledger::Acquired;
use aether_core::store::{AppendError, Created, Store};

use super::kit::{Hand, acquire, becomes, frame, new_run, run_id};
use crate::stores::faulty::{FaultyStore, StoreFault};

fn faulty(store: &Arc<dyn Store>, fault: StoreFault) -> Arc<dyn Store> {
    Arc::new(FaultyStore::new(Arc::clone(store), Some(fault)))
}

async fn events(store: &Arc<dyn Store>) -> usize {
    let frames = store.load(&run_id("a"), 0).await.unwrap();
    frames.iter().map(|frame| frame.events().unwrap().len()).sum()
}

/// An append whose answer was lost took effect once: a repeat is refused, and the error names the next position.
pub async fn a_lost_answer_does_not_double_an_append(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(&faulty(store, StoreFault::AnswerLost(2)), "a").await;
    hand.append(|append| append.frame = frame(&["x", "y"])).await.unwrap_err();
    hand.next = 1;
    let again = hand.append(|append| append.frame = frame(&["x", "y"])).await.unwrap_err();
    assert_eq!(again, AppendError::WrongPosition { run: run_id("a"), expected: 1, found: 3 });
    assert_eq!(events(store).await, 3);
}

/// A ledger key whose grant was lost is taken: the second request gets the row and is granted nothing.
pub async fn a_lost_grant_is_not_given_twice(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(&faulty(store, StoreFault::AnswerLost(2)), "a").await;
    let wanted = acquire(&run_id("a"), "pay", Some("invoice 7"));
    hand.append(|append| append.acquire = Some(wanted.clone())).await.unwrap_err();
    let again = hand.append(|append| append.acquire = Some(wanted.clone())).await.unwrap();
    let Acquired::Taken(row) = again.acquired else { panic!("granted twice: {:?}", again.acquired) };
    assert_eq!(row.key, wanted.entry.key);
}

/// A run whose creation was not answered exists once.
pub async fn a_lost_creation_is_found(store: &Arc<dyn Store>) {
    let faulty = faulty(store, StoreFault::AnswerLost(1));
    faulty.create(new_run("a")).await.unwrap_err();
    assert!(matches!(faulty.create(new_run("a")).await.unwrap(), Created::Existing(_)));
    assert_eq!(events(store).await, 1);
}

/// An append that failed before it reached the store leaves nothing behind, and can be repeated.
pub async fn a_failed_append_can_be_made_again(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(&faulty(store, StoreFault::WriteFails(2)), "a").await;
    let before = store.run(&run_id("a")).await.unwrap();
    let ends = || becomes(Status::Completed, None, true);
    hand.append(|append| append.status = Some(ends())).await.unwrap_err();
    assert_eq!(store.run(&run_id("a")).await.unwrap(), before);
    hand.next = 1;
    hand.append(|append| append.status = Some(ends())).await.unwrap();
    assert_eq!(events(store).await, 2);
}

/// Of a batch that was cut in two, the first part is written and the rest is not; the run continues after the first part.
pub async fn a_torn_batch_goes_on_where_it_was_cut(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(&faulty(store, StoreFault::Torn(2)), "a").await;
    let (first, second, third) = (hand.queue(|_| {}), hand.queue(|_| {}), hand.queue(|_| {}));
    first.await.unwrap().unwrap_err();
    second.await.unwrap().unwrap_err();
    let third = third.await.unwrap().unwrap_err();
    assert_eq!(third, AppendError::WrongPosition { run: run_id("a"), expected: 3, found: 2 });
    hand.next = 2;
    hand.append(|_| {}).await.unwrap();
    assert_eq!(events(store).await, 3);
}

/// A read that failed once succeeds the second time, with the same answer.
pub async fn a_failed_read_can_be_made_again(store: &Arc<dyn Store>) {
    Hand::create(store, "a").await;
    let faulty = faulty(store, StoreFault::ReadFails(1));
    faulty.load(&run_id("a"), 0).await.unwrap_err();
    assert_eq!(faulty.load(&run_id("a"), 0).await.unwrap(), store.load(&run_id("a"), 0).await.unwrap());
}

/// A large value that could not be stored is absent, and can be stored later.
pub async fn a_failed_value_can_be_kept_again(store: &Arc<dyn Store>) {
    let faulty = faulty(store, StoreFault::EffectFails(1));
    let hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    faulty.put_blob(&run_id("a"), hash, b"test".to_vec()).await.unwrap_err();
    assert_eq!(store.blob(&run_id("a"), hash).await.unwrap(), None);
    faulty.put_blob(&run_id("a"), hash, b"test".to_vec()).await.unwrap();
    assert_eq!(store.blob(&run_id("a"), hash).await.unwrap().as_deref(), Some(&b"test"[..]));
}
