//! Streams: what bodies send while they run, and its readers.
//!
//! Promise: the recorded outcome stays the only truth, and a stream is a view of how it came about. Nobody waits for a
//! chunk but the end of the body that sent it, a chunk is read only after it was accepted at the epoch of the run's worker,
//! and losing all streams changes no outcome. Imports `store` and below.

pub(crate) mod event;
pub(crate) mod execution;
pub(crate) mod hub;
mod listener;
pub(crate) mod reader;
pub(crate) mod sender;

pub use event::{StreamError, StreamEvent, StreamText};
pub use reader::{StreamReader, StreamTextReader};
pub use sender::StreamSender;
