//! A stream of a simulated run, as a reader got it who was there all along, through all crashes.
//!
//! Promise: it was read while it was written; nothing is left out, and what does not count is told from what does.

use aether_core::contract::Status;
use aether_core::payload::PayloadError;
use aether_core::store::StreamItem;
use aether_core::stream::{StreamEvent, StreamText};
use serde::de::DeserializeOwned;

/// A stream of a simulated run, from [`SimReport::stream`](crate::SimReport::stream): the events of a reader who was there
/// all along, came back after each crash, and read on to the end.
///
/// ```
/// # use aether::prelude::*;
/// use aether::stream::StreamEvent;
/// # use aether_testing::Sim;
/// # #[workflow] async fn greet(cx: &mut Cx) -> Result<String> { Ok(cx.llm("greet").stream("reply").text().await?) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let report = Sim::new::<greet>().model(|_| "Good morning").run(()).await;
/// let reply = report.stream::<String>("reply");
/// assert_eq!(reply.text(), "Good morning");
/// assert_eq!(reply.items(), ["Good ", "morning"]);
/// assert!(matches!(reply.events().last(), Some(StreamEvent::Closed { .. })));
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SimStream<T> {
    events: Vec<StreamEvent<T>>,
}

impl<T: DeserializeOwned> SimStream<T> {
    /// The stream that a reader of these items got, each behind the one before it. `ended`: how its run ended.
    pub(crate) fn of(items: &[StreamItem], ended: Option<Status>) -> Result<Self, PayloadError> {
        let (mut events, mut after) = (Vec::new(), 0);
        for item in items {
            events.extend(StreamEvent::restarted_by(item, after));
            events.push(StreamEvent::of(item)?);
            after = item.seq;
        }
        events.extend(ended.map(|status| StreamEvent::Closed { status }));
        Ok(Self { events })
    }
}

impl<T> SimStream<T> {
    /// Every event, in order: chunks as they were written, what was started over, what was committed, and the end.
    pub fn events(&self) -> &[StreamEvent<T>] {
        &self.events
    }

    /// The items that count, command by command.
    pub fn items(&self) -> Vec<&T> {
        // A text of numbers: which items count, and in which order they stand, is known to `StreamText` alone.
        let (mut all, mut counting) = (Vec::new(), StreamText::default());
        for event in &self.events {
            match event {
                StreamEvent::Chunk { seq, first, command, items } => {
                    let numbers = (all.len()..).take(items.len()).map(|number| format!("{number} "));
                    let (seq, first, command) = (*seq, *first, command.clone());
                    counting.apply(&StreamEvent::Chunk { seq, first, command, items: numbers.collect() });
                    all.extend(items);
                }
                StreamEvent::Restarted { seq, command, from } => {
                    let (seq, command, from) = (*seq, command.clone(), *from);
                    counting.apply::<String>(&StreamEvent::Restarted { seq, command, from });
                }
                StreamEvent::Committed { seq, command, digest } => {
                    let (seq, command, digest) = (*seq, command.clone(), digest.clone());
                    counting.apply::<String>(&StreamEvent::Committed { seq, command, digest });
                }
                _ => {}
            }
        }
        let counting = counting.to_string();
        let numbers = counting.split_whitespace().filter_map(|number| number.parse::<usize>().ok());
        numbers.filter_map(|number| all.get(number).copied()).collect()
    }
}

impl<T: AsRef<str>> SimStream<T> {
    /// The text of the stream: the items that count, one behind the other.
    pub fn text(&self) -> String {
        self.items().into_iter().map(AsRef::as_ref).collect()
    }
}
