//! Streams: what bodies send while they run, read while it is sent, after kills and by readers that were cut off.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aether::prelude::*;
use aether::store::Store;
use aether::store::memory::MemoryStore;
use aether::stream::{StreamEvent, StreamText};
use aether_testing::crash::CrashStore;
use tokio::sync::Notify;

use crate::seeds::kit::{Calls, builder, in_time, run_id, stores, take_from_owner};

mod cut;
mod repair;
mod sse;

/// Where bodies stop and wait for their end, and how many of them came there.
#[derive(Clone, Default)]
struct Cut {
    at: Arc<AtomicUsize>,
    reached: Arc<Notify>,
    goes_on: Arc<Notify>,
}

impl Cut {
    /// Nobody stops.
    fn never() -> Self {
        Self { at: Arc::new(AtomicUsize::new(usize::MAX)), ..Self::default() }
    }

    /// Whoever has stopped goes on.
    fn go_on(&self) {
        self.at.store(usize::MAX, Ordering::SeqCst);
        self.goes_on.notify_one();
    }
}

/// All that a reader gets from number `from` on.
async fn events<W>(run: &RunHandle<W>, from: u64) -> Vec<StreamEvent<String>> {
    let (mut reader, mut events) = (run.stream::<String>("reply").from(from), Vec::new());
    while let Some(event) = in_time(reader.next()).await.unwrap() {
        events.push(event);
    }
    events
}

fn text_of(events: &[StreamEvent<String>]) -> String {
    let mut text = StreamText::default();
    events.iter().for_each(|event| text.apply(event));
    text.to_string()
}

fn words(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("w{n}é ")).collect()
}

/// Say so many words, one after the other.
#[step(effect = "read")]
async fn say(cx: &mut StepCx, count: usize) -> Result<String> {
    let cut = cx.dep::<Cut>()?;
    let reply = cx.stream("reply");
    for (n, word) in words(count).iter().enumerate() {
        if n == cut.at.load(Ordering::SeqCst) {
            cut.reached.notify_one();
            cut.goes_on.notified().await;
        }
        reply.send(word);
    }
    Ok(words(count).concat())
}

/// Fail twice, each time after a word.
#[step(effect = "read", retry(max_retries = 2, delay = "1ms"))]
async fn stammer(cx: &mut StepCx, lasts: bool) -> Result<String> {
    let reply = cx.stream("reply");
    reply.send(&format!("try {}", cx.attempt()));
    if lasts || cx.attempt() < 2 { Err(Failure::retryable("again")) } else { Ok("try 2".to_owned()) }
}

#[workflow]
async fn answer(cx: &mut Cx, count: usize) -> Result<String> {
    Ok(say(cx, count).await?)
}

#[workflow]
async fn try_to_answer(cx: &mut Cx, lasts: bool) -> Result<String> {
    Ok(stammer(cx, lasts).await.unwrap_or_default())
}

/// Reads until a body stands at its cut and all that it sent was read.
async fn read_until(run: &RunHandle<answer>, text: &str) -> Vec<StreamEvent<String>> {
    let (mut reader, mut seen, mut events) =
        (run.stream::<String>("reply"), StreamText::default(), Vec::new());
    while seen.to_string() != text {
        let event = in_time(reader.next()).await.unwrap().unwrap();
        seen.apply(&event);
        events.push(event);
    }
    events
}

fn seq_of(event: &StreamEvent<String>) -> u64 {
    match event {
        StreamEvent::Chunk { seq, .. }
        | StreamEvent::Restarted { seq, .. }
        | StreamEvent::Committed { seq, .. } => *seq,
        _ => u64::MAX - 1,
    }
}

/// What a reader has that had taken in `before`, was cut off there, and continues with `run`.
async fn continued<W>(run: &RunHandle<W>, before: &[StreamEvent<String>]) -> String {
    let mut text = StreamText::default();
    before.iter().for_each(|event| text.apply(event));
    let mut reader = run.stream::<String>("reply").from(before.last().map_or(0, seq_of) + 1);
    while let Some(event) = in_time(reader.next()).await.unwrap() {
        text.apply(&event);
    }
    text.to_string()
}

#[tokio::test]
async fn the_text_of_a_stream_is_the_outcome_wherever_process_and_reader_are_cut() {
    const WORDS: usize = 12;
    for make in stores() {
        for killed_at in 0..WORDS {
            let place = make();
            let cut = Cut::default();
            cut.at.store(killed_at, Ordering::SeqCst);
            let dying = Arc::new(CrashStore::new(place.store.clone(), None));
            let first = builder(&(dying.clone() as Arc<dyn Store>), &Calls::default()).provide(cut.clone());
            let first = first.start().await.unwrap();
            let run = first.start::<answer>(WORDS).id("a").await.unwrap();
            let before = read_until(&run, &words(killed_at).concat()).await;
            in_time(cut.reached.notified()).await;
            dying.crash();
            drop((run, first));
            let held = place.store.run(&run_id("a")).await.unwrap().unwrap();
            take_from_owner(&place.store, &held, aether::jiff::Timestamp::UNIX_EPOCH).await;

            cut.at.store(usize::MAX, Ordering::SeqCst);
            let store = place.again();
            let second = builder(&store, &Calls::default()).provide(cut).start().await.unwrap();
            let run = second.handle::<answer>("a").await.unwrap();
            let outcome = in_time(run.result()).await.unwrap();
            for read in 0..=before.len() {
                let text = continued(&run, &before[..read]).await;
                assert_eq!(text, outcome, "killed at {killed_at}, the reader after {read} events");
            }
            second.shutdown().await.unwrap();
        }
    }
}

#[tokio::test]
async fn what_failed_attempts_sent_does_not_count() {
    for make in stores() {
        let place = make();
        let engine = builder(&place.store, &Calls::default()).provide(Cut::default()).start().await.unwrap();
        for (id, lasts, expected) in [("a", false, "try 2"), ("b", true, "")] {
            let run = engine.start::<try_to_answer>(lasts).id(id).await.unwrap();
            let live = tokio::spawn(run.stream::<String>("reply").text().whole());
            assert_eq!(in_time(run.result()).await.unwrap(), expected);
            assert_eq!(in_time(live).await.unwrap().unwrap(), expected);
        }
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn a_client_reads_what_another_engine_writes_and_the_journal_does_not_grow() {
    for make in stores() {
        let place = make();
        let cut = Cut::never();
        let client = builder(&place.again(), &Calls::default()).client().start().await.unwrap();
        let run = client.start::<answer>(40).id("a").await.unwrap();
        let text = tokio::spawn(run.stream::<String>("reply").text().whole());
        let engine = builder(&place.store, &Calls::default()).provide(cut).start().await.unwrap();
        assert_eq!(in_time(text).await.unwrap().unwrap(), words(40).concat());
        let frames = place.store.load(&run_id("a"), 0).await.unwrap();
        let journal: String = frames.into_iter().map(|frame| frame.text).collect();
        assert_eq!(journal.matches("w39é").count(), 2, "the outcomes of step and run");
        engine.shutdown().await.unwrap();
        client.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn a_tail_begins_with_a_command() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let cut = Cut::never();
    let engine = builder(&store, &Calls::default()).provide(cut).start().await.unwrap();
    let run = engine.start::<answer>(5).id("a").await.unwrap();
    in_time(run.result()).await.unwrap();
    let whole = in_time(run.stream::<String>("reply").tail(1).text().whole()).await.unwrap();
    assert_eq!(whole, words(5).concat());
    let missing = engine.handle::<answer>("nobody").await;
    assert!(missing.is_err());
    engine.shutdown().await.unwrap();
}

/// Send to streams of all sorts of names.
#[step(effect = "read")]
async fn say_to(cx: &mut StepCx, names: Vec<String>) -> Result<usize> {
    names.iter().for_each(|name| cx.stream(name).send("word"));
    Ok(names.len())
}

#[workflow]
async fn announce(cx: &mut Cx, names: Vec<String>) -> Result<usize> {
    Ok(say_to(cx, names).await?)
}

#[tokio::test]
async fn a_name_that_no_stream_can_have_takes_no_other_stream_along() {
    for place in stores() {
        let place = place();
        let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
        let names = ["a".repeat(3000), String::new(), "a\0b".to_owned(), "x".repeat(200), "reply".to_owned()];
        let run = engine.start::<announce>(names.to_vec()).id("a").await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), names.len());
        for (name, text) in names.iter().zip(["", "", "", "word", "word"]) {
            let whole = in_time(run.stream::<String>(name).text().whole()).await;
            match whole {
                Ok(whole) => assert_eq!(whole, text, "{} bytes", name.len()),
                Err(error) => assert!(text.is_empty(), "{error}"),
            }
        }
        engine.shutdown().await.unwrap();
    }
}
