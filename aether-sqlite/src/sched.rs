//! How the threads of a store meet: channels, time and spawning.
//!
//! Promise: in a normal build these are names of `crossbeam-channel`'s and `std`'s own. Under `--cfg aether_dst` they are
//! tasks, channels and a clock of `aether-dst`, so that the writer's loop runs under its scheduler.

pub(crate) use std::thread::{JoinHandle, sleep, yield_now};
pub(crate) use std::time::Instant;

pub(crate) use crossbeam_channel::{Receiver, Sender, TryRecvError, unbounded};

/// How long the writer stays awake for what is about to come.
pub(crate) const SOON: std::time::Duration = std::time::Duration::from_micros(50);

/// Whether the exploration of schedules has put a known fault back, to see that it is found. Never in a normal build.
pub(crate) const fn mutated(_fault: &str) -> bool {
    false
}

/// Starts a thread of this name.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.into()).spawn(work)
}
