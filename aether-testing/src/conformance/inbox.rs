//! Rules about messages, and that no wake-up is lost.
//!
//! Promise: a store that keeps them never lets a run sleep with a message that its worker has not seen.

use std::sync::Arc;

use aether_core::contract::Status;
use aether_core::store::{
    AppendError, END_REQUESTS, Message, NewRun, RunRecord, Sent, StatusChange, Store, StoreError, Unread,
};

use super::kit::{Hand, at, becomes, claim, message, names, new_run, run_id, worker};

async fn wake_at(store: &Arc<dyn Store>, name: &str) -> Option<jiff::Timestamp> {
    store.run(&run_id(name)).await.unwrap().unwrap().wake_at
}

/// Waits until a run is due at this time: a parent is told soon after the end of its child, not in the same write.
async fn until_due(store: &Arc<dyn Store>, name: &str, wanted: jiff::Timestamp) {
    for _ in 0..6_000 {
        if wake_at(store, name).await == Some(wanted) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{name} is due at {:?} and not at {wanted}", wake_at(store, name).await);
}

/// Messages are read in the order in which they were sent, with rising numbers; a second one with the same id is dropped.
pub async fn messages_keep_order_and_drop_duplicates(store: &Arc<dyn Store>) {
    Hand::create(store, "a").await;
    Hand::create(store, "b").await;
    for (run, id, sent) in [
        ("a", "m1", Sent::Delivered),
        ("b", "m1", Sent::Delivered),
        ("a", "m0", Sent::Delivered),
        ("a", "m1", Sent::Duplicate),
    ] {
        assert_eq!(store.send(&run_id(run), message(id, 5)).await, Ok(sent), "{run} {id}");
    }
    let inbox = store.inbox(&run_id("a"), 0).await.unwrap();
    assert_eq!(inbox.iter().map(|m| m.id.as_str()).collect::<Vec<_>>(), ["m1", "m0"]);
    assert!(0 < inbox[0].seq && inbox[0].seq < inbox[1].seq);
    let expected = message("m1", 5);
    assert_eq!(
        (&inbox[0].topic, &inbox[0].payload, inbox[0].at),
        (&expected.topic, &expected.payload, expected.at)
    );
    let nobody = run_id("nobody");
    assert_eq!(
        store.send(&nobody, message("m", 5)).await,
        Err(StoreError::UnknownRun { run: nobody.clone() })
    );
}

/// A consumed message is no longer in the inbox; its id is still a duplicate.
pub async fn consumed_messages_are_gone(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    for id in ["m1", "m2"] {
        store.send(&run_id("a"), message(id, 5)).await.unwrap();
    }
    let seq = store.inbox(&run_id("a"), 0).await.unwrap()[0].seq;
    hand.append(|append| append.consumed = vec![seq]).await.unwrap();
    let left = store.inbox(&run_id("a"), 0).await.unwrap();
    assert_eq!(left.iter().map(|m| m.id.as_str()).collect::<Vec<_>>(), ["m2"]);
    assert_eq!(store.send(&run_id("a"), message("m1", 6)).await, Ok(Sent::Duplicate));
    hand.append(|append| append.consumed = vec![seq, 9_999]).await.unwrap();
    assert_eq!(store.inbox(&run_id("a"), 0).await.unwrap().len(), 1);
}

/// Reading after a number leaves out what came before it; the size of the whole inbox is known.
pub async fn an_inbox_is_read_after_a_number_and_counted(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    let run = run_id("a");
    assert_eq!(store.unread(&run).await, Ok(Unread::default()));
    store.send(&run, message("m1", 5)).await.unwrap();
    // A store that encodes what it keeps may need more bytes than the value has.
    let one = store.unread(&run).await.unwrap();
    assert!(one.messages == 1 && one.bytes >= Unread::of(&message("m1", 5)).bytes, "{one:?}");
    for id in ["m2", "m3"] {
        store.send(&run, message(id, 5)).await.unwrap();
    }
    let times = |times| Unread { messages: times, bytes: times * one.bytes };
    assert_eq!(store.unread(&run).await, Ok(times(3)));
    let all = store.inbox(&run, 0).await.unwrap();
    for (at, message) in all.iter().enumerate() {
        assert_eq!(store.inbox(&run, message.seq).await.unwrap(), all[at + 1..]);
    }
    hand.append(|append| append.consumed = vec![all[1].seq, all[1].seq]).await.unwrap();
    let left = store.inbox(&run, all[0].seq).await.unwrap();
    assert_eq!((left, store.unread(&run).await), (vec![all[2].clone()], Ok(times(2))));
    store.send(&run, message("m3", 6)).await.unwrap();
    assert_eq!(store.unread(&run).await, Ok(times(2)), "a duplicate counts for nothing");
    assert_eq!(store.unread(&run_id("nobody")).await, Ok(Unread::default()));
}

/// A message makes its run due at the message's time, and never later than it was due before.
pub async fn a_message_makes_its_run_due(store: &Arc<dyn Store>) {
    for (name, before, after) in
        [("a", None, Some(at(20))), ("b", Some(at(90)), Some(at(20))), ("c", Some(at(10)), Some(at(10)))]
    {
        let mut hand = Hand::create(store, name).await;
        hand.status(becomes(Status::Waiting, before, true)).await;
        assert_eq!(wake_at(store, name).await, before);
        store.send(&run_id(name), message("m", 20)).await.unwrap();
        assert_eq!(wake_at(store, name).await, after);
    }
}

/// A message that arrives while a worker decides to suspend leaves the run due. One that the suspending append consumes
/// does not.
pub async fn a_message_during_suspension_is_not_lost(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    store.send(&run_id("a"), message("seen", 1)).await.unwrap();
    let seen = store.inbox(&run_id("a"), 0).await.unwrap()[0].seq;
    hand.append(|append| {
        append.consumed = vec![seen];
        append.status = Some(becomes(Status::Waiting, None, false));
    })
    .await
    .unwrap();
    assert_eq!(wake_at(store, "a").await, None);
    hand.status(becomes(Status::Running, Some(at(0)), false)).await;
    store.send(&run_id("a"), message("unseen", 2)).await.unwrap();
    hand.status(becomes(Status::Waiting, Some(at(500)), true)).await;
    assert_eq!(wake_at(store, "a").await, Some(at(2)));
    assert_eq!(names(&store.claim(claim("second", 4)).await.unwrap()), ["a"]);
}

/// Appends never go back in time, also where the clock is set back between them. What comes in while a run is suspended by
/// an append of a time that is still to come makes it due at once: at the time of the first message that was not seen, and
/// not later than the run itself wants to go on.
pub async fn a_clock_that_is_set_back_keeps_no_message_waiting(store: &Arc<dyn Store>) {
    for (name, until, sent, due) in [
        ("a", None, &[(1, 20)][..], Some(20)),
        ("b", Some(900), &[(1, 30), (2, 20), (3, 25)], Some(20)),
        ("c", Some(10), &[(1, 20)], Some(10)),
        ("d", None, &[(1, 950)], Some(800)),
        ("e", None, &[], None),
        ("f", Some(900), &[], Some(900)),
    ] {
        let mut hand = Hand::create(store, name).await;
        hand.append(|append| {
            append.at = at(800);
            append.status = Some(becomes(Status::Running, Some(at(800)), false));
        })
        .await
        .unwrap();
        for (number, seconds) in sent {
            store.send(&run_id(name), message(&format!("m{number}"), *seconds)).await.unwrap();
        }
        hand.append(|append| {
            append.at = at(800);
            append.status = Some(becomes(Status::Waiting, until.map(at), true));
        })
        .await
        .unwrap();
        assert_eq!(wake_at(store, name).await, due.map(at), "run {name}");
    }
    assert_eq!(names(&store.claim(claim("second", 20)).await.unwrap()), ["c", "a", "b"]);
}

/// The same of the notification of a child.
pub async fn a_clock_that_is_set_back_keeps_no_notification_waiting(store: &Arc<dyn Store>) {
    let mut parent = Hand::create(store, "parent").await;
    Hand::create(store, "child").await.status(ends_and_wakes("parent")).await;
    parent
        .append(|append| {
            append.at = at(800);
            append.status = Some(becomes(Status::Waiting, Some(at(900)), true));
        })
        .await
        .unwrap();
    until_due(store, "parent", at(3)).await;
    assert_eq!(names(&store.claim(claim("second", 3)).await.unwrap()), ["parent"]);
}

/// A message that the worker has seen and left in the inbox, because no wait wants it yet, does not keep a suspended
/// run due.
pub async fn a_message_kept_for_later_does_not_wake(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    store.send(&run_id("a"), message("early", 1)).await.unwrap();
    let seen = store.inbox(&run_id("a"), 0).await.unwrap()[0].seq;
    hand.status(StatusChange { seen, ..becomes(Status::Waiting, None, true) }).await;
    assert_eq!(wake_at(store, "a").await, None);
    assert_eq!(store.inbox(&run_id("a"), 0).await.unwrap().len(), 1);
}

/// An append that gives way to a request to end its run is refused while one is unread, and only then.
pub async fn a_request_to_end_is_not_overtaken(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    store.send(&run_id("a"), message("a signal", 1)).await.unwrap();
    hand.append(|append| append.unless_asked_to_end = true).await.unwrap();
    let request = Message { topic: END_REQUESTS[0].into(), ..message("request", 2) };
    store.send(&run_id("a"), request).await.unwrap();
    let refused = hand.append(|append| append.unless_asked_to_end = true).await.unwrap_err();
    assert_eq!(refused, AppendError::AskedToEnd { run: run_id("a") });
    let next = store.run(&run_id("a")).await.unwrap().unwrap().next;
    let mut hand = Hand::of(store, "a", 1, next);
    hand.append(|_| {}).await.unwrap();
    let seq = store.inbox(&run_id("a"), 0).await.unwrap()[1].seq;
    hand.append(|append| append.consumed = vec![seq]).await.unwrap();
    hand.append(|append| append.unless_asked_to_end = true).await.unwrap();
}

/// The open runs that a worker owns are listed with their epochs; no other run is.
pub async fn held_runs_are_listed(store: &Arc<dyn Store>) {
    for name in ["a", "released", "ended"] {
        Hand::create(store, name).await;
    }
    let other = NewRun { owner: Some(worker("other")), ..new_run("foreign") };
    store.create(other).await.unwrap();
    store.create(NewRun { owner: None, ..new_run("free") }).await.unwrap();
    store.release(&worker("first"), &run_id("released"), 1, at(1)).await.unwrap();
    let mut ended = Hand::of(store, "ended", 1, 1);
    ended.status(becomes(Status::Completed, None, true)).await;
    assert_eq!(store.held(&worker("first")).await, Ok(vec![(run_id("a"), 1)]));
}

/// The runs that a worker holds are listed with the newest of their unread messages; no other run is.
pub async fn held_runs_with_unread_messages_are_listed(store: &Arc<dyn Store>) {
    for name in ["a", "empty"] {
        Hand::create(store, name).await;
    }
    let other = NewRun { owner: Some(worker("other")), ..new_run("foreign") };
    store.create(other).await.unwrap();
    for (name, id) in [("a", "m1"), ("foreign", "m1"), ("a", "m2")] {
        store.send(&run_id(name), message(id, 1)).await.unwrap();
    }
    let newest = store.inbox(&run_id("a"), 0).await.unwrap()[1].seq;
    assert_eq!(store.unread_held(&worker("first")).await, Ok(vec![(run_id("a"), newest)]));
    let mut hand = Hand::of(store, "a", 1, 1);
    hand.append(|append| append.consumed = (0..=newest).collect()).await.unwrap();
    assert_eq!(store.unread_held(&worker("first")).await, Ok(Vec::new()));
}

/// Waiting runs without an owner that have unread messages are listed with the newest one; no other run is.
pub async fn waiting_runs_with_unread_messages_are_listed(store: &Arc<dyn Store>) {
    let mut hands = Vec::new();
    for name in ["a", "empty", "held", "running"] {
        hands.push(Hand::create(store, name).await);
    }
    for (name, id) in [("a", "m1"), ("held", "m1"), ("running", "m1"), ("a", "m2")] {
        store.send(&run_id(name), message(id, 1)).await.unwrap();
    }
    let seen = store.inbox(&run_id("a"), 0).await.unwrap()[1].seq;
    let waits = StatusChange { seen, ..becomes(Status::Waiting, None, true) };
    hands[0].status(waits.clone()).await;
    hands[1].status(waits.clone()).await;
    hands[2].status(StatusChange { release: false, ..waits.clone() }).await;
    let listed = store.unread_waiting(None, 0).await.unwrap();
    let listed: Vec<_> = listed.iter().map(|(record, newest)| (record.id.as_str(), *newest)).collect();
    assert_eq!(listed, [("a", seen)]);
    // In pages, the newest run first.
    let mut second = Hand::create(store, "b").await;
    store.send(&second.run, message("m3", 1)).await.unwrap();
    second.status(becomes(Status::Waiting, Some(at(900)), true)).await;
    let ids =
        |page: Vec<(RunRecord, u64)>| page.into_iter().map(|(run, _)| run.id.to_string()).collect::<Vec<_>>();
    let first = store.unread_waiting(None, 1).await.unwrap();
    let after = first.last().map(|(run, _)| run.place);
    assert_eq!(
        (ids(first), ids(store.unread_waiting(after, 1).await.unwrap())),
        (vec!["b".into()], vec!["a".into()])
    );
    assert_eq!(ids(store.unread_waiting(None, 0).await.unwrap()), ["b", "a"]);
    second.append(|append| append.consumed = (0..=99).collect()).await.unwrap();
    hands[0].append(|append| append.consumed = (0..=seen).collect()).await.unwrap();
    assert_eq!(store.unread_waiting(None, 0).await, Ok(Vec::new()));
}

/// A suspended run can be claimed after a message arrived.
pub async fn a_message_wakes_a_suspended_run(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    hand.status(becomes(Status::Waiting, None, true)).await;
    assert_eq!(names(&store.claim(claim("second", 1_000)).await.unwrap()), [] as [&str; 0]);
    store.send(&run_id("a"), message("m", 20)).await.unwrap();
    assert_eq!(store.next_wake().await, Ok(Some(at(20))));
    assert_eq!(names(&store.claim(claim("second", 20)).await.unwrap()), ["a"]);
}

fn ends_and_wakes(other: &str) -> StatusChange {
    StatusChange { notify: Some(run_id(other)), ..becomes(Status::Completed, None, true) }
}

/// A run that ends wakes the run that waits for it; notifying a run that has ended or is unknown does nothing.
pub async fn a_notification_wakes_a_suspended_run(store: &Arc<dyn Store>) {
    let mut parent = Hand::create(store, "parent").await;
    let mut child = Hand::create(store, "child").await;
    parent.status(becomes(Status::Waiting, Some(at(900)), true)).await;
    child.status(ends_and_wakes("parent")).await;
    until_due(store, "parent", at(3)).await;
    Hand::create(store, "late").await.status(ends_and_wakes("child")).await;
    assert_eq!(wake_at(store, "child").await, None);
    Hand::create(store, "lost").await.status(ends_and_wakes("nobody")).await;
}

/// A notification that arrives between a claim and the suspension leaves the run due; it does so once.
pub async fn a_notification_during_suspension_is_not_lost(store: &Arc<dyn Store>) {
    let mut parent = Hand::create(store, "parent").await;
    Hand::create(store, "child").await.status(ends_and_wakes("parent")).await;
    parent.status(becomes(Status::Waiting, None, true)).await;
    until_due(store, "parent", at(3)).await;
    let lease = store.claim(claim("second", 4)).await.unwrap();
    assert_eq!(names(&lease), ["parent"]);
    Hand::of(store, "parent", 2, 2).status(becomes(Status::Waiting, None, true)).await;
    assert_eq!(wake_at(store, "parent").await, None);
}

/// A notification that arrives before a worker has written that it executes the run leaves the run due when it suspends:
/// the worker may have looked for the end of the child before.
pub async fn a_notification_before_the_run_is_running_is_not_lost(store: &Arc<dyn Store>) {
    let mut parent = Hand::create(store, "parent").await;
    Hand::create(store, "child").await.status(ends_and_wakes("parent")).await;
    parent.status(becomes(Status::Running, Some(at(3)), false)).await;
    parent.status(becomes(Status::Waiting, None, true)).await;
    until_due(store, "parent", at(3)).await;
    assert_eq!(names(&store.claim(claim("second", 4)).await.unwrap()), ["parent"]);
}

/// A run that has ended accepts no new message; the ids of earlier ones are still duplicates.
pub async fn an_ended_run_takes_no_messages(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    store.send(&run_id("a"), message("known", 1)).await.unwrap();
    hand.status(becomes(Status::Cancelled, None, true)).await;
    assert_eq!(store.send(&run_id("a"), message("m", 2)).await, Ok(Sent::RunEnded(Status::Cancelled)));
    assert_eq!(store.send(&run_id("a"), message("known", 2)).await, Ok(Sent::Duplicate));
    assert_eq!(wake_at(store, "a").await, None);
}
