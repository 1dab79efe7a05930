//! Rules about claiming, renewing and releasing runs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use aether_core::contract::Status;
use aether_core::queue::StartTerms;
use aether_core::store::{
    AppendError, ClaimRequest, Created, LostRun, NewRun, Store, StoreError, WorkerRecord,
};
use futures_util::future::join_all;

use super::kit::{Hand, at, becomes, claim, code, names, new_run, run_id, takeover, worker};

async fn create_free(store: &Arc<dyn Store>, name: &str, seconds: u64) {
    let new = NewRun { owner: None, at: at(seconds), ..new_run(name) };
    store.create(new).await.unwrap();
}

/// A due run that no worker holds is claimed once, with a new epoch and its record otherwise unchanged.
pub async fn a_due_run_is_claimed_once(store: &Arc<dyn Store>) {
    create_free(store, "a", 5).await;
    assert_eq!(store.claim(claim("w", 4)).await.unwrap(), []);
    let leases = store.claim(claim("w", 5)).await.unwrap();
    assert_eq!(names(&leases), ["a"]);
    let lease = &leases[0];
    assert_eq!((&lease.run.owner, lease.run.epoch, lease.run.next), (&Some(worker("w")), 1, 1));
    assert_eq!((lease.run.status, lease.run.wake_at), (Status::Pending, Some(at(5))));
    assert_eq!(store.run(&run_id("a")).await.unwrap().as_ref(), Some(&lease.run));
    assert_eq!(store.claim(claim("v", 6)).await.unwrap(), []);
}

const LEASE: Duration = Duration::from_secs(60);

/// A run that a worker holds is not claimed, however late it is; a worker that was seen silent loses it, and the claim
/// raises the epoch. The worker that took it over holds it then.
pub async fn a_held_run_is_claimed_only_from_a_silent_worker(store: &Arc<dyn Store>) {
    store.register(&worker("first"), LEASE, Vec::new()).await.unwrap();
    Hand::create(store, "a").await;
    assert_eq!(store.claim(claim("w", 1_000_000)).await.unwrap(), []);
    assert_eq!(store.claim(takeover("w", 60, "another", 0)).await.unwrap(), []);
    let leases = store.claim(takeover("w", 60, "first", 0)).await.unwrap();
    assert_eq!((names(&leases), leases[0].run.epoch), (vec!["a"], 2));
    assert_eq!(store.claim(takeover("v", 61, "first", 0)).await.unwrap(), []);
    assert_eq!(store.claim(takeover("v", 61, "w", 0)).await.unwrap()[0].run.epoch, 3);
}

/// A run that a silent worker was advancing is due, whatever time its worker's clock told: the clock may have been set back.
pub async fn a_run_that_was_being_advanced_is_due_by_no_clock(store: &Arc<dyn Store>) {
    store.register(&worker("first"), LEASE, Vec::new()).await.unwrap();
    store.create(NewRun { at: at(1_000_000), ..new_run("a") }).await.unwrap();
    assert_eq!(store.claim(claim("w", 5)).await.unwrap(), []);
    assert_eq!(names(&store.claim(takeover("w", 5, "first", 0)).await.unwrap()), ["a"]);
}

/// A worker that has renewed since it was seen silent keeps its runs: the claim itself compares.
pub async fn a_renewal_keeps_every_run(store: &Arc<dyn Store>) {
    store.register(&worker("first"), LEASE, Vec::new()).await.unwrap();
    for name in ["a", "b"] {
        Hand::create(store, name).await;
    }
    let other = NewRun { owner: Some(worker("other")), ..new_run("c") };
    store.create(other).await.unwrap();
    assert_eq!(store.renew(&worker("first"), LEASE, Vec::new()).await.unwrap(), []);
    assert_eq!(store.claim(takeover("w", 99, "first", 0)).await.unwrap(), []);
    // One that never registered has never renewed.
    assert_eq!(names(&store.claim(takeover("w", 99, "other", 0)).await.unwrap()), ["c"]);
    // A store may make a renewal once more when it does not know whether it was made.
    let renewals = store.workers().await.unwrap().into_iter().find(|listed| listed.id == worker("first"));
    let renewals = renewals.map_or(0, |first| first.renewals);
    assert!(renewals >= 1, "a renewal is counted");
    assert_eq!(names(&store.claim(takeover("w", 99, "first", renewals)).await.unwrap()), ["a", "b"]);
}

/// Workers that hold runs are listed with their leases and how often they have renewed; a worker that renews without
/// having registered is known from then on.
pub async fn workers_that_hold_runs_are_listed(store: &Arc<dyn Store>) {
    assert_eq!(store.register(&worker("first"), LEASE, Vec::new()).await, Ok(true));
    assert_eq!(store.register(&worker("first"), LEASE, Vec::new()).await, Ok(false), "the name is taken");
    store.register(&worker("idle"), LEASE, Vec::new()).await.unwrap();
    assert_eq!(store.workers().await.unwrap(), []);
    for (run, owner) in [("a", "first"), ("b", "first"), ("c", "other")] {
        store.create(NewRun { owner: Some(worker(owner)), ..new_run(run) }).await.unwrap();
    }
    store.renew(&worker("first"), LEASE * 2, Vec::new()).await.unwrap();
    store.renew(&worker("first"), LEASE * 2, Vec::new()).await.unwrap();
    let mut workers = store.workers().await.unwrap();
    workers.sort_by(|a, b| a.id.cmp(&b.id));
    // A store may make a renewal once more when it does not know whether it was made.
    let renewals = workers.first().map_or(0, |first| first.renewals);
    assert!(renewals >= 2, "{workers:?}");
    let first = WorkerRecord { id: worker("first"), renewals, lease: Some(LEASE * 2) };
    let other = WorkerRecord { id: worker("other"), renewals: 0, lease: None };
    assert_eq!(workers, [first, other]);
}

/// A worker from which runs were taken is told so at every renewal until it has noticed; then no more.
pub async fn a_worker_learns_what_was_taken_from_it(store: &Arc<dyn Store>) {
    let (first, lost) = (worker("first"), |name, epoch| LostRun { run: run_id(name), epoch });
    store.register(&first, LEASE, Vec::new()).await.unwrap();
    for name in ["a", "b"] {
        Hand::create(store, name).await;
    }
    assert_eq!(store.claim(takeover("w", 60, "first", 0)).await.unwrap().len(), 2);
    let both = [lost("a", 1), lost("b", 1)];
    assert_eq!(sorted(store.renew(&first, LEASE, Vec::new()).await.unwrap()), both);
    assert_eq!(sorted(store.renew(&first, LEASE, Vec::new()).await.unwrap()), both);
    let left = store.renew(&first, LEASE, vec![lost("a", 1), lost("b", 7)]).await.unwrap();
    assert_eq!(left, [lost("b", 1)]);
    assert_eq!(store.renew(&first, LEASE, left).await.unwrap(), []);
    assert_eq!(store.renew(&worker("w"), LEASE, Vec::new()).await.unwrap(), []);
}

fn sorted(mut lost: Vec<LostRun>) -> Vec<LostRun> {
    lost.sort();
    lost
}

/// A worker that retires leaves nothing: its runs are free, and its name is too.
pub async fn a_retired_worker_holds_nothing(store: &Arc<dyn Store>) {
    store.register(&worker("first"), LEASE, Vec::new()).await.unwrap();
    Hand::create(store, "a").await;
    store.retire(&worker("nobody")).await.unwrap();
    assert_eq!(store.claim(claim("w", 60)).await.unwrap(), []);
    store.retire(&worker("first")).await.unwrap();
    assert_eq!(names(&store.claim(claim("w", 60)).await.unwrap()), ["a"]);
    assert_eq!(store.register(&worker("first"), LEASE, Vec::new()).await, Ok(true));
}

/// Of workers that claim at the same time, exactly one gets each run.
pub async fn two_claimers_never_both_get_a_run(store: &Arc<dyn Store>) {
    for n in 0..30 {
        create_free(store, &format!("run{n}"), 1).await;
    }
    let claimers = (0..12).map(|n| store.claim(ClaimRequest { limit: 4, ..claim(&format!("w{n}"), 2) }));
    let answers = join_all(claimers).await;
    let got: Vec<_> = answers.into_iter().flat_map(|leases| leases.unwrap()).collect();
    let distinct: BTreeSet<_> = got.iter().map(|lease| lease.run.id.clone()).collect();
    assert_eq!((got.len(), distinct.len()), (30, 30));
    assert!(got.iter().all(|lease| lease.run.epoch == 1));
}

/// A claim takes the longest due runs first, at most as many as requested, and only of the named codes.
pub async fn a_claim_is_limited(store: &Arc<dyn Store>) {
    for (name, seconds) in [("late", 8), ("early", 2), ("middle", 5)] {
        create_free(store, name, seconds).await;
    }
    let other = NewRun { owner: None, code: code("other"), ..new_run("foreign") };
    store.create(other).await.unwrap();
    let two = ClaimRequest { limit: 2, ..claim("w", 20) };
    assert_eq!(names(&store.claim(two).await.unwrap()), ["early", "middle"]);
    let none = ClaimRequest { codes: vec![], ..claim("w", 20) };
    assert_eq!(store.claim(none).await.unwrap(), []);
    let both = ClaimRequest { codes: vec![code("other"), code("flow")], ..claim("w", 20) };
    assert_eq!(names(&store.claim(both).await.unwrap()), ["foreign", "late"]);
}

/// A claim of one run ignores when it is due, but neither a lease nor an end.
pub async fn one_run_is_claimed_before_it_is_due(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    let only = |now| ClaimRequest { only: Some(run_id("a")), ..claim("w", now) };
    assert_eq!(store.claim(only(10)).await.unwrap(), []);
    hand.status(becomes(Status::Waiting, None, true)).await;
    create_free(store, "b", 0).await;
    let leases = store.claim(only(10)).await.unwrap();
    assert_eq!((names(&leases), leases[0].run.epoch), (vec!["a"], 2));
    assert_eq!(store.claim(only(900)).await.unwrap(), []);
    let from_silent = ClaimRequest { only: Some(run_id("a")), ..takeover("v", 20, "w", 0) };
    assert_eq!(names(&store.claim(from_silent).await.unwrap()), ["a"]);
    Hand::of(store, "a", 3, 2).status(becomes(Status::Completed, None, true)).await;
    assert_eq!(store.claim(only(900)).await.unwrap(), []);
}

/// A released run has no owner at once, and is due at the given time; its journal does not change.
pub async fn released_runs_are_free(store: &Arc<dyn Store>) {
    Hand::create(store, "a").await;
    store.release(&worker("first"), &run_id("a"), 1, at(30)).await.unwrap();
    let record = store.run(&run_id("a")).await.unwrap().unwrap();
    assert_eq!((record.owner, record.wake_at), (None, Some(at(30))));
    assert_eq!((record.next, record.epoch), (1, 1));
    assert_eq!(store.claim(claim("w", 29)).await.unwrap(), []);
    assert_eq!(store.claim(claim("w", 30)).await.unwrap()[0].run.epoch, 2);
}

/// A worker that lost a run cannot release it; a run that has ended is not released.
pub async fn a_stale_release_does_nothing(store: &Arc<dyn Store>) {
    Hand::create(store, "a").await;
    store.claim(takeover("w", 60, "first", 0)).await.unwrap();
    // A store that was set back gives an epoch out again: neither of the two is enough.
    for (name, epoch) in [("first", 1), ("w", 1), ("first", 2)] {
        store.release(&worker(name), &run_id("a"), epoch, at(0)).await.unwrap();
        let record = store.run(&run_id("a")).await.unwrap().unwrap();
        assert_eq!(record.owner, Some(worker("w")), "{name}, {epoch}");
    }
    Hand::of(store, "a", 2, 1).status(becomes(Status::Failed, None, true)).await;
    store.release(&worker("w"), &run_id("a"), 2, at(0)).await.unwrap();
    assert_eq!(store.run(&run_id("a")).await.unwrap().unwrap().wake_at, None);
    let nobody = run_id("nobody");
    let unknown = store.release(&worker("w"), &nobody, 1, at(0)).await;
    assert_eq!(unknown, Err(StoreError::UnknownRun { run: nobody.clone() }));
}

/// The next wake-up is the earliest of the runs without an owner.
pub async fn the_next_wake_is_that_of_free_runs(store: &Arc<dyn Store>) {
    Hand::create(store, "held").await;
    assert_eq!(store.next_wake().await, Ok(None));
    for (name, wake_at) in [("later", Some(at(90))), ("sooner", Some(at(70))), ("never", None)] {
        Hand::create(store, name).await.status(becomes(Status::Waiting, wake_at, true)).await;
    }
    assert_eq!(store.next_wake().await, Ok(Some(at(70))));
}

/// Runs that wait for nothing and are due late, by a clock that was ahead, can be made due; no others are.
pub async fn runs_that_wait_for_nothing_are_hastened(store: &Arc<dyn Store>) {
    for (name, wake_at) in [("released", 5_000), ("soon", 200)] {
        Hand::create(store, name).await;
        store.release(&worker("first"), &run_id(name), 1, at(wake_at)).await.unwrap();
    }
    Hand::create(store, "asleep").await.status(becomes(Status::Waiting, Some(at(5_000)), true)).await;
    let created = |name, not_before| NewRun {
        owner: None,
        at: at(5_000),
        terms: StartTerms { not_before, ..StartTerms::default() },
        ..new_run(name)
    };
    for (name, not_before) in [("created", None), ("to begin later", Some(at(6_000)))] {
        assert_eq!(store.create(created(name, not_before)).await, Ok(Created::New));
    }
    assert_eq!(store.claim(claim("w", 100)).await.unwrap(), []);
    assert_eq!(store.hasten(at(100), at(220)).await, Ok(2));
    let leases = store.claim(claim("w", 100)).await.unwrap();
    let mut claimed = names(&leases);
    claimed.sort_unstable();
    assert_eq!(claimed, ["created", "released"]);
    assert_eq!(store.hasten(at(100), at(220)).await, Ok(0));
    assert_eq!(store.next_wake().await, Ok(Some(at(200))));
}

/// A running run is always due, so that it is claimed when its worker dies; its lease protects it.
pub async fn a_running_run_stays_due(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    hand.status(becomes(Status::Waiting, None, false)).await;
    hand.status(becomes(Status::Running, None, false)).await;
    let record = store.run(&run_id("a")).await.unwrap().unwrap();
    assert_eq!((record.wake_at, record.owner), (Some(at(0)), Some(worker("first"))));
    assert_eq!(store.claim(claim("w", 59)).await.unwrap(), []);
    assert_eq!(names(&store.claim(takeover("w", 60, "first", 0)).await.unwrap()), ["a"]);
}

/// A terminal status clears owner, lease and wake-up, whatever the change says.
pub async fn an_ended_run_is_let_go(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    hand.status(becomes(Status::Failed, Some(at(1)), false)).await;
    let record = store.run(&run_id("a")).await.unwrap().unwrap();
    assert_eq!((record.status, record.next, record.updated_at), (Status::Failed, 2, at(3)));
    assert_eq!((record.owner, record.wake_at), (None, None));
    assert_eq!(store.claim(claim("w", 900)).await.unwrap(), []);
}

/// After a takeover the old worker's appends are refused, and the new worker's follow those that were accepted. One that
/// was not acknowledged by then may be either.
pub async fn a_taken_over_worker_is_fenced(store: &Arc<dyn Store>) {
    let mut old = Hand::create(store, "a").await;
    old.append(|_| {}).await.unwrap();
    let lease = &store.claim(takeover("w", 60, "first", 0)).await.unwrap()[0];
    let next = lease.run.next;
    assert!(matches!((next, lease.run.epoch), (1 | 2, 2)), "{lease:?}");
    let refused = old.append(|_| {}).await.unwrap_err();
    assert_eq!(refused, AppendError::StaleEpoch { run: run_id("a"), held: 1, found: 2 });
    Hand::of(store, "a", 2, next).append(|_| {}).await.unwrap();
    assert_eq!(store.load(&run_id("a"), 0).await.unwrap().len() as u64, next + 1);
}
