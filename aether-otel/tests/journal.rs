//! What the journals say, read without the code under test.

use std::collections::BTreeMap;

use aether::prelude::*;
use aether_core::id::RunId;
use aether_core::journal::event::Event;
use jiff::Timestamp;
use opentelemetry_proto::tonic::trace::v1::Span;

use crate::collector::text;

/// All events of a run with their times.
pub(crate) async fn events(engine: &Engine, run: &RunId) -> Vec<(Timestamp, Event)> {
    let frames = engine.store().load(run, 0).await.unwrap();
    let events = |frame: &aether_core::journal::StoredFrame| {
        let at = frame.at;
        frame.events().unwrap().into_iter().map(move |event| (at, event))
    };
    frames.iter().flat_map(events).collect()
}

/// Begin and end of everything whose beginning and end the journal has, by the name of a span's kind and its command.
pub(crate) fn times(events: &[(Timestamp, Event)]) -> BTreeMap<String, (Timestamp, Timestamp)> {
    let (mut begun, mut times) = (BTreeMap::<String, Timestamp>::new(), BTreeMap::new());
    for (at, event) in events {
        let began = match event {
            Event::RunCreated(_) => Some("run".to_owned()),
            Event::ToolInvocationStarted(e) => Some(format!("aether.attempt {} {}", e.attempt, e.command)),
            Event::CommandEmitted(e) => Some(format!("aether.attempt {} {}", e.attempt, e.command)),
            Event::TimerScheduled(e) => Some(format!("aether.wait timer {}", e.command)),
            Event::WaitStarted(e) => Some(format!("aether.wait signal {}", e.command)),
            _ => None,
        };
        begun.extend(began.map(|name| (name, *at)));
        let ended = match event {
            Event::CommandCommitted(e) => vec![format!("aether.attempt 0 {}", e.command)],
            Event::TimerFired(e) => vec![format!("aether.wait timer {}", e.command)],
            Event::WaitCompleted(e) => vec![format!("aether.wait signal {}", e.command)],
            Event::RunCompleted(_) | Event::RunFailed(_) => vec!["run".to_owned()],
            _ => Vec::new(),
        };
        for name in ended {
            if let Some(begun) = begun.get(&name) {
                times.insert(name, (*begun, *at));
            }
        }
    }
    times
}

/// The name of a span as [`times`] has it.
pub(crate) fn named(span: &Span) -> String {
    match span.name.starts_with("invoke_workflow") && text(span, "aether.command").is_empty() {
        true => "run".to_owned(),
        false => format!("{} {}", span.name, text(span, "aether.command")),
    }
}

/// Demands that spans begin and end within a millisecond of what the journal says. Returns how many were compared.
pub(crate) fn assert_same_times<'a>(
    times: &BTreeMap<String, (Timestamp, Timestamp)>,
    spans: impl IntoIterator<Item = &'a Span>,
) -> usize {
    let mut compared = 0;
    for span in spans {
        let Some((begun, ended)) = times.get(&named(span)) else { continue };
        let nanos = |at: &Timestamp| u64::try_from(at.as_nanosecond()).unwrap();
        assert!(
            span.start_time_unix_nano.abs_diff(nanos(begun)) < 1_000_000,
            "{}: begins otherwise",
            named(span)
        );
        assert!(
            span.end_time_unix_nano.abs_diff(nanos(ended)) < 1_000_000,
            "{}: ends otherwise",
            named(span)
        );
        compared += 1;
    }
    compared
}
