//! What counts of what executions send, and who listens.

use futures_util::future::{BoxFuture, ready};
use jiff::Timestamp;

use super::*;
use crate::store::memory::MemoryStore;
use crate::stream::execution::OpenCommands;
use crate::stream::listener::Listener;
use crate::stream::reader::StreamReader;
use crate::vocabulary::id::CommandId;

/// A clock that stands still.
#[derive(Debug)]
struct Still;

impl Environment for Still {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }

    fn sleep_until(&self, _: Timestamp) -> BoxFuture<'static, ()> {
        Box::pin(ready(()))
    }
}

fn hub() -> Arc<StreamHub> {
    StreamHub::new(Arc::new(MemoryStore::new()), Arc::new(Still), Redaction::default(), PAUSE, None)
}

fn run() -> RunId {
    RunId::new("a").unwrap()
}

fn execution() -> Arc<Execution> {
    let open = OpenCommands::of(Vec::new());
    Execution::new(run(), 1, CommandId::new("0", "say"), 0, open)
}

fn pending(execution: &Arc<Execution>, items: &str) -> Pending {
    Pending { execution: Arc::clone(execution), stream: "reply".into(), items: items.to_owned() }
}

fn is_lost(execution: &Execution) -> bool {
    execution.lost.load(Ordering::Acquire)
}

#[test]
fn what_is_sent_behind_the_end_of_an_execution_is_dropped() {
    let (hub, execution, stream) = (hub(), execution(), Arc::from("reply"));
    hub.end(&execution);
    hub.send(&execution, &stream, "1");
    hub.lose(&execution, &stream, "an item is too large");
    assert_eq!((execution.has_sent(), is_lost(&execution), hub.lock().queued), (false, false, 0));
}

#[test]
fn an_execution_of_which_a_chunk_is_refused_keeps_nothing() {
    let (hub, execution) = (hub(), execution());
    let part = execution.next_part(&Arc::from("reply"), &mut 0);
    let written = written(pending(&execution, "1,2"), part, Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!((written.0.items.as_str(), execution.streams()), ("[1,2]", vec!["reply".to_owned()]));
    hub.publish(&[written], vec![None]);
    assert_eq!((is_lost(&execution), execution.streams()), (true, Vec::new()));
}

#[test]
fn an_execution_of_which_an_item_is_nested_too_deep_keeps_nothing() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let deepest = (1..).take_while(|depth| Payload::from_text(nested(*depth)).is_ok()).last().unwrap();
    let execution = execution();
    let of = |depth| written(pending(&execution, &nested(depth)), (1, 0), Timestamp::UNIX_EPOCH);
    assert_eq!((of(deepest - 1).is_some(), is_lost(&execution)), (true, false));
    assert_eq!((of(deepest).is_some(), is_lost(&execution)), (false, true));
}

#[test]
fn nothing_is_held_for_those_who_have_read() {
    let hub = hub();
    let (one, other) = (Listener::new(&hub, &run(), "reply"), Listener::new(&hub, &run(), "reply"));
    let another = Listener::new(&hub, &run(), "thoughts");
    drop(one);
    assert_eq!(hub.lock().listeners[&run()].len(), 2);
    drop(other);
    assert_eq!(hub.lock().listeners[&run()].len(), 1);
    drop(another);
    assert!(!hub.is_read(&run()));
    let environment: Arc<dyn Environment> = Arc::new(Still);
    let unnamed = StreamReader::<String>::new(&hub, &environment, &run(), "");
    assert!(unnamed.check().is_err() && !hub.is_read(&run()), "there is no such stream");
}
