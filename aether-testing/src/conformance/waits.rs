//! Rules about the list of open waits.

use std::sync::Arc;

use aether_core::contract::Status;
use aether_core::store::{OpenWait, Purged, Store, WaitChange, WaitFilter};
use aether_core::waiting::Waiting;

use super::kit::{Hand, at, becomes, run_id, wait};

fn opened(wait: OpenWait) -> WaitChange {
    WaitChange::Opened(Box::new(wait))
}

fn closed(wait: &OpenWait) -> WaitChange {
    WaitChange::Closed(wait.command.clone())
}

/// Runs and commands of what is listed, in order.
async fn listed(store: &Arc<dyn Store>, filter: WaitFilter) -> Vec<(String, OpenWait)> {
    let rows = store.waits(filter).await.unwrap();
    assert!(rows.windows(2).all(|pair| pair[0].place < pair[1].place), "places rise: {rows:?}");
    rows.into_iter().map(|row| (row.run.as_str().to_owned(), row.wait)).collect()
}

/// What appends open and close is listed, whole, in the order in which it was opened.
pub async fn waits_are_listed_until_they_are_closed(store: &Arc<dyn Store>) {
    let (mut one, mut two) = (Hand::create(store, "a").await, Hand::create(store, "b").await);
    let [paid, sleep, ask] = [
        wait(1, Waiting::Signal, "paid"),
        wait(2, Waiting::Timer, "sleep"),
        wait(3, Waiting::Question, "How?"),
    ];
    one.append(|append| append.waits = vec![opened(paid.clone())]).await.unwrap();
    two.append(|append| append.waits = vec![opened(sleep.clone())]).await.unwrap();
    one.append(|append| append.waits = vec![opened(ask.clone())]).await.unwrap();
    let all = listed(store, WaitFilter::default()).await;
    assert_eq!(all, [("a".into(), paid.clone()), ("b".into(), sleep.clone()), ("a".into(), ask.clone())]);
    one.append(|append| append.waits = vec![closed(&paid), closed(&sleep)]).await.unwrap();
    let all = listed(store, WaitFilter::default()).await;
    assert_eq!(all, [("b".into(), sleep), ("a".into(), ask)], "only its own run's waits are closed");
}

/// A wait that is opened again is replaced in its place.
pub async fn a_wait_keeps_its_place(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    let (first, second) = (wait(1, Waiting::Callback, "ship"), wait(2, Waiting::Timer, "sleep"));
    let again = OpenWait { waiting: Waiting::Resolution, since: at(99), ..first.clone() };
    hand.append(|append| append.waits = vec![opened(first), opened(second.clone())]).await.unwrap();
    hand.append(|append| append.waits = vec![opened(again.clone())]).await.unwrap();
    let all = listed(store, WaitFilter::default()).await;
    assert_eq!(all, [("a".into(), again), ("a".into(), second)]);
}

/// A refused append changes nothing of the list.
pub async fn a_refused_append_lists_nothing(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    let paid = wait(1, Waiting::Signal, "paid");
    hand.append(|append| append.waits = vec![opened(paid.clone())]).await.unwrap();
    let mut stale = Hand::of(store, "a", 7, hand.next);
    stale.append(|append| append.waits = vec![closed(&paid)]).await.unwrap_err();
    let mut wrong = Hand::of(store, "a", 1, 900);
    wrong.append(|append| append.waits = vec![opened(wait(2, Waiting::Timer, "sleep"))]).await.unwrap_err();
    assert_eq!(listed(store, WaitFilter::default()).await, [("a".into(), paid)]);
}

/// Kind, name, workflow and number limit what is listed; a page continues where the one before it ended.
pub async fn waits_are_filtered_and_paged(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    let kinds = [Waiting::Signal, Waiting::Timer, Waiting::Approval];
    let all: Vec<_> = (0..9).map(|n| wait(n, kinds[n as usize % 3], ["x", "y"][n as usize % 2])).collect();
    hand.append(|append| append.waits = all.iter().cloned().map(opened).collect()).await.unwrap();
    let count = async |filter: WaitFilter| listed(store, filter).await.len();
    let kinds = vec![Waiting::Signal, Waiting::Approval];
    assert_eq!(count(WaitFilter { kinds, ..WaitFilter::default() }).await, 6);
    assert_eq!(count(WaitFilter { name: Some("y".into()), ..WaitFilter::default() }).await, 4);
    assert_eq!(count(WaitFilter { workflow: Some("flow".into()), ..WaitFilter::default() }).await, 9);
    assert_eq!(count(WaitFilter { workflow: Some("other".into()), ..WaitFilter::default() }).await, 0);
    let (mut filter, mut paged) = (WaitFilter { limit: 4, ..WaitFilter::default() }, Vec::new());
    while let Some(last) = store.waits(filter.clone()).await.unwrap().last() {
        paged.extend(listed(store, filter.clone()).await.into_iter().map(|(_, wait)| wait));
        filter.after = Some(last.place);
        // Closed between two pages: the pages behind it stay as they are.
        hand.append(|append| append.waits = vec![closed(&all[0])]).await.unwrap();
    }
    assert_eq!(paged, all);
}

/// A purged run leaves nothing in the list.
pub async fn a_purged_run_is_not_listed(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    hand.append(|append| append.waits = vec![opened(wait(1, Waiting::Timer, "sleep"))]).await.unwrap();
    hand.status(becomes(Status::Completed, None, true)).await;
    assert_eq!(store.purge(&run_id("a"), None).await, Ok(Purged::Deleted));
    assert_eq!(listed(store, WaitFilter::default()).await, []);
}

/// What was read from a journal replaces the list of its run, unless the journal is longer by then.
pub async fn a_list_is_made_for_a_position(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    let (old, new) = (wait(1, Waiting::Timer, "sleep"), wait(2, Waiting::Signal, "paid"));
    hand.append(|append| append.waits = vec![opened(old.clone())]).await.unwrap();
    let run = run_id("a");
    assert_eq!(store.list_waits(&run, 1, vec![new.clone()]).await, Ok(false));
    assert_eq!(listed(store, WaitFilter::default()).await, [("a".into(), old)]);
    assert_eq!(store.list_waits(&run, 2, vec![new.clone()]).await, Ok(true));
    assert_eq!(listed(store, WaitFilter::default()).await, [("a".into(), new)]);
    assert_eq!(store.unlisted_waits(0).await, Ok(Vec::new()));
}

/// The waits of one run are listed by its id, also together with the rest of a filter.
pub async fn the_waits_of_one_run_are_found(store: &Arc<dyn Store>) {
    let (mut one, mut two) = (Hand::create(store, "a").await, Hand::create(store, "b").await);
    let names = ["x", "y", "x"];
    for n in 0..3 {
        let wait = wait(n, Waiting::Signal, names[n as usize]);
        one.append(|append| append.waits = vec![opened(wait.clone())]).await.unwrap();
        two.append(|append| append.waits = vec![opened(wait)]).await.unwrap();
    }
    let of = |run: &str| WaitFilter::default().run(run_id(run));
    let rows = store.waits(of("b")).await.unwrap();
    assert!(rows.len() == 3 && rows.iter().all(|row| row.run == run_id("b")), "{rows:?}");
    assert_eq!(listed(store, of("b").name("x")).await.len(), 2);
    assert_eq!(listed(store, of("b").after(rows[0].place)).await.len(), 2);
    assert_eq!(listed(store, of("b").limit(1)).await.len(), 1);
    assert_eq!(listed(store, of("nobody")).await, []);
}
