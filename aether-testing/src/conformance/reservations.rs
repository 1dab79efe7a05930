//! Rules about store-wide business keys: who has reserved them.

use std::sync::Arc;

use aether_core::store::Store;
use aether_core::store::ledger::{Acquired, Reservation, STORE_WIDE};
use futures_util::future::join_all;

use super::kit::{Hand, acquire, at, reservation, run_id};

fn key(name: &str) -> String {
    format!("{STORE_WIDE}shop::pay:{name}")
}

/// The first one that reserves a key has it; who comes later learns who that is, also where their own run is another.
pub async fn a_key_is_reserved_once(store: &Arc<dyn Store>) {
    let (key, other) = (key("7"), key("8"));
    assert_eq!(store.reservation(&key).await, Ok(None));
    let first = reservation("a", "x", &key);
    assert_eq!(store.reserve(first.clone(), None).await, Ok(first.clone()));
    assert_eq!(store.reserve(reservation("b", "y", &key), None).await, Ok(first.clone()));
    assert_eq!(store.reserve(first.clone(), None).await, Ok(first.clone()), "it may ask again");
    assert_eq!(store.reservation(&key).await, Ok(Some(first)));
    assert_eq!(store.reservation(&other).await, Ok(None), "no other key is reserved");
    // What was to be replaced may never have been there.
    let free = reservation("b", "y", &other);
    assert_eq!(store.reserve(free.clone(), Some(reservation("a", "x", &other))).await, Ok(free));
}

/// A reservation is replaced only by one that names it: run, key, epoch and time.
pub async fn only_the_very_reservation_is_replaced(store: &Arc<dyn Store>) {
    let key = key("7");
    let first = reservation("a", "x", &key);
    store.reserve(first.clone(), None).await.unwrap();
    let wanted = reservation("b", "y", &key);
    for other in [
        Reservation { epoch: 2, ..first.clone() },
        Reservation { run: run_id("c"), ..first.clone() },
        Reservation { at: at(9), ..first.clone() },
        reservation("a", "z", &key),
        wanted.clone(),
    ] {
        assert_eq!(store.reserve(wanted.clone(), Some(other)).await, Ok(first.clone()));
    }
    assert_eq!(store.reserve(wanted.clone(), Some(first.clone())).await, Ok(wanted.clone()));
    let late = reservation("c", "z", &key);
    assert_eq!(store.reserve(late, Some(first)).await, Ok(wanted.clone()), "it was replaced before");
    let later = Reservation { epoch: 2, at: at(8), ..wanted.clone() };
    assert_eq!(store.reserve(later.clone(), Some(wanted)).await, Ok(later.clone()), "by its own holder");
    assert_eq!(store.reservation(&key).await, Ok(Some(later)));
}

/// Of many that reserve a free key at the same time, or replace one reservation, one does, and all learn which.
pub async fn of_many_reservers_one_wins(store: &Arc<dyn Store>) {
    let key = key("7");
    let mut before = None;
    for round in 0..3 {
        let wanted: Vec<_> =
            (0..20).map(|n| reservation(&format!("run{n}"), &format!("x{round}"), &key)).collect();
        let asked = wanted.iter().map(|wanted| store.reserve(wanted.clone(), before.clone()));
        let answers: Vec<_> = join_all(asked).await.into_iter().map(Result::unwrap).collect();
        let winner = store.reservation(&key).await.unwrap().unwrap();
        assert!(wanted.contains(&winner) && answers.iter().all(|answer| *answer == winner));
        before = Some(winner);
    }
}

/// Every field of a reservation is read back unchanged, whatever texts they are.
pub async fn a_reservation_is_read_back_whole(store: &Arc<dyn Store>) {
    for name in ["", "a:b\t/%", "ü\u{1F600}", &"x".repeat(2_000)] {
        let key = key(name);
        let wanted = Reservation { epoch: 41, at: at(77), ..reservation("a:b/c", "say: \"x\"", &key) };
        assert_eq!(store.reserve(wanted.clone(), None).await, Ok(wanted.clone()));
        assert_eq!(store.reservation(&key).await, Ok(Some(wanted)));
    }
}

/// An append acquires a row whatever other rows hold its store-wide key: who may, is decided before.
pub async fn the_ledger_does_not_look_at_store_wide_keys(store: &Arc<dyn Store>) {
    let key = key("7");
    for (run, name) in [("a", "x"), ("b", "y")] {
        let mut hand = Hand::create(store, run).await;
        let asked = acquire(&hand.run, name, Some(&key));
        let row = asked.entry.clone();
        let acquired = hand.append(|append| append.acquire = Some(asked)).await.unwrap().acquired;
        assert_eq!(acquired, Acquired::Granted);
        assert_eq!(store.entry(&hand.run, &row.key).await, Ok(Some(row.clone())), "it keeps its key");
        assert_eq!(store.entry(&run_id("other"), &row.key).await, Ok(None), "a row belongs to its run");
    }
}
