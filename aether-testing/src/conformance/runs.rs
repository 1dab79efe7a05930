//! Rules about creating and listing runs.

use std::sync::Arc;

use aether_core::contract::Status;
use aether_core::journal::read_verified;
use aether_core::labels::Labels;
use aether_core::store::{Created, Decision, NewRun, RunFilter, RunRecord, Store};

use super::kit::{Hand, at, becomes, code, digest, frame, new_run, run_id, worker};

/// A run created by a worker is running, at epoch 1, held by it, with its first frame.
pub async fn created_with_an_owner(store: &Arc<dyn Store>) {
    let mut new = new_run("a");
    new.parent = Some(run_id("parent"));
    assert_eq!(store.create(new).await, Ok(Created::New));
    let found = store.run(&run_id("a")).await.unwrap().unwrap();
    let expected = RunRecord {
        id: run_id("a"),
        workflow: "flow".into(),
        version: 3,
        code: code("flow"),
        parked: false,
        status: Status::Running,
        digest: digest("a"),
        parent: Some(run_id("parent")),
        created_at: at(0),
        updated_at: at(0),
        next: 1,
        epoch: 1,
        owner: Some(worker("first")),
        wake_at: Some(at(0)),
        labels: Labels::default(),
        traceparent: None,
        place: found.place,
        terms: Default::default(),
        queue: Default::default(),
    };
    assert_eq!(found, expected);
    let frames = store.load(&run_id("a"), 0).await.unwrap();
    assert_eq!(frames.len(), 1);
    assert_eq!((frames[0].position, frames[0].at, frames[0].epoch), (0, at(0), 1));
    assert_eq!(frames[0].text, frame(&["created"]).text);
    read_verified(&frames).unwrap();
}

/// A run created without a worker is pending, at epoch 0, and due.
pub async fn created_without_an_owner(store: &Arc<dyn Store>) {
    let mut new = new_run("a");
    new.owner = None;
    assert_eq!(store.create(new).await, Ok(Created::New));
    let record = store.run(&run_id("a")).await.unwrap().unwrap();
    assert_eq!((record.status, record.epoch, record.next), (Status::Pending, 0, 1));
    assert_eq!((record.owner, record.wake_at), (None, Some(at(0))));
}

/// Where the parent's epoch is given, a child is created only while the parent is open at that epoch: a worker that lost
/// the parent creates none. A child that exists is answered in any case.
pub async fn a_child_needs_its_parent(store: &Arc<dyn Store>) {
    let mut parent = Hand::create(store, "parent").await;
    let child =
        |name, epoch| NewRun { parent: Some(run_id("parent")), parent_epoch: Some(epoch), ..new_run(name) };
    assert_eq!(store.create(child("a", 2)).await, Ok(Created::ParentLost));
    assert_eq!(store.run(&run_id("a")).await, Ok(None));
    assert_eq!(store.create(child("a", 1)).await, Ok(Created::New));
    parent.status(becomes(Status::Completed, None, true)).await;
    assert_eq!(store.create(child("b", 1)).await, Ok(Created::ParentLost));
    assert!(matches!(store.create(child("a", 1)).await, Ok(Created::Existing(_))));
    let orphan = NewRun { parent: Some(run_id("nobody")), parent_epoch: Some(1), ..new_run("c") };
    assert_eq!(store.create(orphan).await, Ok(Created::ParentLost));
}

/// What was stored for a run that is refused, and is not there, goes with the refusal. Stored anew, it is there for a later one.
pub async fn a_refused_start_leaves_no_values(store: &Arc<dyn Store>) {
    let (hash, bytes) = ("aa".repeat(32), b"bytes".to_vec());
    let orphan = NewRun { parent: Some(run_id("nobody")), parent_epoch: Some(1), ..new_run("a") };
    store.put_blob(&run_id("a"), &hash, bytes.clone()).await.unwrap();
    assert_eq!(store.create(orphan).await, Ok(Created::ParentLost));
    assert_eq!(store.blob(&run_id("a"), &hash).await, Ok(None));
    store.put_blob(&run_id("b"), &hash, bytes.clone()).await.unwrap();
    let decision = Decision::KeyedStart { name: "gone".into(), revision: 1 };
    assert_eq!(store.create_decided(new_run("b"), decision.clone()).await, Ok(Created::DecisionGone));
    assert_eq!(store.blob(&run_id("b"), &hash).await, Ok(None));
    store.put_blob(&run_id("b"), &hash, bytes.clone()).await.unwrap();
    assert_eq!(store.create(new_run("b")).await, Ok(Created::New));
    assert!(matches!(store.create_decided(new_run("b"), decision).await, Ok(Created::Existing(_))));
    assert_eq!(store.blob(&run_id("b"), &hash).await, Ok(Some(bytes)));
}

/// A second run with the same id is not written; the answer is the first run, with all appends queued before.
pub async fn creating_twice_answers_existing(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    hand.silent(|append| append.frame = frame(&["x", "y"]));
    let mut again = new_run("a");
    again.workflow = "other".into();
    let Created::Existing(record) = store.create(again).await.unwrap() else {
        panic!("a second run of one id was created");
    };
    assert_eq!((record.workflow.as_str(), record.next, record.digest), ("flow", 3, digest("a")));
    assert_eq!(store.load(&run_id("a"), 0).await.unwrap().len(), 2);
}

/// Reading an unknown run gives nothing, and no error.
pub async fn unknown_runs_are_absent(store: &Arc<dyn Store>) {
    let id = run_id("nobody");
    assert_eq!(store.run(&id).await, Ok(None));
    assert_eq!(store.last_frame(&id).await, Ok(None));
    assert_eq!(store.load(&id, 0).await, Ok(Vec::new()));
    assert_eq!(store.entries(&id).await, Ok(Vec::new()));
    assert_eq!(store.inbox(&id, 0).await, Ok(Vec::new()));
    assert_eq!(store.snapshot(&id).await, Ok(None));
    assert_eq!(store.runs(RunFilter::default()).await, Ok(Vec::new()));
    assert_eq!(store.next_wake().await, Ok(None));
}
