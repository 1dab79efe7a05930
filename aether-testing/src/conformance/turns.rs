//! Rules about turns in queues that are not taken: of runs that have lapsed, and of starts that are refused.

use std::sync::Arc;
use std::time::Duration;

use aether_core::store::{ClaimRequest, Created, LimitKind, Store};

use super::kit::{at, claim, names, run_id};
use super::queues::{create, end, queued, set, take};

/// However many runs of a key have expired, half of each claim is for those that can begin. They use up no starts.
pub async fn expired_runs_shut_no_queue_out(store: &Arc<dyn Store>) {
    set(store, "q/b", LimitKind::Starts { n: 1, per: Duration::from_secs(60) }).await;
    for no in 0..300 {
        let mut new = queued(&format!("a{no:03}"), "a", 0);
        new.terms.expires_at = Some(at(5));
        create(store, new).await;
    }
    let mut expired = queued("b-expired", "b", 1);
    expired.terms.expires_at = Some(at(6));
    create(store, expired).await;
    create(store, queued("b", "b", 2)).await;
    let mut begun = None;
    for turn in 0..10 {
        let leases = take(store, 10, 10).await;
        assert_eq!(leases.len(), 10, "what queues leave is for those that have expired");
        if leases.iter().any(|lease| lease.run.id == run_id("b")) {
            begun.get_or_insert(turn);
        }
        for lease in &leases {
            let started = (lease.run.id == run_id("b")).then(|| at(10));
            assert_eq!(lease.run.queue.started_at, started, "{}", lease.run.id);
            end(store, lease).await;
        }
    }
    assert!(begun.is_some(), "runs that have expired shut another key out");
}

/// Who claims one run at a time gets runs that can begin, and those that have expired, in turns, as its requests say.
pub async fn single_places_go_to_queues_and_the_expired(store: &Arc<dyn Store>) {
    for no in 0..3 {
        let mut new = queued(&format!("expired{no}"), "a", 0);
        new.terms.expires_at = Some(at(5));
        create(store, new).await;
        create(store, queued(&format!("queued{no}"), "b", 0)).await;
    }
    // Behind the expired ones of their key.
    let early = (0..4).map(|no| queued(&format!("early{no}"), "a", 0));
    for new in early {
        create(store, new).await;
    }
    let one = async |lapsed_first| {
        let request = ClaimRequest { limit: 1, lapsed_first, ..claim("first", 10) };
        names(&store.claim(request).await.unwrap()).concat()
    };
    let mut got = Vec::new();
    for turn in 0..10 {
        got.push(one(turn % 2 == 0).await);
    }
    assert!(got[0].starts_with("expired"), "{got:?}");
    let place = got.iter().position(|name| name.starts_with("queued"));
    assert!(place.is_some_and(|place| place <= 3), "{got:?}");
    assert!(got.iter().all(|name| !name.is_empty()), "{got:?}");
    assert_eq!(one(true).await + &one(false).await, "");
}

/// A start over a limit of open runs leaves none of the values that were stored for it; those of the runs that are there stay.
pub async fn a_start_over_a_limit_leaves_no_values(store: &Arc<dyn Store>) {
    set(store, "q", LimitKind::Open(1)).await;
    let (own, shared) = ("aa".repeat(32), "bb".repeat(32));
    store.put_blob(&run_id("a"), &shared, b"bytes".to_vec()).await.unwrap();
    create(store, queued("a", "k", 0)).await;
    for hash in [&own, &shared] {
        store.put_blob(&run_id("b"), hash, b"bytes".to_vec()).await.unwrap();
    }
    let refused = store.create(queued("b", "k", 1)).await.unwrap();
    assert!(matches!(refused, Created::OverLimit { .. }), "{refused:?}");
    assert_eq!(store.blob(&run_id("b"), &own).await, Ok(None));
    assert_eq!(store.blob(&run_id("a"), &shared).await, Ok(Some(b"bytes".to_vec())));
    // One that is there is not refused.
    assert!(matches!(store.create(queued("a", "k", 2)).await, Ok(Created::Existing(_))));
    assert_eq!(store.blob(&run_id("a"), &shared).await, Ok(Some(b"bytes".to_vec())));
    end(store, &take(store, 3, 10).await[0]).await;
    store.purge(&run_id("a"), None).await.unwrap();
    assert_eq!(store.blob(&run_id("a"), &shared).await, Ok(None));
}
