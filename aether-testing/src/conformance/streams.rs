//! Rules about streams.

use std::sync::Arc;

use aether_core::contract::Status;
use aether_core::id::{CommandId, Epoch};
use aether_core::store::{Store, StreamEnd, StreamItem, StreamKind, StreamWrite};

use super::kit::{Hand, at, becomes, digest, json, run_id, takeover};
use super::renewal::renewal;

const STREAM: &str = "reply";

fn command(name: &str) -> CommandId {
    CommandId::new("0", name)
}

fn chunk(name: &str, epoch: Epoch, part: u32, items: &str) -> StreamWrite {
    let (run, command, stream, items) = (run_id("a"), command(name), STREAM.to_owned(), json(items));
    StreamWrite { run, epoch, command, attempt: 0, at: at(7), stream, execution: 1, part, items }
}

/// The same of the execution of this number.
fn of_execution(execution: u64, write: StreamWrite) -> StreamWrite {
    StreamWrite { execution, ..write }
}

/// The command has ended, and keeps these streams.
fn end(name: &str, keeps: Option<&[&str]>) -> StreamEnd {
    let keeps = keeps.map(|keeps| keeps.iter().map(|name| (*name).to_owned()).collect());
    StreamEnd { command: command(name), attempt: 0, keeps, digest: Some(digest("1")) }
}

async fn wrote(store: &Arc<dyn Store>, write: StreamWrite) -> Option<Vec<StreamItem>> {
    store.write_streams(vec![write]).await.unwrap().pop().unwrap()
}

/// Number, first number, kind and data of each item.
async fn items(store: &Arc<dyn Store>) -> Vec<(u64, u64, StreamKind, String)> {
    let items = store.stream(&run_id("a"), STREAM, 0, 100).await.unwrap();
    items.into_iter().map(|item| (item.seq, item.since, item.kind, item.data.as_str().to_owned())).collect()
}

/// Numbers and kinds of the items.
async fn kinds(store: &Arc<dyn Store>) -> Vec<(u64, StreamKind)> {
    items(store).await.into_iter().map(|(seq, _, kind, _)| (seq, kind)).collect()
}

/// Chunks are numbered from 1 in each stream and read back, in pages.
pub async fn chunks_are_numbered(store: &Arc<dyn Store>) {
    Hand::create(store, "a").await;
    let first = wrote(store, chunk("x", 1, 0, r#"["é"]"#)).await.unwrap();
    assert_eq!(wrote(store, chunk("x", 1, 1, "[1,2]")).await.map(|items| items.len()), Some(1));
    let other = StreamWrite { stream: "other".into(), ..chunk("x", 1, 0, "[3]") };
    assert_eq!(wrote(store, other).await.unwrap()[0].seq, 1);
    assert_eq!(store.stream(&run_id("a"), STREAM, 0, 1).await, Ok(first.clone()));
    let found = (first[0].seq, first[0].since, first[0].kind, first[0].at, first[0].epoch, first[0].attempt);
    assert_eq!(found, (1, 1, StreamKind::Chunk, at(7), 1, 0));
    assert_eq!((&*first[0].stream, first[0].data.as_str()), (STREAM, r#"["é"]"#));
    let rest = store.stream(&run_id("a"), STREAM, 1, 100).await.unwrap();
    assert_eq!(rest.iter().map(|item| item.seq).collect::<Vec<_>>(), [2]);
    assert_eq!(store.stream(&run_id("a"), "nothing", 0, 9).await, Ok(Vec::new()));
    assert_eq!(store.stream(&run_id("nobody"), STREAM, 0, 9).await, Ok(Vec::new()));
}

/// Chunks of several runs, streams and commands are written by one call, in its order.
pub async fn chunks_are_written_together(store: &Arc<dyn Store>) {
    for name in ["a", "b", "c"] {
        Hand::create(store, name).await;
    }
    let of = |run: &str, write: StreamWrite| StreamWrite { run: run_id(run), ..write };
    let other = StreamWrite { stream: "other".into(), ..chunk("x", 1, 0, "[4]") };
    let all = vec![
        of("c", chunk("x", 1, 0, "[0]")),
        chunk("x", 1, 0, "[1]"),
        chunk("y", 1, 0, "[2]"),
        of("b", chunk("x", 1, 0, "[3]")),
        other,
        chunk("x", 1, 1, "[5]"),
        of_execution(2, chunk("x", 1, 0, "[6]")),
    ];
    let answers = store.write_streams(all).await.unwrap();
    let seqs =
        |items: &Option<Vec<StreamItem>>| items.iter().flatten().map(|item| item.seq).collect::<Vec<_>>();
    assert_eq!(
        answers.iter().map(seqs).collect::<Vec<_>>(),
        [vec![1], vec![1], vec![2], vec![1], vec![1], vec![3], vec![4, 5]]
    );
    let all = [
        (2, 2, StreamKind::Chunk, "[2]".to_owned()),
        (4, 1, StreamKind::Restarted, "null".to_owned()),
        (5, 5, StreamKind::Chunk, "[6]".to_owned()),
    ];
    assert_eq!(items(store).await, all);
    assert_eq!(store.write_streams(Vec::new()).await, Ok(Vec::new()));
}

/// A chunk is written once, and only behind the one before it: what comes late does not begin anything.
pub async fn a_chunk_is_written_once(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    for (part, count) in [(0, 1), (1, 1), (1, 0), (3, 0)] {
        let written = wrote(store, chunk("x", 1, part, "[0]")).await;
        assert_eq!(written.map(|items| items.len()), Some(count), "part {part}");
    }
    assert_eq!(items(store).await.len(), 2);
    assert_eq!(wrote(store, chunk("y", 1, 1, "[0]")).await, Some(Vec::new()));
    hand.append(|append| append.streams = vec![end("x", None)]).await.unwrap();
    assert_eq!(wrote(store, chunk("x", 1, 2, "[0]")).await, Some(Vec::new()));
    assert_eq!(kinds(store).await, [(2, StreamKind::Folded), (3, StreamKind::Committed)]);
}

/// Writes of another epoch, of ended runs and of unknown ones are refused, and leave the others alone.
pub async fn another_epoch_is_refused(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    let all = vec![
        chunk("x", 2, 0, "[2]"),
        chunk("x", 1, 0, "[1]"),
        chunk("x", 0, 1, "[0]"),
        StreamWrite { run: run_id("nobody"), ..chunk("x", 1, 0, "[0]") },
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
    let again = wrote(store, of_execution(2, chunk("x", 1, 0, "[4]"))).await.unwrap();
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
    let mut hand = Hand::create(store, "a").await;
    let chunks = [
        chunk("x", 1, 0, "[0]"),
        of_execution(2, chunk("x", 1, 0, r#"["a]","b"]"#)),
        chunk("y", 1, 0, "[9]"),
        of_execution(2, chunk("x", 1, 1, "[[1]]")),
    ];
    for write in chunks {
        wrote(store, write).await.unwrap();
    }
    assert_eq!(store.open_streams(&run_id("a")).await, Ok(vec![command("x"), command("y")]));
    hand.append(|append| append.streams = vec![end("x", Some(&[STREAM]))]).await.unwrap();
    let all = [
        (4, 4, StreamKind::Chunk, "[9]".to_owned()),
        (5, 1, StreamKind::Folded, r#"["a]","b",[1]]"#.to_owned()),
        (6, 6, StreamKind::Committed, format!("\"{}\"", digest("1").as_str())),
    ];
    assert_eq!(items(store).await, all);
    assert_eq!(store.open_streams(&run_id("a")).await, Ok(vec![command("y")]));
    hand.append(|append| append.streams = vec![end("x", None)]).await.unwrap();
    assert_eq!(items(store).await, all, "nothing of it was open");
    // The same command in the next generation of the run. What a codec makes of a digest is any text.
    wrote(store, of_execution(3, chunk("x", 1, 0, "[5]"))).await.unwrap();
    let text = serde_json::Value::from(r#"{"key":"\\ é"}"#);
    let digest = serde_json::from_value(text.clone()).ok();
    hand.append(|append| {
        append.streams = vec![StreamEnd { digest, ..end("x", None) }];
        append.renews = Some(renewal(0));
    })
    .await
    .unwrap();
    let all = items(store).await;
    assert_eq!((all.len(), &all[4].2, &all[4].3), (5, &StreamKind::Committed, &text.to_string()));
    assert_eq!(store.open_streams(&run_id("nobody")).await, Ok(Vec::new()));
}

/// What a command sent does not count where its outcome does not come of it.
pub async fn an_end_drops(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    wrote(store, chunk("x", 1, 0, "[0]")).await.unwrap();
    wrote(store, chunk("x", 1, 1, "[1]")).await.unwrap();
    hand.append(|append| append.streams = vec![end("x", Some(&["other"]))]).await.unwrap();
    assert_eq!(items(store).await, [(3, 1, StreamKind::Restarted, "null".to_owned())]);
    assert_eq!(store.open_streams(&run_id("a")).await, Ok(Vec::new()));
    wrote(store, of_execution(2, chunk("x", 1, 0, "[2]"))).await.unwrap();
    assert_eq!(items(store).await.first().map(|item| (item.0, item.1)), Some((4, 1)));
    let failed = StreamEnd { digest: None, ..end("x", None) };
    let completed = becomes(Status::Completed, None, true);
    hand.append(|append| (append.streams, append.status) = (vec![failed], Some(completed))).await.unwrap();
    assert_eq!(items(store).await, [(6, 1, StreamKind::Restarted, "null".to_owned())]);
}

/// Several appends that end commands of one stream at about the same time: each says its own, and no later attempt is ended
/// by what was appended before it began.
pub async fn ends_come_together(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    for name in ["x", "y", "z"] {
        wrote(store, chunk(name, 1, 0, &format!("[\"{name}\"]"))).await.unwrap();
    }
    hand.silent(|append| append.streams = vec![end("x", Some(&[])), end("y", None)]);
    hand.silent(|append| append.streams = vec![end("x", None)]);
    let second = StreamWrite { attempt: 1, ..of_execution(2, chunk("z", 1, 0, "[2]")) };
    wrote(store, second).await.unwrap();
    hand.append(|append| append.streams = vec![end("z", None)]).await.unwrap();
    let text = |kind: StreamKind, items: &[(u64, u64, StreamKind, String)]| {
        let of = items.iter().filter(|item| item.2 == kind);
        of.map(|item| item.3.clone()).collect::<Vec<_>>()
    };
    let all = items(store).await;
    assert_eq!(text(StreamKind::Chunk, &all), ["[2]"], "{all:?}");
    let folded = text(StreamKind::Folded, &all);
    assert!(folded.contains(&"[\"y\"]".to_owned()), "{all:?}");
    assert!(all.iter().map(|item| item.0).is_sorted_by(|one, next| one < next), "{all:?}");
    assert_eq!(store.open_streams(&run_id("a")).await.map(|open| open.contains(&command("z"))), Ok(true));
}

/// What was given up and is written late takes the place of nothing: neither of what a later execution sent, open or ended,
/// nor of what its own execution sent behind it. In another epoch numbers begin anew.
pub async fn a_late_write_replaces_nothing(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    let (first, second) = (
        |part, items| chunk("x", 1, part, items),
        |part, items| StreamWrite { attempt: 1, ..of_execution(2, chunk("x", 1, part, items)) },
    );
    wrote(store, first(0, "[1]")).await.unwrap();
    wrote(store, first(1, "[2]")).await.unwrap();
    for late in [first(0, "[1]"), first(1, "[2]")] {
        assert_eq!(wrote(store, late).await, Some(Vec::new()), "it is written already");
    }
    wrote(store, second(0, "[3]")).await.unwrap();
    for late in [first(0, "[1]"), first(1, "[2]"), first(2, "[9]"), second(0, "[3]")] {
        assert_eq!(wrote(store, late).await, Some(Vec::new()));
    }
    wrote(store, second(1, "[4]")).await.unwrap();
    let ended = StreamEnd { attempt: 1, ..end("x", None) };
    hand.append(|append| append.streams = vec![ended]).await.unwrap();
    for late in [first(0, "[1]"), second(0, "[3]"), second(1, "[4]")] {
        assert_eq!(wrote(store, late).await, Some(Vec::new()), "its command has ended");
    }
    let data: Vec<_> = items(store).await.into_iter().map(|item| item.3).collect();
    assert_eq!(data, ["[3,4]".to_owned(), format!("\"{}\"", digest("1").as_str())]);
    // Of a command that failed nothing is left but the mark.
    wrote(store, chunk("y", 1, 0, "[5]")).await.unwrap();
    let failed = StreamEnd { digest: None, ..end("y", None) };
    hand.append(|append| append.streams = vec![failed]).await.unwrap();
    assert_eq!(wrote(store, chunk("y", 1, 0, "[5]")).await, Some(Vec::new()));
    if let Some(lease) = store.claim(takeover("w2", 100, "w1", 0)).await.unwrap().first() {
        let written = wrote(store, chunk("y", lease.run.epoch, 0, "[6]")).await;
        assert_eq!(written.map(|items| items.len()), Some(2));
    }
}

/// What a refused append says of streams has no effect.
pub async fn a_refused_append_ends_nothing(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    wrote(store, chunk("x", 1, 0, "[0]")).await.unwrap();
    let mut stale = Hand::of(store, "a", 9, hand.next);
    stale.append(|append| append.streams = vec![end("x", None)]).await.unwrap_err();
    let mut early = Hand::of(store, "a", 1, hand.next + 3);
    early.append(|append| append.streams = vec![end("x", None)]).await.unwrap_err();
    assert_eq!(kinds(store).await, [(1, StreamKind::Chunk)]);
    hand.append(|append| append.streams = vec![end("x", None)]).await.unwrap();
    assert_eq!(kinds(store).await, [(1, StreamKind::Folded), (2, StreamKind::Committed)]);
}

/// Streams go with their run.
pub async fn a_purged_run_has_no_streams(store: &Arc<dyn Store>) {
    let mut hand = Hand::create(store, "a").await;
    wrote(store, chunk("x", 1, 0, "[0]")).await.unwrap();
    hand.status(becomes(Status::Completed, None, true)).await;
    store.purge(&run_id("a"), None).await.unwrap();
    assert_eq!(items(store).await, []);
}
