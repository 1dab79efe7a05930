//! Queues: turns within limits that are changed at run time, fair by key; singletons, windows, and several starts as one.
//! The guide is `docs/queues.md`.

pub use aether_core::engine::{DeadLetter, DeadLetterCause, KeyError, QueueLimits, Singleton};
pub use aether_core::queue::{
    LimitPattern, MAX_QUEUE_NAME, QueueError, QueuePlace, QueueScope, Serves, StartTerms,
};
pub use aether_core::store::{Limit, LimitKind, QueuePosition, QueueState};
