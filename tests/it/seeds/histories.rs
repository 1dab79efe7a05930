//! Row 103: histories of every released format load for ever. `tests/histories/v1` holds them, as stores keep them.
//!
//! A history is never edited. To add one that a run of today's code writes, set `AETHER_WRITE_HISTORIES` and run these
//! tests; a file that exists is left alone.

use std::collections::BTreeSet;
use std::path::PathBuf;

use aether::store::event::Event;
use aether::store::journal::{Frame, StoredFrame, read_verified};
use aether::view::RunView;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::callbacks::{people, seed_words};
use super::chain::seed_chain;
use super::everything::{Outside, seed_everything};
use super::kit::{Calls, Journal, Place, Rows, builder, in_time, run_id, stores};

/// A history as it stands in a file.
#[derive(Deserialize)]
struct History {
    run: String,
    frames: Vec<HistoryFrame>,
}

/// One frame; its events are kept byte for byte.
#[derive(Deserialize)]
struct HistoryFrame {
    position: u64,
    at_micros: i64,
    epoch: u64,
    chain: String,
    events: Box<RawValue>,
}

impl HistoryFrame {
    fn stored(&self) -> StoredFrame {
        let byte = |at| u8::from_str_radix(&self.chain[2 * at..2 * at + 2], 16).unwrap();
        StoredFrame {
            position: self.position,
            at: Timestamp::from_microsecond(self.at_micros).unwrap(),
            epoch: self.epoch,
            text: self.events.get().to_owned(),
            chain: std::array::from_fn(byte),
            decoded: None,
        }
    }
}

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/histories/v1").join(name).with_extension("json")
}

fn history(name: &str) -> (Vec<StoredFrame>, Journal) {
    let text = std::fs::read_to_string(file(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let history: History = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
    let frames: Vec<_> = history.frames.iter().map(HistoryFrame::stored).collect();
    let events = read_verified(&frames).unwrap_or_else(|error| panic!("{name}: {error}"));
    (frames, Journal { run: history.run, events })
}

/// Every history there is.
fn names() -> Vec<String> {
    let folder = std::fs::read_dir(file("x").parent().unwrap()).unwrap();
    let mut names: Vec<_> = folder
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

pub(crate) async fn write_where_missing(name: &str, run: &str, place: &Place) {
    if std::env::var_os("AETHER_WRITE_HISTORIES").is_none() || file(name).exists() {
        return;
    }
    let frames = place.store.load(&run_id(run), 0).await.unwrap();
    let line = |frame: &StoredFrame| {
        let chain: String = frame.chain.iter().map(|byte| format!("{byte:02x}")).collect();
        let (position, at, epoch, text) =
            (frame.position, frame.at.as_microsecond(), frame.epoch, &frame.text);
        format!(
            r#"  {{"position":{position},"at_micros":{at},"epoch":{epoch},"chain":"{chain}","events":{text}}}"#
        )
    };
    let lines: Vec<_> = frames.iter().map(line).collect();
    let text = format!("{{\"run\":\"{run}\",\"frames\":[\n{}\n]}}\n", lines.join(",\n"));
    std::fs::write(file(name), text).unwrap();
}

#[test]
fn s103_every_history_loads_and_is_written_today_as_it_was_then() {
    assert!(names().len() >= 4, "{:?}", names());
    for name in names().iter().filter(|name| *name != "from_the_future") {
        let (frames, journal) = history(name);
        for frame in &frames {
            let events = frame.events().unwrap();
            assert!(!events.iter().any(|event| matches!(event, Event::Unknown { .. })), "{name}");
            assert_eq!(Frame::encode(&events).unwrap().text, frame.text, "{name}");
        }
        let view = RunView::fold(run_id(&journal.run), journal.events.clone());
        assert_eq!(view.position, journal.events.len() as u64);
        assert!(!view.workflow.is_empty());
    }
}

/// Kinds and numbers as released. Lines are added, never changed.
const RELEASED: &str = include_str!("event_kinds.golden");

#[test]
fn s103_no_kind_is_missing_from_the_histories_and_none_has_changed() {
    let recorded: BTreeSet<_> = names().iter().flat_map(|name| history(name).1.kinds()).collect();
    let numbered: BTreeSet<_> = names()
        .iter()
        .flat_map(|name| history(name).1.events)
        .map(|event| format!("{} {}", event.number(), event.kind()))
        .collect();
    for (number, name) in Event::KINDS {
        let known = numbered.iter().any(|line| line.starts_with(&format!("{number} ")));
        assert!(known, "no history holds the kind {name} ({number})");
    }
    for line in RELEASED.lines() {
        assert!(numbered.contains(line), "{line} is no longer what it was: {numbered:?}");
    }
    assert_eq!(RELEASED.lines().count(), Event::KINDS.len(), "a new kind belongs into event_kinds.golden");
    assert!(recorded.contains("moon_landed"));
}

#[test]
fn s103_unknown_kinds_and_fields_are_ignored() {
    let (_, journal) = history("from_the_future");
    let kinds =
        ["run_created", "moon_landed", "time_recorded", "node_started", "command_committed", "node_finished"];
    assert_eq!(journal.kinds(), kinds);
    assert!(matches!(&journal.events[1], Event::Unknown { kind } if kind == "moon_landed"));
    let view = RunView::fold(run_id("future"), journal.events);
    assert_eq!((view.position, view.steps.len(), view.completed().len()), (6, 2, 2));
}

/// What was recorded by the first release is replayed by today's code.
#[tokio::test]
async fn s103_recorded_runs_of_old_replay_on_todays_code() {
    let (first, outside) = (Place::memory(), Outside::new().await);
    let (engine, ..) = outside.run(&first).await;
    write_where_missing("everything", "all", &first).await;
    let run = engine.start::<seed_chain>(7).id("chain").await.unwrap();
    in_time(run.result()).await.unwrap();
    write_where_missing("chain", "chain", &first).await;
    let said = people(&first).await;
    write_where_missing("people", "people", &first).await;

    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        for name in ["everything", "chain", "people"] {
            history(name).1.plant(&place.store, Rows::Follow).await;
        }
        let engine = builder(&place.store, &calls).start().await.unwrap();
        engine.verify(&run_id("chain")).await.unwrap();
        engine.verify(&run_id("all")).await.unwrap();
        engine.verify(&run_id("people")).await.unwrap();
        let run = engine.handle::<seed_words>("people").await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), said);
        assert_eq!(calls.all(), 0);
        let run = engine.handle::<seed_everything>("all").await.unwrap();
        assert!(in_time(run.result()).await.unwrap().0.contains("search, then answer"));
    }
}
