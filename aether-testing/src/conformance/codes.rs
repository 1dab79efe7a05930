//! Rules about the code that records a run: adopting it, parking, runs of other code, and what workers can advance.

use std::sync::Arc;
use std::time::Duration;

use aether_core::contract::Status;
use aether_core::id::CodeId;
use aether_core::payload::Payload;
use aether_core::store::{
    AppendError, ClaimRequest, CodeChange, DefinitionRecord, ForeignRuns, KnownWorker, NewRun, Recode,
    RunFilter, RunRecord, SilentWorker, Store, WaitChange, WaitFilter,
};
use aether_core::waiting::Waiting;

use super::kit::{Hand, at, becomes, claim, code, names, new_run, run_id, takeover, wait, worker};

const LEASE: Duration = Duration::from_secs(60);

async fn create_free(store: &Arc<dyn Store>, name: &str, seconds: u64, code: CodeId) {
    let new = NewRun { owner: None, at: at(seconds), code, ..new_run(name) };
    store.create(new).await.unwrap();
}

/// Code and parking of a run.
async fn known(store: &Arc<dyn Store>, name: &str) -> (CodeId, bool) {
    let record = store.run(&run_id(name)).await.unwrap().unwrap();
    (record.code, record.parked)
}

/// Ids of the listed runs.
async fn foreign(store: &Arc<dyn Store>, query: ForeignRuns) -> Vec<String> {
    let runs = store.foreign(query).await.unwrap();
    assert!(runs.windows(2).all(|pair| pair[0].place < pair[1].place), "places rise: {runs:?}");
    runs.into_iter().map(|run| run.id.as_str().to_owned()).collect()
}

fn all_but(codes: Vec<CodeId>) -> ForeignRuns {
    ForeignRuns { codes, due: None, after: None, limit: 0 }
}

/// An append adopts or parks its run together with the rest; a refused one does neither.
pub async fn an_append_changes_the_code_of_its_run(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    assert_eq!(known(store, "a").await, (code("flow"), false));
    hand.append(|append| append.code = Some(CodeChange::Parked)).await.unwrap();
    assert_eq!(known(store, "a").await, (code("flow"), true));
    hand.append(|_| {}).await.unwrap();
    assert_eq!(known(store, "a").await, (code("flow"), true), "another append leaves it as it is");
    hand.append(|append| append.code = Some(CodeChange::Adopted(code("next")))).await.unwrap();
    assert_eq!(known(store, "a").await, (code("next"), false));
    let mut stale = Hand::of(store, "a", 7, hand.next);
    let refused = stale.append(|append| append.code = Some(CodeChange::Parked)).await.unwrap_err();
    assert!(matches!(refused, AppendError::StaleEpoch { .. }));
    assert_eq!(known(store, "a").await, (code("next"), false));
}

/// A run that is parked and suspended in one append keeps both; one that ends is not parked any more.
pub async fn a_parked_run_can_be_suspended_and_ended(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    let park = |append: &mut aether_core::store::Append| {
        append.code = Some(CodeChange::Parked);
        append.status = Some(becomes(Status::Waiting, Some(at(9)), true));
    };
    hand.append(park).await.unwrap();
    let record = store.run(&run_id("a")).await.unwrap().unwrap();
    assert_eq!((record.status, record.owner, record.parked), (Status::Waiting, None, true));
    let lease =
        store.claim(ClaimRequest { adopt: vec![run_id("a")], ..claim("w", 1) }).await.unwrap().remove(0);
    assert!(lease.run.parked, "a claim alone unparks nothing");
    let mut hand = Hand::of(store, "a", lease.run.epoch, lease.run.next);
    hand.status(becomes(Status::Cancelled, None, true)).await;
    assert_eq!(known(store, "a").await, (code("flow"), false));
    assert_eq!(foreign(store, all_but(vec![])).await, [""; 0]);
}

/// A claim takes no run of other code and no parked one, whether it asks for due runs or for one of them; nothing is due
/// because of a parked run.
pub async fn a_claim_takes_only_runs_of_its_codes(store: &Arc<dyn Store>) {
    create_free(store, "other", 0, code("other")).await;
    create_free(store, "unknown", 0, CodeId::default()).await;
    let mut hand = Hand::create(store, "parked").await;
    hand.append(|append| append.code = Some(CodeChange::Parked)).await.unwrap();
    hand.status(becomes(Status::Waiting, Some(at(1)), true)).await;
    assert_eq!(store.claim(claim("w", 90)).await.unwrap(), []);
    for name in ["other", "unknown", "parked"] {
        let only = ClaimRequest { only: Some(run_id(name)), ..claim("w", 90) };
        assert_eq!(store.claim(only).await.unwrap(), [], "{name}");
    }
    let unknown = ClaimRequest { codes: vec![CodeId::default()], ..claim("w", 90) };
    assert_eq!(names(&store.claim(unknown).await.unwrap()), ["unknown"]);
    let other = ClaimRequest { codes: vec![code("other")], ..claim("w", 90) };
    assert_eq!(names(&store.claim(other).await.unwrap()), ["other"]);
    assert_eq!(store.next_wake().await, Ok(None));
}

/// A claim to adopt takes exactly the runs that it names, due or not, of any code, and parked ones; but none that is held
/// or has ended.
pub async fn a_claim_to_adopt_takes_what_it_names(store: &Arc<dyn Store>) {
    store.register(&worker("first"), LEASE, Vec::new()).await.unwrap();
    create_free(store, "other", 900, code("other")).await;
    create_free(store, "mine", 0, code("flow")).await;
    let mut parked = Hand::create(store, "parked").await;
    parked.append(|append| append.code = Some(CodeChange::Parked)).await.unwrap();
    parked.status(becomes(Status::Waiting, None, true)).await;
    Hand::create(store, "ended").await.status(becomes(Status::Failed, None, true)).await;
    Hand::create(store, "held").await;
    let named = ["parked", "other", "ended", "held", "nobody", "other"].map(run_id).to_vec();
    let adopt = |request| ClaimRequest { adopt: named.clone(), limit: 1, ..request };
    let leases = store.claim(adopt(claim("w", 5))).await.unwrap();
    let mut claimed = names(&leases);
    claimed.sort_unstable();
    assert_eq!(claimed, ["other", "parked"]);
    assert!(leases.iter().all(|lease| lease.run.owner == Some(worker("w"))));
    assert_eq!(store.claim(adopt(claim("w", 5))).await.unwrap(), []);
    let leases = store.claim(adopt(takeover("w", 60, "first", 0))).await.unwrap();
    assert_eq!((names(&leases), leases[0].run.epoch), (vec!["held"], 2));
    assert_eq!(names(&store.claim(claim("v", 5)).await.unwrap()), ["mine"], "which nobody named");
}

/// A run gets another code while nobody holds it and it has not been claimed since somebody looked at it; a parked one and
/// one that has ended keep theirs.
pub async fn free_runs_can_get_another_code(store: &Arc<dyn Store>) {
    create_free(store, "free", 0, code("other")).await;
    create_free(store, "moved", 0, code("other")).await;
    Hand::create(store, "held").await;
    let mut parked = Hand::create(store, "parked").await;
    parked.append(|append| append.code = Some(CodeChange::Parked)).await.unwrap();
    parked.status(becomes(Status::Waiting, None, true)).await;
    Hand::create(store, "ended").await.status(becomes(Status::Failed, None, true)).await;
    let mut runs = Vec::new();
    for name in ["free", "moved", "held", "parked", "ended"] {
        let RunRecord { id, epoch, code: was, .. } = store.run(&run_id(name)).await.unwrap().unwrap();
        runs.push(Recode { run: id, epoch, was, code: code("next") });
    }
    runs.push(Recode { run: run_id("nobody"), epoch: 0, was: code("other"), code: code("next") });
    let of_others = Recode { was: code("third"), ..runs[0].clone() };
    assert_eq!(store.recode(vec![of_others]).await, Ok(0));
    let others = ClaimRequest { only: Some(run_id("moved")), codes: vec![code("other")], ..claim("w", 1) };
    let lease = store.claim(others).await.unwrap().remove(0);
    store.release(&worker("w"), &run_id("moved"), lease.run.epoch, at(1)).await.unwrap();
    assert_eq!(store.recode(runs).await, Ok(1));
    assert_eq!(known(store, "free").await, (code("next"), false));
    assert_eq!(known(store, "moved").await, (code("other"), false));
    assert_eq!(known(store, "parked").await, (code("flow"), true));
    assert_eq!(known(store, "held").await, (code("flow"), false));
    let next = ClaimRequest { codes: vec![code("next")], ..claim("v", 5) };
    assert_eq!(names(&store.claim(next).await.unwrap()), ["free"]);
}

/// Open runs of other code and parked ones are listed, page by page.
pub async fn runs_of_other_code_are_listed(store: &Arc<dyn Store>) {
    for (name, of) in [("a", "flow"), ("b", "other"), ("c", "third"), ("d", "other"), ("e", "flow")] {
        create_free(store, name, 900, code(of)).await;
    }
    let mut parked = Hand::create(store, "parked").await;
    parked.append(|append| append.code = Some(CodeChange::Parked)).await.unwrap();
    let ended = NewRun { code: code("other"), ..new_run("ended") };
    store.create(ended).await.unwrap();
    Hand::of(store, "ended", 1, 1).status(becomes(Status::Completed, None, true)).await;
    let flow = || all_but(vec![code("flow")]);
    assert_eq!(foreign(store, flow()).await, ["b", "c", "d", "parked"]);
    assert_eq!(foreign(store, all_but(vec![])).await, ["a", "b", "c", "d", "e", "parked"]);
    let two = vec![code("flow"), code("other"), code("nobody's")];
    assert_eq!(foreign(store, all_but(two)).await, ["c", "parked"]);
    assert_eq!(foreign(store, ForeignRuns { limit: 2, ..flow() }).await, ["b", "c"]);
    let place = store.run(&run_id("c")).await.unwrap().unwrap().place;
    assert_eq!(foreign(store, ForeignRuns { after: Some(place), ..flow() }).await, ["d", "parked"]);
}

/// Of the runs of other code, only those that a claim could get now are due.
pub async fn due_runs_of_other_code_are_listed(store: &Arc<dyn Store>) {
    store.register(&worker("first"), LEASE, Vec::new()).await.unwrap();
    for (name, seconds) in [("early", 1), ("late", 50)] {
        create_free(store, name, seconds, code("other")).await;
    }
    create_free(store, "mine", 1, code("flow")).await;
    let held = NewRun { code: code("other"), ..new_run("held") };
    store.create(held).await.unwrap();
    // By a worker whose clock was a day ahead; with a message of the same clock, and without.
    for name in ["ahead", "ahead-too"] {
        let ahead = NewRun { code: code("other"), at: at(86_400), ..new_run(name) };
        store.create(ahead).await.unwrap();
    }
    store.send(&run_id("ahead-too"), super::kit::message("m", 86_401)).await.unwrap();
    for (name, wake_at) in [("due", Some(at(2))), ("asleep", None)] {
        let mut parked = Hand::create(store, name).await;
        parked.append(|append| append.code = Some(CodeChange::Parked)).await.unwrap();
        parked.status(becomes(Status::Waiting, wake_at, true)).await;
    }
    let due = |now, renewals| {
        let silent = vec![SilentWorker { id: worker("first"), renewals }];
        ForeignRuns { due: Some((at(now), silent)), ..all_but(vec![code("flow")]) }
    };
    assert_eq!(foreign(store, due(9, 1)).await, ["early"], "parked runs are due for nobody");
    assert_eq!(foreign(store, due(50, 1)).await, ["early", "late"]);
    let of_silent = ["early", "held", "ahead", "ahead-too"];
    assert_eq!(foreign(store, due(9, 0)).await, of_silent, "their worker is silent");
    assert_eq!(foreign(store, ForeignRuns { limit: 1, ..due(9, 0) }).await, ["early"]);
    store.send(&run_id("asleep"), super::kit::message("m", 3)).await.unwrap();
    assert_eq!(foreign(store, due(9, 1)).await, ["early"], "a message wakes no parked run");
}

/// Runs are listed by their code, and by whether they are parked; a wait says whether its run is.
pub async fn lists_know_code_and_parking(store: &Arc<dyn Store>) {
    create_free(store, "a", 0, code("other")).await;
    let mut hand = Hand::create(store, "b").await;
    let paid = wait(1, Waiting::Signal, "paid");
    hand.append(|append| append.waits = vec![WaitChange::Opened(Box::new(paid))]).await.unwrap();
    Hand::create(store, "c").await.status(becomes(Status::Failed, None, true)).await;
    let parked = async || store.waits(WaitFilter::default()).await.unwrap().remove(0).parked;
    assert!(!parked().await);
    hand.append(|append| append.code = Some(CodeChange::Parked)).await.unwrap();
    assert!(parked().await);
    for (filter, expected) in [
        (RunFilter::new().parked(true), vec!["b"]),
        (RunFilter::new().parked(false), vec!["c", "a"]),
        (RunFilter::new().parked(true).open().workflow("flow"), vec!["b"]),
        (RunFilter::new().code(code("flow")), vec!["c", "b"]),
        (RunFilter::new().code(code("flow")).open(), vec!["b"]),
        (RunFilter::new().code(code("other")).open().parked(true), vec![]),
        (RunFilter::new().code(code("other")).open().limit(1), vec!["a"]),
    ] {
        let runs = store.runs(filter.clone()).await.unwrap();
        let found: Vec<_> = runs.iter().map(|run| run.id.as_str()).collect();
        assert_eq!(found, expected, "{filter:?}");
        assert_eq!(store.count(filter).await, Ok(expected.len() as u64));
    }
}

/// What other workers can advance is known from when they register until they retire.
pub async fn the_codes_of_other_workers_are_known(store: &Arc<dyn Store>) {
    let codes = |names: &[&str]| names.iter().map(|name| code(name)).collect::<Vec<_>>();
    for (name, of) in [("w", ["flow", "old"]), ("v", ["flow", "new"]), ("u", ["new", "new"])] {
        assert_eq!(store.register(&worker(name), LEASE, codes(&of)).await, Ok(true));
    }
    assert_eq!(store.register(&worker("v"), LEASE, codes(&["never"])).await, Ok(false));
    let elsewhere = async |me: &str| {
        let mut codes = store.codes_elsewhere(&worker(me)).await.unwrap();
        codes.sort();
        codes
    };
    assert_eq!(elsewhere("w").await, codes(&["flow", "new"]));
    assert_eq!(elsewhere("v").await, codes(&["flow", "new", "old"]));
    store.renew(&worker("v"), LEASE, Vec::new()).await.unwrap();
    assert_eq!(elsewhere("nobody").await, codes(&["flow", "new", "old"]));
    store.retire(&worker("w")).await.unwrap();
    assert_eq!(elsewhere("u").await, codes(&["flow", "new"]));
    assert_eq!(store.register(&worker("w"), LEASE, codes(&["old"])).await, Ok(true));
    assert_eq!(elsewhere("v").await, codes(&["new", "old"]));
}

/// Workers are listed from when they register until they retire, with what they can advance and how many runs they hold.
pub async fn registered_workers_are_listed(store: &Arc<dyn Store>) {
    assert_eq!(store.known_workers().await, Ok(vec![]));
    let codes = |names: &[&str]| names.iter().map(|name| code(name)).collect::<Vec<_>>();
    store.register(&worker("idle"), LEASE, codes(&["flow", "old"])).await.unwrap();
    store.register(&worker("client"), LEASE, Vec::new()).await.unwrap();
    store.register(&worker("busy"), LEASE, codes(&["flow"])).await.unwrap();
    for name in ["a", "b"] {
        let owner = Some(worker("busy"));
        store.create(NewRun { owner, ..new_run(name) }).await.unwrap();
    }
    store.renew(&worker("busy"), LEASE, Vec::new()).await.unwrap();
    let known = async || {
        let mut known = store.known_workers().await.unwrap();
        known.sort_by(|a, b| a.id.cmp(&b.id));
        known.iter_mut().for_each(|worker| worker.codes.sort());
        known
    };
    let expected = |name: &str, renewals, of: &[&str], runs| KnownWorker {
        id: worker(name),
        renewals,
        lease: Some(LEASE),
        codes: codes(of),
        serves: Default::default(),
        runs,
        is_dead: false,
    };
    // A store may make a renewal once more when it does not know whether it was made.
    let renewals = known().await.first().map_or(0, |busy| busy.renewals);
    assert!(renewals >= 1, "a renewal is counted");
    let (busy, client) = (expected("busy", renewals, &["flow"], 2), expected("client", 0, &[], 0));
    assert_eq!(known().await, [busy.clone(), client.clone(), expected("idle", 0, &["flow", "old"], 0)]);
    store.retire(&worker("idle")).await.unwrap();
    assert_eq!(known().await, [busy, client]);
}

/// A definition is kept once, as it was first put.
pub async fn definitions_are_kept_once(store: &Arc<dyn Store>) {
    let definition = |name: &str, seconds, text: &str| DefinitionRecord {
        code: code(name),
        workflow: name.into(),
        version: 3,
        definition: Payload::from_text(text.to_owned()).unwrap(),
        first_seen: at(seconds),
    };
    assert_eq!(store.definitions().await, Ok(vec![]));
    for put in [
        definition("late", 7, "{\"b\": 1,\"a\":2}"),
        definition("b", 5, "2"),
        definition("a", 5, "1"),
        definition("late", 1, "\"again\""),
    ] {
        store.put_definition(put).await.unwrap();
    }
    let expected =
        [definition("a", 5, "1"), definition("b", 5, "2"), definition("late", 7, "{\"b\": 1,\"a\":2}")];
    assert_eq!(store.definitions().await.unwrap(), expected);
}
