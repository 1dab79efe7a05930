//! What `#[aether::test]` expands to. Not for people.
//!
//! Promise: a test runs on a thread of its own, on a runtime whose time is paused, and does not outlast its limit of
//! real time, even where it never comes back.

use std::future::Future;
use std::process::{ExitCode, Termination};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use aether_core::workflow::Workflow;

use crate::sim::builder::sim::Sim;
use crate::sim::processes::engine::runtime;

/// What a test may take as its argument.
#[diagnostic::on_unimplemented(
    message = "an `#[aether::test]` cannot be given a `{Self}`",
    label = "take nothing, or a simulation: `sim: Sim<my_workflow>`"
)]
pub trait Argument {
    /// Makes the argument of one test.
    fn fresh() -> Self;
}

impl<W: Workflow> Argument for Sim<W> {
    fn fresh() -> Self {
        Self::default()
    }
}

/// Runs a test that returns nothing.
///
/// # Panics
/// When the test does, or when it takes longer than `limit`.
#[track_caller]
pub fn run<F: Future<Output = ()>>(limit: Duration, test: impl FnOnce() -> F + Send + 'static) {
    guarded(limit, move || driven(test()));
}

/// Runs a test that returns something; an error is printed.
///
/// # Panics
/// When the test does, or when it takes longer than `limit`.
#[track_caller]
pub fn run_to_exit<F: Future<Output: Termination>>(
    limit: Duration,
    test: impl FnOnce() -> F + Send + 'static,
) -> ExitCode {
    guarded(limit, move || driven(test()).report())
}

fn driven<F: Future>(test: F) -> F::Output {
    match runtime() {
        Ok(runtime) => runtime.block_on(test),
        Err(error) => panic!("{error}"),
    }
}

/// Works on another thread of this one's name, for no longer than `limit`.
#[track_caller]
fn guarded<T: Send + 'static>(limit: Duration, work: impl FnOnce() -> T + Send + 'static) -> T {
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    let (done, waited) = channel();
    let thread = std::thread::Builder::new().name(name.clone()).spawn(move || {
        // An error: the test took too long and was given up.
        let _sent = done.send(work());
    });
    let thread = match thread {
        Ok(thread) => thread,
        Err(error) => panic!("no thread for test `{name}`: {error}"),
    };
    match waited.recv_timeout(limit) {
        Ok(value) => value,
        Err(RecvTimeoutError::Timeout) => panic!(
            "test `{name}` did not end within {limit:?} of real time and was given up\n  help: virtual time takes none, so look for what blocks or waits for the real world; for a test that is only slow, `#[aether::test(timeout = \"5m\")]`"
        ),
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => panic!("test `{name}` ended without a result"),
        },
    }
}
