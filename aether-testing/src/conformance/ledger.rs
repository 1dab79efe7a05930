//! Rules about the ledger.

use std::sync::Arc;

use aether_core::contract::Status;
use aether_core::store::ledger::{Acquired, LedgerEntry, LedgerStatus, LedgerUpdate};
use aether_core::store::{AppendError, Created, NewRun, Store, StoreError};
use futures_util::future::join_all;

use super::kit::{Hand, acquire, at, becomes, entry, frame, held, json, new_run, run_id, update};

async fn ask(hand: &mut Hand, name: &str, business: Option<&str>) -> Acquired {
    let asked = acquire(&hand.run, name, business);
    hand.append(|append| append.acquire = Some(asked)).await.unwrap().acquired
}

async fn settle(hand: &mut Hand, entry: &LedgerEntry, status: LedgerStatus) {
    let update = update(&entry.key, status);
    hand.append(|append| append.ledger = vec![update]).await.unwrap();
}

/// A key is granted once. A second request gets the row, and `otherwise` is in the journal in place of the frame.
pub async fn a_key_is_granted_once(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    assert_eq!(ask(&mut hand, "x", None).await, Acquired::Granted);
    let row = entry(&run_id("a"), "x", None);
    assert_eq!(ask(&mut hand, "x", Some("a/more")).await, Acquired::Taken(Box::new(row.clone())));
    assert_eq!(store.last_frame(&run_id("a")).await.unwrap().unwrap().text, frame(&["refused"]).text);
    assert_eq!(store.run(&run_id("a")).await.unwrap().unwrap().next, 3);
    assert_eq!(store.entries(&run_id("a")).await.unwrap(), [row]);
    assert_eq!(hand.append(|_| {}).await.unwrap().acquired, Acquired::NotAsked);
}

/// A business key that one key holds is refused to every other key of its run; rows without one never collide.
pub async fn a_business_key_is_held_against_other_keys(store: &Arc<dyn Store>) {
    let (mut one, mut two) = (Hand::create(store, "a").await, Hand::create(store, "b").await);
    assert_eq!(ask(&mut one, "x", Some("a/invoice-7")).await, Acquired::Granted);
    let row = entry(&run_id("a"), "x", Some("a/invoice-7"));
    assert_eq!(ask(&mut one, "y", Some("a/invoice-7")).await, Acquired::Taken(Box::new(row.clone())));
    assert_eq!(store.entries(&run_id("a")).await.unwrap(), [row]);
    assert_eq!(ask(&mut two, "x", Some("b/invoice-7")).await, Acquired::Granted);
    for name in ["p", "q"] {
        assert_eq!(ask(&mut two, name, None).await, Acquired::Granted);
    }
}

/// Started, succeeded, in doubt and confirmed hold the business key; only failed frees it.
pub async fn only_a_definite_failure_frees_a_business_key(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    let row = entry(&run_id("a"), "x", Some("a/k"));
    assert_eq!(ask(&mut hand, "x", Some("a/k")).await, Acquired::Granted);
    for status in [LedgerStatus::InDoubt, LedgerStatus::Succeeded, LedgerStatus::Confirmed] {
        settle(&mut hand, &row, status).await;
        let Acquired::Taken(holder) = ask(&mut hand, "y", Some("a/k")).await else {
            panic!("{status:?} freed the business key");
        };
        assert_eq!((holder.key, holder.status), (row.key.clone(), status));
    }
    settle(&mut hand, &row, LedgerStatus::Failed).await;
    assert_eq!(ask(&mut hand, "y", Some("a/k")).await, Acquired::Granted);
    let failed = store.entry(&run_id("a"), &row.key).await.unwrap().unwrap();
    assert_eq!((failed.status, failed.business_key), (LedgerStatus::Failed, None));
    assert!(matches!(ask(&mut hand, "x", None).await, Acquired::Taken(_)), "a failed row keeps its own key");
}

/// Of many appends of a run that request one business key at the same time, the first is granted.
pub async fn concurrent_acquires_grant_one(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    let mut replies = Vec::new();
    for n in 0..20 {
        let asked = acquire(&hand.run, &format!("x{n}"), Some("a/only-one"));
        replies.push(hand.queue(|append| append.acquire = Some(asked)));
    }
    let answers = join_all(replies).await;
    let answers = answers.into_iter().map(|answer| answer.unwrap().unwrap().acquired);
    let granted: Vec<_> = answers.map(|acquired| acquired == Acquired::Granted).collect();
    assert_eq!(granted.iter().position(|granted| *granted), Some(0));
    assert_eq!(granted.iter().filter(|granted| **granted).count(), 1);
}

/// Every field of a row is read back unchanged.
pub async fn rows_round_trip(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    let full = LedgerEntry {
        result: Some(json("{\"z\" : [1, 2.50]}")),
        error: Some(json("\"ü\"")),
        committed: true,
        epoch: 41,
        started_at: at(5),
        finished_at: Some(at(6)),
        ..entry(&run_id("a"), "x", Some("a/business"))
    };
    let mut asked = acquire(&run_id("a"), "x", None);
    asked.entry = full.clone();
    hand.append(|append| append.acquire = Some(asked)).await.unwrap();
    assert_eq!(store.entry(&run_id("a"), &full.key).await.unwrap(), Some(full));
    assert_eq!(store.entry(&run_id("a"), &entry(&run_id("a"), "y", None).key).await.unwrap(), None);
}

/// An update is written with its append, also with the append that acquires the row.
pub async fn updates_ride_with_appends(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    let asked = acquire(&run_id("a"), "x", None);
    let key = asked.entry.key.clone();
    hand.append(|append| {
        append.ledger = vec![update(&asked.entry.key, LedgerStatus::InDoubt)];
        append.acquire = Some(asked);
        append.at = at(9);
    })
    .await
    .unwrap();
    let row = store.entry(&run_id("a"), &key).await.unwrap().unwrap();
    assert_eq!((row.status, row.finished_at, row.committed), (LedgerStatus::InDoubt, Some(at(9)), true));
    hand.append(|append| {
        append.ledger = vec![update(&key, LedgerStatus::Succeeded)];
        append.status = Some(becomes(Status::Completed, None, true));
    })
    .await
    .unwrap();
    assert_eq!(store.entry(&run_id("a"), &key).await.unwrap().unwrap().status, LedgerStatus::Succeeded);
}

/// An update replaces status, result, error and finality as given; a row set back to started has no end.
pub async fn an_outcome_is_written_literally(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    ask(&mut hand, "x", None).await;
    let key = entry(&run_id("a"), "x", None).key;
    let updates = [
        LedgerUpdate {
            key: key.clone(),
            status: LedgerStatus::Succeeded,
            result: Some(json("{\"id\": 7}")),
            error: None,
            committed: true,
        },
        LedgerUpdate {
            key: key.clone(),
            status: LedgerStatus::Failed,
            result: None,
            error: Some(json("\"no\"")),
            committed: false,
        },
        LedgerUpdate {
            key: key.clone(),
            status: LedgerStatus::Started,
            result: None,
            error: None,
            committed: false,
        },
    ];
    for update in updates {
        let wanted = update.clone();
        hand.append(|append| append.ledger = vec![update]).await.unwrap();
        let row = store.entry(&run_id("a"), &key).await.unwrap().unwrap();
        assert_eq!((row.status, row.committed), (wanted.status, wanted.committed));
        assert_eq!((row.result, row.error), (wanted.result, wanted.error));
        assert_eq!(row.finished_at, (wanted.status != LedgerStatus::Started).then(|| at(3)));
        assert_eq!((row.started_at, row.epoch), (at(2), 1));
    }
}

/// An append that changes a missing row is refused with an error that names the key.
pub async fn an_update_of_a_missing_row_is_refused(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    let key = entry(&run_id("a"), "x", None).key;
    let missing = update(&key, LedgerStatus::Succeeded);
    let refused = hand.append(|append| append.ledger = vec![missing]).await.unwrap_err();
    let AppendError::Store(StoreError::Corrupt { reason, .. }) = refused else { panic!("{refused}") };
    assert!(reason.contains(key.as_str()), "{reason}");
    assert_eq!(store.entry(&run_id("a"), &key).await.unwrap(), None);
    assert_eq!(store.load(&run_id("a"), 0).await.unwrap().len(), 1);
}

/// The rows of a run are listed in the order in which they were acquired, also after they have changed.
pub async fn rows_are_listed_in_order_of_start(store: &Arc<dyn Store>) {
    let (mut hand, mut other) = (Hand::create(store, "a").await, Hand::create(store, "b").await);
    for name in ["z", "m", "a"] {
        ask(&mut hand, name, None).await;
        ask(&mut other, name, None).await;
    }
    settle(&mut hand, &entry(&run_id("a"), "z", None), LedgerStatus::Succeeded).await;
    let rows = store.entries(&run_id("a")).await.unwrap();
    let names: Vec<_> = rows.iter().map(|row| row.command.name()).collect();
    assert_eq!(names, ["z", "m", "a"]);
}

/// A fork is created with the rows of the calls that it has copied, in one write. A row whose business key is taken is left
/// out; the others hold theirs. A fork whose id is taken brings no rows.
pub async fn a_fork_comes_with_its_rows(store: &Arc<dyn Store>) {
    let fork = || NewRun { owner: None, frame: frame(&["a", "b"]), ..new_run("fork") };
    let done = |name: &str, business| LedgerEntry {
        status: LedgerStatus::Succeeded,
        committed: true,
        finished_at: Some(at(1)),
        ..entry(&run_id("fork"), name, business)
    };
    let (kept, taken) = (done("p", Some("fork/k")), done("q", Some("fork/k")));
    assert_eq!(store.create_fork(fork(), vec![kept.clone(), taken]).await, Ok(Created::New));
    assert_eq!(store.entries(&run_id("fork")).await.unwrap(), vec![kept.clone()]);
    assert_eq!(held(store, &run_id("fork"), "fork/k").await, Some(kept));
    let record = store.run(&run_id("fork")).await.unwrap().unwrap();
    assert_eq!((record.status, record.next, record.epoch), (Status::Pending, 2, 0));
    let again = store.create_fork(fork(), vec![done("r", None)]).await;
    assert!(matches!(again, Ok(Created::Existing(_))), "{again:?}");
    assert_eq!(store.entries(&run_id("fork")).await.unwrap().len(), 1);
}
