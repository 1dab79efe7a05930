//! What a body tells of what it read: texts that are cut are redacted before, because a part of a secret, or of the JSON
//! around it, is not found.
//!
//! Promise: while a body is polled, its thread knows what its engine redacts; nothing else does.

use std::borrow::Cow;
use std::cell::RefCell;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;

use crate::vocabulary::redaction::Redaction;

thread_local! {
    static HERE: RefCell<Redaction> = RefCell::default();
}

/// `text` as the engine may record it whose body is running; as it is where none runs, and where that engine redacts
/// nothing. For effect crates, before they cut a text for an error.
pub fn redacted_here(text: &str) -> Cow<'_, str> {
    let here = HERE.with_borrow(Clone::clone);
    if here.is_on() { Cow::Owned(here.text(text.to_owned())) } else { Cow::Borrowed(text) }
}

/// `body`, during which texts are redacted where its engine redacts.
pub(crate) fn redacting<'b, T: 'b>(redaction: &Redaction, body: BoxFuture<'b, T>) -> BoxFuture<'b, T> {
    if redaction.is_on() { Box::pin(Redacting { body, redaction: redaction.clone() }) } else { body }
}

struct Redacting<'b, T> {
    body: BoxFuture<'b, T>,
    redaction: Redaction,
}

impl<T> Future for Redacting<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let _until_it_returns = Restored(HERE.replace(self.redaction.clone()));
        self.body.as_mut().poll(cx)
    }
}

/// Puts back what was there, also after a panic.
struct Restored(Redaction);

impl Drop for Restored {
    fn drop(&mut self) {
        HERE.set(std::mem::take(&mut self.0));
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::vocabulary::masking::Masking;

    #[test]
    fn a_text_is_redacted_while_a_body_of_such_an_engine_runs() {
        let said = "it is hunter2";
        let body = || -> BoxFuture<'static, String> {
            Box::pin(async { redacted_here("it is hunter2").into_owned() })
        };
        let by = Redaction::by(Masking::only().text("hunter2"));
        assert_eq!(redacting(&by, body()).now_or_never().unwrap(), "it is ***");
        assert_eq!(redacting(&Redaction::default(), body()).now_or_never().unwrap(), said);
        let panics: BoxFuture<'static, ()> = Box::pin(async { panic!("in a body") });
        let ended = std::panic::AssertUnwindSafe(redacting(&by, panics)).catch_unwind().now_or_never();
        assert!(ended.unwrap().is_err());
        assert_eq!(redacted_here(said), said);
    }
}
