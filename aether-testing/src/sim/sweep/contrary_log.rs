//! A log that is on where the thread's own one is off, and off where that is on.
//!
//! Promise: of each line and span, the arguments are evaluated in exactly one of two runs, of which one is under this log. It
//! writes nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use tracing::dispatcher::{DefaultGuard, Dispatch, get_default, set_default};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

/// Listens on this thread until the guard is dropped.
pub(crate) fn listen_contrary() -> DefaultGuard {
    let other = get_default(Dispatch::clone);
    set_default(&Dispatch::new(Contrary { other, spans: AtomicU64::new(1) }))
}

struct Contrary {
    other: Dispatch,
    spans: AtomicU64,
}

impl Subscriber for Contrary {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        !self.other.enabled(metadata)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        // Begins with 1, and would need centuries to come to 0, which is no id.
        Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed).max(1))
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
