//! Rules about queues: order, fairness, limits, expiry and keyed starts.

use std::sync::Arc;
use std::time::Duration;

use aether_core::contract::Status;
use aether_core::id::RunId;
use aether_core::queue::{LimitPattern, QueuePlace, Serves, StartTerms};
use aether_core::store::{
    ClaimRequest, Created, Decision, DueStarts, END_REQUESTS, KeyedStart, Lease, Limit, LimitKind, Message,
    NewRun, Recode, RunFilter, RunRecord, Sent, Store, StoreError,
};

use super::kit::{Hand, at, becomes, claim, code, json, message, names, new_run, run_id, takeover, worker};

/// A run that was created at second `now` and waits in queue `q`.
pub(super) fn queued(name: &str, key: &str, now: u64) -> NewRun {
    let place = QueuePlace { queue: "q".into(), key: key.into(), priority: 0 };
    let terms = StartTerms { queue: Some(place), ..StartTerms::default() };
    NewRun { terms, owner: None, at: at(now), ..new_run(name) }
}

pub(super) async fn create(store: &Arc<dyn Store>, new: NewRun) {
    assert_eq!(store.create(new).await, Ok(Created::New));
}

pub(super) async fn set(store: &Arc<dyn Store>, pattern: &str, kind: LimitKind) {
    store.put_limit(Limit::new(pattern, kind).unwrap()).await.unwrap();
}

pub(super) async fn take(store: &Arc<dyn Store>, now: u64, limit: usize) -> Vec<Lease> {
    store.claim(ClaimRequest { limit, ..claim("first", now) }).await.unwrap()
}

/// Ends the turn of a lease: the run waits for something until second `until`, if at all.
async fn wait(store: &Arc<dyn Store>, lease: &Lease, until: Option<u64>) {
    let mut hand = Hand::of(store, lease.run.id.as_str(), lease.run.epoch, lease.run.next);
    hand.append(|a| a.status = Some(becomes(Status::Waiting, until.map(at), true))).await.unwrap();
}

pub(super) async fn end(store: &Arc<dyn Store>, lease: &Lease) {
    let mut hand = Hand::of(store, lease.run.id.as_str(), lease.run.epoch, lease.run.next);
    hand.append(|a| a.status = Some(becomes(Status::Completed, None, true))).await.unwrap();
}

/// A store without queues refuses limits and runs of queues with an error that says so, and keeps nothing of them.
pub async fn a_store_without_queues_says_so(store: &Arc<dyn Store>) {
    let limit = Limit::new("q", LimitKind::Running(1)).unwrap();
    let refused = store.put_limit(limit).await.unwrap_err();
    assert!(matches!(refused, StoreError::NoQueues { .. }), "{refused}");
    let refused = store.create(queued("a", "acme/ann", 0)).await.unwrap_err();
    assert!(matches!(refused, StoreError::NoQueues { .. }), "{refused}");
    let refused = store.create_fork(queued("a", "acme/ann", 0), Vec::new()).await.unwrap_err();
    assert!(matches!(refused, StoreError::NoQueues { .. }), "{refused}");
    assert_eq!(store.run(&run_id("a")).await, Ok(None));
    assert_eq!(take(store, 1, 10).await.len(), 0);
}

/// A run of a queue is pending and waits for its turn; its record says where. Its first turn is noted.
pub async fn a_queued_run_waits_for_a_turn(store: &Arc<dyn Store>) {
    let mut new = queued("a", "acme/ann", 0);
    new.terms.inputs = 3;
    create(store, new.clone()).await;
    let found = store.run(&run_id("a")).await.unwrap().unwrap();
    assert_eq!((found.status, found.epoch, &found.terms), (Status::Pending, 0, &new.terms));
    assert_eq!((found.queue.started_at, found.queue.waits_since), (None, Some(at(0))));
    let position = store.queue_position(&run_id("a"), at(1)).await.unwrap().unwrap();
    assert_eq!((position.since, position.ahead, position.limit), (at(0), 0, None));
    let leases = take(store, 5, 10).await;
    assert_eq!(names(&leases), ["a"]);
    assert_eq!(leases[0].run.queue.started_at, Some(at(5)));
    assert_eq!(leases[0].run.queue.waits_since, None);
    assert_eq!(store.queue_position(&run_id("a"), at(6)).await, Ok(None));
    wait(store, &leases[0], Some(20)).await;
    assert!(take(store, 19, 10).await.is_empty());
    let again = take(store, 21, 10).await;
    assert_eq!(names(&again), ["a"]);
    assert_eq!(again[0].run.queue.started_at, Some(at(5)));
    let unknown = store.queue_position(&run_id("b"), at(1)).await;
    assert_eq!(unknown, Err(StoreError::UnknownRun { run: run_id("b") }));
}

/// Among the runs of a key, the older come first; a step of priority is worth a minute.
pub async fn priority_ages(store: &Arc<dyn Store>) {
    for (name, priority, now) in [("old", 0, 0), ("urgent", 2, 90), ("soon", 1, 91), ("late", 2, 200)] {
        let mut new = queued(name, "k", now);
        new.terms.queue.as_mut().unwrap().priority = priority;
        create(store, new).await;
    }
    let mut order = Vec::new();
    while let Some(lease) = take(store, 300, 1).await.pop() {
        order.push(lease.run.id.to_string());
    }
    assert_eq!(order, ["urgent", "old", "soon", "late"]);
}

/// Keys take turns, however much one of them has queued; a key of weight 3 gets three of four turns.
pub async fn keys_take_turns(store: &Arc<dyn Store>) {
    for no in 0..40 {
        create(store, queued(&format!("big{no:02}"), "big", 0)).await;
    }
    let first = take(store, 10, 6).await;
    assert_eq!(names(&first), ["big00", "big01", "big02", "big03", "big04", "big05"]);
    create(store, queued("small0", "small", 11)).await;
    create(store, queued("small1", "small", 11)).await;
    let next = take(store, 12, 4).await;
    let small = next.iter().position(|lease| lease.run.id.as_str() == "small0");
    assert!(small.is_some_and(|place| place <= 2), "{:?}", names(&next));
    assert!(names(&next).contains(&"small1"), "{:?}", names(&next));
    set(store, "q/heavy", LimitKind::Weight(3)).await;
    for no in 0..20 {
        create(store, queued(&format!("heavy{no:02}"), "heavy", 13)).await;
    }
    let shared = take(store, 14, 16).await;
    let heavy = shared.iter().filter(|lease| lease.run.id.as_str().starts_with("heavy")).count();
    assert!((11..=13).contains(&heavy), "{:?}", names(&shared));
}

/// What a clock counted that leaped on and back keeps nothing back once it is right again: neither a limit nor a lane that
/// was set aside for one. A queue that is paused stays so.
pub async fn a_clock_that_leaped_closes_no_queue(store: &Arc<dyn Store>) {
    const LEAP: u64 = 1_000_000;
    set(store, "q/*", LimitKind::Starts { n: 1, per: Duration::from_secs(600) }).await;
    set(store, "q/paused", LimitKind::Starts { n: 0, per: Duration::from_secs(600) }).await;
    for (name, key) in [("a", "k"), ("b", "k"), ("c", "k"), ("d", "paused")] {
        create(store, queued(name, key, 0)).await;
    }
    assert_eq!(names(&take(store, LEAP, 10).await), ["a"]);
    assert!(take(store, LEAP + 1, 10).await.is_empty());
    assert_eq!(names(&take(store, 10, 10).await), ["b"]);
    // From here on the limit holds as ever.
    assert!(take(store, 11, 10).await.is_empty());
    assert!(take(store, 609, 10).await.is_empty());
    assert_eq!(names(&take(store, 611, 10).await), ["c"]);
}

/// A run that has begun needs no start: one of other code has its turn while a run of the same key, of the code of another
/// worker, waits for a start.
pub async fn a_limit_of_starts_hides_no_begun_run_of_other_code(store: &Arc<dyn Store>) {
    set(store, "q/*", LimitKind::Starts { n: 1, per: Duration::from_secs(600) }).await;
    let other = async |now: u64| {
        let request = ClaimRequest { codes: vec![code("other")], ..claim("second", now) };
        store.claim(request).await.unwrap()
    };
    create(store, NewRun { code: code("other"), ..queued("begun", "k", 0) }).await;
    let begun = other(1).await;
    assert_eq!(names(&begun), ["begun"]);
    wait(store, &begun[0], Some(5)).await;
    create(store, queued("new", "k", 2)).await;
    for now in [10, 12] {
        assert!(take(store, now, 10).await.is_empty(), "the limit keeps the new one back");
        let found = other(now + 1).await;
        assert_eq!(names(&found), ["begun"]);
        store.release(&worker("second"), &run_id("begun"), found[0].run.epoch, at(now + 2)).await.unwrap();
    }
    // Without one that has begun the key is left out until it may start another.
    end(store, &other(15).await[0]).await;
    assert!(take(store, 16, 10).await.is_empty());
    assert_eq!(names(&take(store, 602, 10).await), ["new"]);
}

/// A key that was idle begins at the present time of its queue: it cannot save turns up.
pub async fn idle_keys_save_nothing_up(store: &Arc<dyn Store>) {
    create(store, queued("seen", "idle", 0)).await;
    end(store, &take(store, 1, 1).await[0]).await;
    for no in 0..30 {
        create(store, queued(&format!("busy{no:02}"), "busy", 2)).await;
    }
    assert_eq!(take(store, 3, 20).await.len(), 20);
    for no in 0..10 {
        create(store, queued(&format!("back{no}"), "idle", 4)).await;
    }
    let next = take(store, 5, 8).await;
    let back = next.iter().filter(|lease| lease.run.id.as_str().starts_with("back")).count();
    assert!((3..=5).contains(&back), "{:?}", names(&next));
}

/// A key whose waiting runs have expired, or were asked to end, was idle from then on.
pub async fn runs_that_lapse_save_nothing_up(store: &Arc<dyn Store>) {
    for (name, key, expires_at) in [("expires", "first", Some(at(20))), ("asked", "second", None)] {
        let mut new = NewRun { code: code("other"), ..queued(name, key, 0) };
        new.terms.expires_at = expires_at;
        create(store, new).await;
    }
    for no in 0..30 {
        create(store, queued(&format!("busy{no:02}"), "busy", 0)).await;
    }
    assert_eq!(take(store, 1, 12).await.len(), 12);
    store.send(&run_id("asked"), Message { topic: "cancel".into(), ..message("m", 3) }).await.unwrap();
    let other = ClaimRequest { codes: vec![code("other")], limit: 10, ..claim("second", 21) };
    let lapsed = store.claim(other).await.unwrap();
    assert!(lapsed.len() == 2 && lapsed.iter().all(|lease| lease.run.queue.started_at.is_none()));
    for lease in &lapsed {
        end(store, lease).await;
    }
    for no in 0..6 {
        create(store, queued(&format!("first{no}"), "first", 22)).await;
        create(store, queued(&format!("second{no}"), "second", 22)).await;
    }
    let next = take(store, 23, 6).await;
    let busy = next.iter().filter(|lease| lease.run.id.as_str().starts_with("busy")).count();
    assert!(busy >= 2, "turns were saved up: {:?}", names(&next));
}

/// No more runs than the strictest limit allows have a turn. A run that waits or has ended leaves its slot to another,
/// and a later turn needs one again.
pub async fn running_is_limited_by_pattern(store: &Arc<dyn Store>) {
    set(store, "q", LimitKind::Running(4)).await;
    set(store, "q/*", LimitKind::Running(3)).await;
    set(store, "q/acme/*", LimitKind::Running(1)).await;
    for (no, key) in
        ["acme/ann", "acme/ann", "acme/bob", "acme/cy", "acme/dot", "bolt", "bolt", ""].iter().enumerate()
    {
        create(store, queued(&format!("r{no}"), key, 0)).await;
    }
    let leases = take(store, 1, 10).await;
    assert_eq!(leases.len(), 4, "{:?}", names(&leases));
    let of = |leases: &[Lease], key: &str| {
        let key_of = |lease: &Lease| lease.run.terms.queue.clone().unwrap().key;
        leases.iter().filter(|lease| key_of(lease).starts_with(key)).count()
    };
    assert!(of(&leases, "acme") <= 3 && of(&leases, "acme/ann") <= 1, "{:?}", names(&leases));
    assert!(take(store, 2, 10).await.is_empty());
    let held = run_id("r1");
    let position = store.queue_position(&held, at(2)).await.unwrap().unwrap();
    assert!(position.limit.is_some(), "{position:?}");
    wait(store, &leases[0], Some(3)).await;
    assert_eq!(take(store, 2, 10).await.len(), 1);
    // Due again, and without a slot.
    assert!(take(store, 4, 10).await.is_empty());
    end(store, &leases[1]).await;
    assert_eq!(take(store, 5, 10).await.len(), 1);
    // By name, too.
    let only = ClaimRequest { only: Some(held.clone()), ..claim("first", 6) };
    assert!(store.claim(only).await.unwrap().is_empty());
    let adopt = ClaimRequest { adopt: vec![held], ..claim("first", 6) };
    assert!(store.claim(adopt).await.unwrap().is_empty());
}

/// A limit is changed while runs have turns: a higher one counts from the next claim on, 0 pauses, none is no limit.
pub async fn limits_change_at_run_time(store: &Arc<dyn Store>) {
    set(store, "q", LimitKind::Running(0)).await;
    for no in 0..6 {
        create(store, queued(&format!("r{no}"), "k", 0)).await;
    }
    assert!(take(store, 1, 10).await.is_empty());
    set(store, "q", LimitKind::Running(2)).await;
    set(store, "other/x/*", LimitKind::Weight(7)).await;
    assert_eq!(take(store, 2, 10).await.len(), 2);
    let limits = store.limits().await.unwrap();
    let texts: Vec<_> = limits.iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["other/x/*: weight 7", "q: 2 running"]);
    let pattern = limits[1].pattern.clone();
    assert_eq!(store.remove_limit(&pattern, "open").await, Ok(false));
    assert_eq!(store.remove_limit(&pattern, "running").await, Ok(true));
    assert_eq!(take(store, 3, 10).await.len(), 4);
}

/// In any span of its length no more runs begin than a limit of starts allows. Later turns are no starts.
pub async fn starts_are_limited_in_time(store: &Arc<dyn Store>) {
    let per = Duration::from_secs(10);
    set(store, "q", LimitKind::Starts { n: 3, per }).await;
    set(store, "q/slow", LimitKind::Starts { n: 1, per: Duration::from_secs(100) }).await;
    for (no, key) in ["a", "slow", "a", "slow", "a", "a", "a"].iter().enumerate() {
        create(store, queued(&format!("r{no}"), key, 0)).await;
    }
    let first = take(store, 10, 10).await;
    assert_eq!(first.len(), 3, "{:?}", names(&first));
    assert!(take(store, 19, 10).await.is_empty());
    wait(store, &first[0], Some(19)).await;
    assert_eq!(names(&take(store, 19, 10).await), [first[0].run.id.as_str()]);
    let second = take(store, 20, 10).await;
    assert_eq!(second.len(), 3, "{:?}", names(&second));
    assert!(take(store, 31, 10).await.is_empty(), "the other run of `slow` begins too early");
    assert_eq!(names(&take(store, 111, 10).await), ["r3"]);
}

/// A start over a limit of open runs is refused with that limit; a run that ends makes room.
pub async fn open_runs_are_limited_at_their_start(store: &Arc<dyn Store>) {
    set(store, "q/*", LimitKind::Open(2)).await;
    create(store, queued("a", "k/1", 0)).await;
    create(store, queued("b", "k/2", 0)).await;
    let refused = store.create(queued("c", "k", 0)).await.unwrap();
    let Created::OverLimit { limit, open } = refused else { panic!("{refused:?}") };
    assert_eq!((limit.to_string().as_str(), open), ("q/*: 2 open", 2));
    assert_eq!(store.run(&run_id("c")).await, Ok(None));
    assert!(matches!(store.create(queued("a", "k/1", 0)).await, Ok(Created::Existing(_))));
    create(store, queued("other", "k2", 0)).await;
    let leases = take(store, 1, 10).await;
    end(store, leases.iter().find(|lease| lease.run.id.as_str() == "a").unwrap()).await;
    create(store, queued("c", "k", 2)).await;
}

/// The slot of a worker that is silent is its run's: another worker gets the run with it, and nothing more.
pub async fn a_silent_worker_keeps_its_slots(store: &Arc<dyn Store>) {
    set(store, "q", LimitKind::Running(1)).await;
    store.register(&worker("first"), Duration::from_secs(10), vec![code("flow")]).await.unwrap();
    create(store, queued("a", "", 0)).await;
    create(store, queued("b", "", 0)).await;
    assert_eq!(names(&take(store, 1, 10).await), ["a"]);
    let taken = store.claim(takeover("second", 2, "first", 0)).await.unwrap();
    assert_eq!(names(&taken), ["a"]);
    assert!(taken[0].run.queue.started_at.is_some());
    // A worker that retires leaves its runs, and with them their slots.
    store.retire(&worker("second")).await.unwrap();
    assert_eq!(names(&take(store, 3, 10).await), ["a"]);
    assert!(take(store, 4, 10).await.is_empty());
}

/// A run that has not begun when it expires, or when it is asked to end, is claimed without a slot, to be ended. Nothing
/// else is.
pub async fn what_lapses_needs_no_slot(store: &Arc<dyn Store>) {
    set(store, "q", LimitKind::Running(1)).await;
    create(store, queued("runs", "", 0)).await;
    let running = take(store, 1, 10).await;
    let mut new = queued("expires", "", 0);
    new.terms.expires_at = Some(at(30));
    create(store, new).await;
    create(store, queued("asked", "", 0)).await;
    create(store, queued("waits", "", 0)).await;
    assert!(take(store, 2, 10).await.is_empty());
    assert_eq!(store.next_wake().await, Ok(Some(at(30))));
    store.send(&run_id("asked"), Message { topic: "cancel".into(), ..message("m", 3) }).await.unwrap();
    let asked = take(store, 4, 10).await;
    assert_eq!(names(&asked), ["asked"]);
    assert_eq!(asked[0].run.queue.started_at, None);
    let expired = take(store, 30, 10).await;
    assert_eq!(names(&expired), ["expires"]);
    assert_eq!(expired[0].run.queue.started_at, None);
    end(store, &asked[0]).await;
    // One that could not be ended yet is due again when its release says so.
    let holder = expired[0].run.owner.as_ref().unwrap();
    store.release(holder, &run_id("expires"), expired[0].run.epoch, at(40)).await.unwrap();
    assert!(take(store, 35, 10).await.is_empty());
    let again = take(store, 41, 10).await;
    assert_eq!(names(&again), ["expires"]);
    end(store, &again[0]).await;
    end(store, &running[0]).await;
    assert_eq!(names(&take(store, 42, 10).await), ["waits"]);
    assert!(take(store, 43, 10).await.is_empty());
}

/// A run is not due before its time, in a queue or not.
pub async fn a_run_can_begin_later(store: &Arc<dyn Store>) {
    let mut free = NewRun { owner: None, ..new_run("free") };
    free.terms.not_before = Some(at(10));
    create(store, free).await;
    let mut later = queued("later", "", 0);
    later.terms.not_before = Some(at(20));
    create(store, later).await;
    assert_eq!(store.run(&run_id("later")).await.unwrap().unwrap().queue.waits_since, None);
    assert!(take(store, 9, 10).await.is_empty());
    assert_eq!(store.next_wake().await, Ok(Some(at(10))));
    assert_eq!(names(&take(store, 10, 10).await), ["free"]);
    assert_eq!(store.next_wake().await, Ok(Some(at(20))));
    let begun = take(store, 25, 10).await;
    assert_eq!(names(&begun), ["later"]);
}

/// A message to a run that begins later is kept for it and does not begin it; a request to end it makes it due.
pub async fn a_message_begins_no_run_before_its_time(store: &Arc<dyn Store>) {
    for name in ["free", "asked"] {
        let mut free = NewRun { owner: None, ..new_run(name) };
        free.terms.not_before = Some(at(10));
        create(store, free).await;
    }
    for name in ["later", "asked later"] {
        let mut later = queued(name, "", 0);
        later.terms.not_before = Some(at(10));
        create(store, later).await;
    }
    for name in ["free", "later"] {
        assert_eq!(store.send(&run_id(name), message("details", 1)).await, Ok(Sent::Delivered));
    }
    assert!(take(store, 9, 10).await.is_empty());
    assert_eq!(store.next_wake().await, Ok(Some(at(10))));
    for name in ["asked", "asked later"] {
        let request = Message { topic: END_REQUESTS[0].into(), ..message("request", 2) };
        assert_eq!(store.send(&run_id(name), request).await, Ok(Sent::Delivered));
    }
    let asked = take(store, 3, 10).await;
    let mut ended = names(&asked);
    ended.sort_unstable();
    assert_eq!(ended, ["asked", "asked later"]);
    for lease in &asked {
        end(store, lease).await;
    }
    assert!(take(store, 9, 10).await.is_empty());
    let begun = take(store, 10, 10).await;
    let mut names = names(&begun);
    names.sort_unstable();
    assert_eq!(names, ["free", "later"]);
    for lease in &begun {
        assert_eq!(store.inbox(&lease.run.id, 0).await.unwrap().len(), 1);
    }
}

/// A worker gets runs of its own code only, and one of other code holds up none behind it.
pub async fn queues_go_by_code(store: &Arc<dyn Store>) {
    create(store, NewRun { code: code("other"), ..queued("theirs", "k", 0) }).await;
    create(store, queued("ours", "k", 1)).await;
    assert_eq!(names(&take(store, 2, 10).await), ["ours"]);
    let theirs = ClaimRequest { codes: vec![code("other")], ..claim("second", 3) };
    assert_eq!(names(&store.claim(theirs).await.unwrap()), ["theirs"]);
}

/// A run that gets another code comes in the order of its queue, to those that have that code.
pub async fn a_recoded_run_keeps_its_turn(store: &Arc<dyn Store>) {
    create(store, NewRun { code: code("other"), ..queued("theirs", "k", 0) }).await;
    let later = StartTerms { not_before: Some(at(1)), ..queued("later", "k", 0).terms };
    create(store, NewRun { code: code("other"), terms: later, ..queued("later", "k", 0) }).await;
    create(store, queued("ours", "k", 2)).await;
    let recode = async |name: &str| {
        let RunRecord { id, epoch, code: was, .. } = store.run(&run_id(name)).await.unwrap().unwrap();
        let runs = vec![Recode { run: id, epoch, was, code: code("flow") }];
        assert_eq!(store.recode(runs).await, Ok(1), "{name}");
    };
    recode("later").await;
    recode("theirs").await;
    let theirs = ClaimRequest { codes: vec![code("other")], ..claim("second", 3) };
    assert_eq!(store.claim(theirs).await.unwrap(), []);
    for name in ["theirs", "later", "ours"] {
        assert_eq!(names(&take(store, 3, 1).await), [name]);
    }
}

/// Half of a claim at least is for queues, and half for others, while both have more.
pub async fn queues_and_others_share_a_claim(store: &Arc<dyn Store>) {
    for no in 0..8 {
        create(store, queued(&format!("queued{no}"), "k", 0)).await;
        create(store, NewRun { owner: None, ..new_run(&format!("free{no}")) }).await;
    }
    let both = take(store, 1, 6).await;
    let free = both.iter().filter(|lease| lease.run.id.as_str().starts_with("free")).count();
    assert_eq!((both.len(), free), (6, 3));
    assert_eq!(take(store, 2, 10).await.len(), 10);
}

/// Who claims one run at a time gets one of a queue and one of the others in turns, as its requests say.
pub async fn single_places_go_to_queues_and_others(store: &Arc<dyn Store>) {
    for no in 0..3 {
        create(store, queued(&format!("queued{no}"), "k", 0)).await;
        create(store, NewRun { owner: None, ..new_run(&format!("free{no}")) }).await;
    }
    let one = async |others_first| {
        let leases = store.claim(ClaimRequest { limit: 1, others_first, ..claim("first", 1) }).await.unwrap();
        names(&leases).concat()
    };
    assert!(one(true).await.starts_with("free"));
    assert!(one(false).await.starts_with("queued"));
    assert!(one(true).await.starts_with("free"));
    assert!(one(true).await.starts_with("free"));
    // Where one kind has nothing, the other gets its place.
    assert!(one(true).await.starts_with("queued"));
    assert!(one(false).await.starts_with("queued"));
    assert_eq!(one(false).await, "");
}

fn serves(patterns: &[&str], others: bool) -> Serves {
    let patterns = patterns.iter().map(|pattern| LimitPattern::new(*pattern).unwrap());
    Serves { queues: Some(patterns.collect()), others }
}

/// A worker gets only runs that it serves: of the queues and keys that its patterns name, and outside of queues if it says
/// so. Others hold up none of them, however many there are.
pub async fn a_worker_gets_what_it_serves(store: &Arc<dyn Store>) {
    for no in 0..120 {
        create(store, queued(&format!("crowd{no}"), &format!("crowd{no}"), 0)).await;
    }
    for (name, key) in [("plain", ""), ("ann", "acme/ann"), ("bob", "acme/bob"), ("bolt", "bolt/ann")] {
        create(store, queued(name, key, 1)).await;
    }
    let mut lapses = queued("lapses", "late", 1);
    lapses.terms.expires_at = Some(at(2));
    create(store, lapses).await;
    create(store, NewRun { owner: None, ..new_run("free") }).await;
    let got = async |serves: Serves| {
        let leases = store.claim(ClaimRequest { serves, ..claim("first", 3) }).await.unwrap();
        let mut got = names(&leases).iter().map(ToString::to_string).collect::<Vec<_>>();
        got.sort();
        got
    };
    assert_eq!(got(serves(&[], false)).await, Vec::<String>::new());
    assert_eq!(got(serves(&["other"], false)).await, Vec::<String>::new());
    assert_eq!(got(serves(&["q/acme/bob", "other/*"], false)).await, ["bob"]);
    assert_eq!(got(serves(&["q/*/ann"], false)).await, ["ann", "bolt"]);
    assert_eq!(got(serves(&["q/late"], false)).await, ["lapses"]);
    assert_eq!(got(serves(&[], true)).await, ["free"]);
    assert_eq!(got(serves(&["q/*"], true)).await.len(), 10);
    // By name, too.
    let plain = vec![run_id("plain")];
    let adopt = ClaimRequest { serves: serves(&["q/*"], true), adopt: plain.clone(), ..claim("first", 4) };
    assert!(store.claim(adopt.clone()).await.unwrap().is_empty());
    let only = ClaimRequest { only: Some(run_id("plain")), adopt: Vec::new(), ..adopt.clone() };
    assert!(store.claim(only.clone()).await.unwrap().is_empty());
    // What a silent worker holds.
    store.register(&worker("mute"), Duration::from_secs(10), vec![code("flow")]).await.unwrap();
    let all = ClaimRequest { worker: worker("mute"), serves: Serves::ALL, ..only };
    assert_eq!(names(&store.claim(all).await.unwrap()), ["plain"]);
    let held = new_run("held");
    create(store, NewRun { owner: Some(worker("mute")), ..held }).await;
    let takeover = |serves| ClaimRequest { serves, limit: 10, ..takeover("second", 5, "mute", 0) };
    let taken = store.claim(takeover(serves(&["q/*"], false))).await.unwrap();
    assert!(taken.iter().all(|lease| lease.taken_from.is_none()), "{:?}", names(&taken));
    let named = ClaimRequest { adopt: plain, ..takeover(serves(&["other"], true)) };
    assert!(store.claim(named).await.unwrap().is_empty());
    assert_eq!(names(&store.claim(takeover(serves(&[], true))).await.unwrap()), ["held"]);
    let rest = store.claim(takeover(serves(&["q"], false))).await.unwrap();
    assert!(rest.iter().any(|lease| lease.taken_from.is_some() && lease.run.id == run_id("plain")));
}

/// What a worker serves is listed, also for those who ask why a run waits.
pub async fn what_workers_serve_is_listed(store: &Arc<dyn Store>) {
    let lease = Duration::from_secs(10);
    for (name, of) in [("all", vec![code("flow")]), ("some", vec![code("flow")]), ("client", vec![])] {
        store.register(&worker(name), lease, of).await.unwrap();
    }
    let some = serves(&["q/*", "mail"], false);
    store.serve(&worker("some"), some.clone()).await.unwrap();
    let known = store.known_workers().await.unwrap();
    let of = |name: &str| known.iter().find(|known| known.id == worker(name)).unwrap().serves.clone();
    assert_eq!((of("all"), of("some")), (Serves::ALL, some.clone()));
    let elsewhere = async |me: &str| {
        let serving = store.serving_elsewhere(&worker(me)).await.unwrap();
        let able = serving.into_iter().filter(|worker| worker.codes == [code("flow")]);
        able.map(|worker| worker.serves).collect::<Vec<_>>()
    };
    assert_eq!(elsewhere("all").await, std::slice::from_ref(&some));
    assert_eq!(elsewhere("some").await, [Serves::ALL]);
    assert_eq!(elsewhere("client").await.len(), 2);
    store.retire(&worker("all")).await.unwrap();
    assert_eq!(elsewhere("client").await, [some]);
}

/// Runs are listed by queue and key.
pub async fn runs_are_listed_by_queue(store: &Arc<dyn Store>) {
    create(store, queued("a", "acme/ann", 0)).await;
    create(store, queued("b", "acme", 0)).await;
    create(store, queued("c", "acme2", 0)).await;
    create(store, NewRun { owner: None, ..new_run("d") }).await;
    let list = async |filter: RunFilter| {
        let runs = store.runs(filter.clone()).await.unwrap();
        assert_eq!(store.count(filter).await, Ok(runs.len() as u64));
        runs.iter().map(|run| run.id.to_string()).collect::<Vec<_>>()
    };
    let all = RunFilter::new().queue("q");
    assert_eq!(list(all.clone()).await, ["c", "b", "a"]);
    assert_eq!(list(all.clone().queue_key("acme")).await, ["b", "a"]);
    assert_eq!(list(RunFilter::new().queue_key("")).await, ["c", "b", "a"]);
    assert_eq!(list(all.clone().status(Status::Pending)).await, ["c", "b", "a"]);
    assert_eq!(list(all.status(Status::Failed)).await, Vec::<String>::new());
    assert_eq!(list(RunFilter::new().queue("p")).await, Vec::<String>::new());
}

/// A keyed start is written by compare-and-swap, found when it is due, and deleted by its revision.
pub async fn keyed_starts_are_swapped(store: &Arc<dyn Store>) {
    let start = |name: &str, due: u64, revision: u64| KeyedStart {
        name: name.into(),
        workflow: "flow".into(),
        due_at: at(due),
        record: json("{\"b\": 1,\"a\":2}"),
        revision,
    };
    assert_eq!(store.put_keyed_start(start("a", 5, 2), 1).await, Ok(false));
    assert_eq!(store.put_keyed_start(start("a", 5, 1), 0).await, Ok(true));
    assert_eq!(store.put_keyed_start(start("a", 6, 1), 0).await, Ok(false));
    assert_eq!(store.put_keyed_start(start("b", 3, 1), 0).await, Ok(true));
    assert_eq!(store.put_keyed_start(start("a", 4, 2), 1).await, Ok(true));
    assert_eq!(store.keyed_start("a").await, Ok(Some(start("a", 4, 2))));
    assert_eq!(store.keyed_start("c").await, Ok(None));
    let due = async |now: u64, workflow: &str, limit| {
        let query = DueStarts { now: at(now), workflows: [workflow.into()].into(), after: None, limit };
        store.due_starts(query).await.unwrap().into_iter().map(|start| start.name).collect::<Vec<_>>()
    };
    assert_eq!(due(4, "flow", 9).await, ["b", "a"]);
    assert_eq!(due(4, "flow", 1).await, ["b"]);
    assert_eq!(due(3, "flow", 9).await, ["b"]);
    assert_eq!(due(4, "other", 9).await, Vec::<String>::new());
    assert_eq!(store.remove_keyed_start("a", 1).await, Ok(false));
    assert_eq!(store.remove_keyed_start("a", 2).await, Ok(true));
    assert_eq!(store.keyed_start("a").await, Ok(None));
}

/// Due keyed starts are listed in pages. The next one begins behind the last one, also among those that are due at one time,
/// whatever became of that meanwhile.
pub async fn due_keyed_starts_are_found_in_pages(store: &Arc<dyn Store>) {
    let starts = [("e", "flow", 3), ("c", "flow", 5), ("d", "other", 5), ("a", "flow", 5), ("b", "other", 4)];
    for (name, workflow, due) in [("f", "third", 4), ("g", "flow", 9)].into_iter().chain(starts) {
        let (name, workflow, due_at, record) = (name.into(), workflow.into(), at(due), json("1"));
        let start = KeyedStart { name, workflow, due_at, record, revision: 1 };
        assert_eq!(store.put_keyed_start(start, 0).await, Ok(true));
    }
    let workflows = Arc::from(["flow".to_owned(), "other".to_owned()]);
    let mut query = DueStarts { now: at(8), workflows, after: None, limit: 2 };
    let mut pages = Vec::new();
    loop {
        let page = store.due_starts(query.clone()).await.unwrap();
        let Some(last) = page.last() else { break };
        query.after = Some((last.due_at, last.name.clone()));
        assert_eq!(store.remove_keyed_start(&last.name, 1).await, Ok(true));
        pages.push(page.into_iter().map(|start| start.name).collect::<Vec<_>>());
    }
    assert_eq!(pages, [vec!["e", "b"], vec!["a", "c"], vec!["d"]]);
}

/// A purged run leaves no trace in its queue.
pub async fn a_purged_run_leaves_its_queue(store: &Arc<dyn Store>) {
    set(store, "q", LimitKind::Running(1)).await;
    for name in ["a", "b"] {
        create(store, queued(name, "k", 0)).await;
    }
    end(store, &take(store, 1, 1).await[0]).await;
    store.purge(&RunId::new("a").unwrap(), None).await.unwrap();
    assert_eq!(names(&take(store, 2, 10).await), ["b"]);
}

/// A run that rests on a keyed start is created only while that has the revision in which it was decided; a run that exists is
/// answered in any case.
pub async fn a_creation_rests_on_its_keyed_start(store: &Arc<dyn Store>) {
    let start = |revision| KeyedStart {
        name: "k".into(),
        workflow: "flow".into(),
        due_at: at(5),
        record: json("1"),
        revision,
    };
    let decided = |revision| Decision::KeyedStart { name: "k".into(), revision };
    let create = async |name: &str, revision| store.create_decided(new_run(name), decided(revision)).await;
    assert_eq!(create("a", 1).await, Ok(Created::DecisionGone));
    assert_eq!(store.run(&run_id("a")).await, Ok(None));
    assert_eq!(store.put_keyed_start(start(1), 0).await, Ok(true));
    assert_eq!(create("a", 2).await, Ok(Created::DecisionGone));
    assert_eq!(create("a", 1).await, Ok(Created::New));
    assert_eq!(store.put_keyed_start(start(2), 1).await, Ok(true));
    assert!(matches!(create("a", 1).await, Ok(Created::Existing(_))));
    assert_eq!(create("b", 1).await, Ok(Created::DecisionGone));
    let queued = store.create_decided(queued("c", "key", 1), decided(1)).await;
    assert_eq!(queued, Ok(Created::DecisionGone));
    assert_eq!(create("b", 2).await, Ok(Created::New));
    assert_eq!(store.remove_keyed_start("k", 2).await, Ok(true));
    assert_eq!(create("d", 2).await, Ok(Created::DecisionGone));
}
