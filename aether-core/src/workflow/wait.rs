//! A durable wait under construction: `.timeout(..)`, `.expires(..)` and `.details(..)` come before the first poll.
//!
//! Promise: nothing is recorded before the wait is polled.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::vocabulary::payload::{Payload, PayloadError};
use crate::workflow::gate::{BoxEffect, Recorded as _};

/// A durable wait under construction; it begins when it is first polled.
pub(crate) struct Wait<'c, T> {
    pub(crate) terms: Terms,
    state: Option<u16>,
    begin: Option<Begin<'c, T>>,
    effect: Option<BoxEffect<'c, T>>,
}

/// The options of a wait, set after it was made and before it is polled.
#[derive(Debug, Default)]
pub(crate) struct Terms {
    pub(crate) limit: Option<Duration>,
    pub(crate) name: Option<String>,
    pub(crate) details: Option<Result<Payload, PayloadError>>,
    pub(crate) accepted_if: Option<AcceptedIf>,
}

/// Says of an answer, which is of the right type, why it is refused all the same.
pub(crate) struct AcceptedIf(pub(crate) Box<CheckAnswer>);

type CheckAnswer = dyn Fn(&Payload) -> Result<(), PayloadError> + Send + Sync;

impl std::fmt::Debug for AcceptedIf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AcceptedIf")
    }
}

type Begin<'c, T> = Box<dyn FnOnce(Terms) -> Pin<Box<dyn Future<Output = T> + Send + 'c>> + Send + 'c>;

impl<'c, T: 'c> Wait<'c, T> {
    pub(crate) fn new(
        begin: impl FnOnce(Terms) -> Pin<Box<dyn Future<Output = T> + Send + 'c>> + Send + 'c,
    ) -> Self {
        Self { terms: Terms::default(), state: None, begin: Some(Box::new(begin)), effect: None }
    }

    pub(crate) fn at(&mut self, state: u16) {
        self.state = Some(state);
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<T> {
        if let Some(begin) = self.begin.take() {
            let effect = BoxEffect::boxed(begin(std::mem::take(&mut self.terms)));
            self.effect = Some(match self.state {
                Some(state) => effect.at(state),
                None => effect,
            });
        }
        match &mut self.effect {
            Some(effect) => Pin::new(effect).poll(cx),
            None => Poll::Pending,
        }
    }
}

impl<T> std::fmt::Debug for Wait<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wait").field("terms", &self.terms).finish_non_exhaustive()
    }
}

/// Makes a struct around a [`Wait`] a recorded effect that can be awaited.
macro_rules! awaitable {
    ($name:ident $(<$t:ident>)?: $output:ty) => {
        impl$(<$t>)? $crate::workflow::gate::Sealed for $name<'_ $(, $t)?> {}
        impl$(<$t: 'static>)? $crate::workflow::gate::Recorded for $name<'_ $(, $t)?> {
            fn at(mut self, state: u16) -> Self {
                self.0.at(state);
                self
            }
        }
        impl$(<$t: 'static>)? std::future::Future for $name<'_ $(, $t)?> {
            type Output = $output;
            fn poll(
                mut self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<$output> {
                self.0.poll(cx)
            }
        }
    };
}

pub(crate) use awaitable;
