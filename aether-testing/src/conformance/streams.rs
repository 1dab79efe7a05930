//! Rules about streams.

use std::sync::Arc;

use aether_core::contract::Status;
use aether_core::id::{CommandId, Epoch};
use aether_core::store::{Store, StreamChange, StreamItem, StreamKind, StreamWrite};

use super::kit::{Hand, at, becomes, digest, json, run_id, takeover};

const STREAM: &str = "reply";

fn write(run: &str, epoch: Epoch, command: &str, change: StreamChange) -> StreamWrite {
    let command = CommandId::new("0", command);
    StreamWrite { run: run_id(run), epoch, command, attempt: 0, at: at(7), change }
}

fn chunk(command: &str, epoch: Epoch, part: u32, items: &str) -> StreamWrite {
    let change = StreamChange::Chunk { stream: STREAM.into(), part, items: json(items) };
    write("a", epoch, command, change)
}

fn end(command: &str, keeps: Option<&[&str]>) -> StreamWrite {
    let keeps = keeps.map(|keeps| keeps.iter().map(|name| (*name).to_owned()).collect());
    write("a", 1, command, StreamChange::End { keeps, digest: digest("1") })
}

async fn wrote(store: &Arc<dyn Store>, write: StreamWrite) -> Option<Vec<StreamItem>> {
    store.write_streams(vec![write]).await.unwrap().pop().unwrap()
}

/// Number, first number, kind and data of each item.
async fn items(store: &Arc<dyn Store>) -> Vec<(u64, u64, StreamKind, String)> {
    let items = store.stream(&run_id("a"), STREAM, 0, 100).await.unwrap();
    items.into_iter().map(|item| (item.seq, item.since, item.kind, item.data.as_str().to_owned())).collect()
}

/// Chunks are numbered from 1 in each stream and read back, in pages.
pub async fn chunks_are_numbered(store: &Arc<dyn Store>) {
    Hand::create(store, "a").await;
    let first = wrote(store, chunk("x", 1, 0, r#"["é"]"#)).await.unwrap();
    assert_eq!(wrote(store, chunk("x", 1, 1, "[1,2]")).await.map(|items| items.len()), Some(1));
    let other = StreamChange::Chunk { stream: "other".into(), part: 0, items: json("[3]") };
    assert_eq!(wrote(store, write("a", 1, "x", other)).await.unwrap()[0].seq, 1);
    assert_eq!(store.stream(&run_id("a"), STREAM, 0, 1).await, Ok(first.clone()));
    let found = (first[0].seq, first[0].since, first[0].kind, first[0].at, first[0].epoch, first[0].attempt);
    assert_eq!(found, (1, 1, StreamKind::Chunk, at(7), 1, 0));
    assert_eq!((&*first[0].stream, first[0].data.as_str()), (STREAM, r#"["é"]"#));
    let rest = store.stream(&run_id("a"), STREAM, 1, 100).await.unwrap();
    assert_eq!(rest.iter().map(|item| item.seq).collect::<Vec<_>>(), [2]);
    assert_eq!(store.stream(&run_id("a"), "nothing", 0, 9).await, Ok(Vec::new()));
    assert_eq!(store.stream(&run_id("nobody"), STREAM, 0, 9).await, Ok(Vec::new()));
}

/// A chunk that was written before is not written again.
pub async fn a_chunk_is_written_once(store: &Arc<dyn Store>) {
    Hand::create(store, "a").await;
    for (part, count) in [(0, 1), (1, 1), (1, 0)] {
        assert_eq!(wrote(store, chunk("x", 1, part, "[0]")).await.map(|items| items.len()), Some(count));
    }
    assert_eq!(items(store).await.len(), 2);
    assert_eq!(wrote(store, chunk("y", 1, 1, "[0]")).await.map(|items| items.len()), Some(1));
}

/// Writes of another epoch, of ended runs and of unknown ones are refused, and leave the others alone.
pub async fn another_epoch_is_refused(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    let unknown = StreamChange::Chunk { stream: STREAM.into(), part: 0, items: json("[0]") };
    let all = vec![
        chunk("x", 2, 0, "[2]"),
        chunk("x", 1, 0, "[1]"),
        chunk("x", 0, 1, "[0]"),
        write("nobody", 1, "x", unknown),
        chunk("x", 1, 1, "[1]"),
    ];
    let answers = store.write_streams(all).await.unwrap();
    assert_eq!(answers.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, false, false, true]);
    let leases = store.claim(takeover("w2", 100, "w1", 0)).await.unwrap();
    if let Some(lease) = leases.first() {
        assert_eq!(wrote(store, chunk("x", 1, 2, "[1]")).await, None);
        assert!(wrote(store, chunk("x", lease.run.epoch, 2, "[9]")).await.is_some());
        hand = Hand::of(store, "a", lease.run.epoch, hand.next);
    }
    let epoch = hand.epoch;
    hand.status(becomes(Status::Completed, None, true)).await;
    assert_eq!(wrote(store, chunk("x", epoch, 3, "[1]")).await, None);
}

/// An execution that begins takes the place of the one before, and of no other command's.
pub async fn an_execution_starts_over(store: &Arc<dyn Store>) {
    Hand::create(store, "a").await;
    for write in [chunk("x", 1, 0, "[1]"), chunk("y", 1, 0, "[2]"), chunk("x", 1, 1, "[3]")] {
        wrote(store, write).await.unwrap();
    }
    let again = wrote(store, chunk("x", 1, 0, "[4]")).await.unwrap();
    assert_eq!(
        again.iter().map(|item| item.kind).collect::<Vec<_>>(),
        [StreamKind::Restarted, StreamKind::Chunk]
    );
    let all = [
        (2, 2, StreamKind::Chunk, "[2]".to_owned()),
        (4, 1, StreamKind::Restarted, "null".to_owned()),
        (5, 5, StreamKind::Chunk, "[4]".to_owned()),
    ];
    assert_eq!(items(store).await, all);
}

/// At the end of a command its chunks become one, which stands also for what was given up; those of others stay.
pub async fn an_end_folds(store: &Arc<dyn Store>) {
    Hand::create(store, "a").await;
    let chunks = [
        chunk("x", 1, 0, "[0]"),
        chunk("x", 1, 0, r#"["a]","b"]"#),
        chunk("y", 1, 0, "[9]"),
        chunk("x", 1, 1, "[[1]]"),
    ];
    for write in chunks {
        wrote(store, write).await.unwrap();
    }
    let ended = wrote(store, end("x", Some(&[STREAM]))).await.unwrap();
    assert_eq!(
        ended.iter().map(|item| (item.seq, item.kind)).collect::<Vec<_>>(),
        [(6, StreamKind::Committed)]
    );
    let all = [
        (4, 4, StreamKind::Chunk, "[9]".to_owned()),
        (5, 1, StreamKind::Folded, r#"["a]","b",[1]]"#.to_owned()),
        (6, 6, StreamKind::Committed, format!("\"{}\"", digest("1").as_str())),
    ];
    assert_eq!(items(store).await, all);
    assert_eq!(wrote(store, end("x", None)).await, Some(Vec::new()));
    // The same command in the next generation of the run.
    wrote(store, chunk("x", 1, 0, "[5]")).await.unwrap();
    wrote(store, end("x", None)).await.unwrap();
    assert_eq!(items(store).await.len(), 5);
}

/// What a command sent does not count where its outcome does not come of it.
pub async fn an_end_drops(store: &Arc<dyn Store>) {
    Hand::create(store, "a").await;
    wrote(store, chunk("x", 1, 0, "[0]")).await.unwrap();
    wrote(store, chunk("x", 1, 1, "[1]")).await.unwrap();
    wrote(store, end("x", Some(&["other"]))).await.unwrap();
    assert_eq!(items(store).await, [(3, 1, StreamKind::Restarted, "null".to_owned())]);
    wrote(store, chunk("x", 1, 0, "[2]")).await.unwrap();
    assert_eq!(items(store).await.first().map(|item| (item.0, item.1)), Some((4, 1)));
}

/// Streams go with their run.
pub async fn a_purged_run_has_no_streams(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    wrote(store, chunk("x", 1, 0, "[0]")).await.unwrap();
    hand.status(becomes(Status::Completed, None, true)).await;
    store.purge(&run_id("a")).await.unwrap();
    assert_eq!(items(store).await, []);
}
