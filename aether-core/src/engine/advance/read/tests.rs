//! A journal that goes on while it is read.

use super::*;
use crate::journal::event::{NodeFinished, RunContinued};
use crate::journal::frame::{CHAIN_START, ChainHash, Frame, chain};
use crate::store::memory::MemoryStore;
use crate::vocabulary::id::CommandId;
use crate::vocabulary::payload::{Digest, Payload};

fn frame(position: Position, before: &ChainHash, events: &[Event]) -> StoredFrame {
    let (at, text) = (Timestamp::UNIX_EPOCH, Frame::encode(events).unwrap().text);
    let chain = chain(before, position, at, &text);
    StoredFrame { position, at, epoch: 1, text, chain, decoded: None }
}

fn created(workflow: &str) -> Event {
    RunCreated {
        workflow: workflow.into(),
        module: String::new(),
        version: 1,
        fingerprint: String::new(),
        input: Payload::null(),
        digest: Digest::of(&Payload::null()).unwrap(),
        seed: String::new(),
        parent: None,
        labels: Default::default(),
        forked_from: None,
        terms: Default::default(),
    }
    .into()
}

fn continued() -> Event {
    RunContinued {
        generation: 1,
        previous: "0".repeat(64),
        started_as: "flow".into(),
        started_at: Timestamp::UNIX_EPOCH,
        carried: None,
        first_input: None,
        spent: None,
    }
    .into()
}

fn finished(place: &str) -> Event {
    NodeFinished { command: CommandId::new(place, "step") }.into()
}

/// The next generation may begin just where the next page does: then nothing is missing between the two.
#[tokio::test]
async fn a_generation_that_begins_between_two_pages_is_read_as_the_only_one() {
    let (store, run) = (MemoryStore::new(), "run".parse().unwrap());
    let old = frame(0, &CHAIN_START, &[created("old"), finished("0")]);
    let new = frame(2, &old.chain, &[created("new"), continued(), finished("c1.0")]);
    let mut journal = Journal::default();
    journal.add(&store, &run, &[old]).await.unwrap();
    journal.add(&store, &run, &[new]).await.unwrap();
    let mut read = journal.finish(&run).unwrap();
    assert_eq!(read.created.workflow, "new");
    assert_eq!((read.generation.number, read.generation.began, read.next), (1, 2, 5));
    assert!(read.history.peek("0").is_none() && read.history.peek("c1.0").is_some());
}
