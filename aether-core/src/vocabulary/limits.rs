//! The limits of an engine, and the error for what exceeds one.
//!
//! Promise: what is over a limit is refused before it is recorded; the error names the limit and the size, and nothing
//! that was recorded before is lost.

/// The limits of an engine: sizes of what is recorded. Change single ones of the defaults:
///
/// ```
/// use aether_core::limits::Limits;
/// let limits = Limits { history: 50_000, payload: 4 << 20, ..Limits::default() };
/// assert_eq!((limits.history, limits.depth), (50_000, 64));
/// ```
///
/// JSON that is nested deeper than [`NESTING`](crate::vocabulary::payload::NESTING) is always refused, and so is a run id over
/// [`MAX_RUN_ID`](crate::vocabulary::id::MAX_RUN_ID).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest recorded value, in bytes of JSON. Default: 32 MiB, enough for any answer within the HTTP client's own
    /// default of 8 MiB, also as base64. Recovery reads all values of a run into memory.
    pub payload: usize,
    /// Values over so many bytes of JSON go to the effect store, and the journal refers to them. Default: 64 KiB. With
    /// 0, every outcome goes there first.
    pub inline: usize,
    /// Largest recorded error, in bytes of JSON; a larger one of a step is replaced, and keeps its class. Default: 256 KiB.
    pub error: usize,
    /// Longest journal of one run, in events. Default: 1,000,000. At four fifths of it the run is warned of, in its log and
    /// in its view: a workflow that lives on ends its journal with `cx.continue_as_new(..)`.
    pub history: u64,
    /// Deepest nesting of scopes. Default: 64.
    pub depth: usize,
    /// Longest name of a command, a signal or a message, in bytes. Default: 1024.
    pub name: usize,
    /// Longest reason or name of an actor, in bytes. Default: 16 KiB.
    pub text: usize,
    /// The most unread messages in the inbox of one run. Default: 10,000. A request to end the run is always accepted.
    pub inbox: usize,
    /// The most bytes of JSON in all unread messages of one run, which are in memory while it is advanced. Default:
    /// 64 MiB. A request to end the run is always accepted.
    pub inbox_bytes: usize,
}

/// Four fifths of a limit.
pub(crate) const fn near(limit: u64) -> u64 {
    limit - limit / 5
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            payload: 32 << 20,
            inline: 64 << 10,
            error: 256 << 10,
            history: 1_000_000,
            depth: 64,
            name: 1024,
            text: 16 << 10,
            inbox: 10_000,
            inbox_bytes: 64 << 20,
        }
    }
}

/// Something is over a limit of the engine. Nothing of it was recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {size} is over the limit of {limit} (`Limits::{name}`); nothing of it was recorded")]
pub struct OverLimit {
    /// What is too large, with its unit, such as "bytes of JSON".
    pub what: String,
    /// Its size, in that unit.
    pub size: usize,
    /// The limit that it exceeds.
    pub limit: usize,
    /// Name of the limit, a field of [`Limits`].
    pub name: &'static str,
}

impl Limits {
    /// The length from which a journal is warned of: four fifths of [`Limits::history`].
    ///
    /// ```
    /// use aether_core::limits::Limits;
    /// assert_eq!(Limits { history: 1_000, ..Limits::default() }.history_warning(), 800);
    /// ```
    pub const fn history_warning(&self) -> u64 {
        near(self.history)
    }

    /// Checks one size.
    pub(crate) fn check(
        &self,
        what: impl Into<String>,
        size: usize,
        limit: usize,
        name: &'static str,
    ) -> Result<(), OverLimit> {
        if size <= limit { Ok(()) } else { Err(OverLimit { what: what.into(), size, limit, name }) }
    }

    /// Checks the name of a command, a signal or a message.
    pub(crate) fn check_name(&self, what: &str, value: &str) -> Result<(), OverLimit> {
        // Every step is asked this: its name is put into words only where it is too long.
        if value.len() <= self.name {
            return Ok(());
        }
        let start: String = value.chars().take(32).collect();
        self.check(format!("bytes of the {what} {start:?}…"), value.len(), self.name, "name")
    }

    /// Checks a reason or the name of an actor.
    pub(crate) fn check_text(&self, what: &str, value: &str) -> Result<(), OverLimit> {
        self.check(format!("bytes of the {what}"), value.len(), self.text, "text")
    }

    /// Checks a recorded error of `size` bytes; `text` is what is shown of it.
    pub(crate) fn check_error(&self, text: &str, size: usize) -> Result<(), OverLimit> {
        let start: String = text.chars().take(120).collect();
        self.check(format!("bytes of the error that starts {start:?}"), size, self.error, "error")
    }
}
