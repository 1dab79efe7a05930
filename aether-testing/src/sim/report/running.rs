//! A simulation under way, whose panic is that of the line that awaits it.

use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;

use super::error::SimError;

/// A simulation under way. Await it.
///
/// # Panics
/// With the text of the [`SimError`], at the line that awaits it, when there is nothing to report.
#[must_use = "a simulation begins when this is awaited"]
pub struct Running<T> {
    result: BoxFuture<'static, Result<T, SimError>>,
    at: &'static Location<'static>,
}

impl<T> Running<T> {
    #[track_caller]
    pub(crate) fn new(result: BoxFuture<'static, Result<T, SimError>>) -> Self {
        Self::at(result, Location::caller())
    }

    pub(crate) fn at(
        result: BoxFuture<'static, Result<T, SimError>>,
        at: &'static Location<'static>,
    ) -> Self {
        Self { result, at }
    }
}

impl<T> Future for Running<T> {
    type Output = T;

    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match self.result.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(done)) => Poll::Ready(done),
            // Whoever polls is the test itself, unless it moved the simulation to another task.
            Poll::Ready(Err(error)) if Location::caller().file() == self.at.file() => panic!("{error}"),
            Poll::Ready(Err(error)) => panic!("{error}\n  simulated at {}", self.at),
        }
    }
}

impl<T> std::fmt::Debug for Running<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Running({})", self.at)
    }
}
