//! Queues: where a run waits for its turn, and which runs a limit counts together.
//!
//! Promise: a name that is not usable is refused before it is recorded. Plain data; nothing here counts.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::vocabulary::budget::Budget;

/// Longest name of a queue and longest key, in bytes.
pub const MAX_QUEUE_NAME: usize = 200;

/// How much waiting one step of priority is worth: a run of priority 1 comes before those of priority 0 that were created
/// up to so many microseconds earlier.
const AGEING: i64 = 60_000_000;

/// Why a run cannot wait in a queue, or why a limit cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// A name, a key or one of its segments is empty.
    #[error("{what} {text:?} has an empty part: names and the segments of keys need at least one character")]
    Empty {
        /// Queue, key or pattern.
        what: &'static str,
        /// The refused text.
        text: String,
    },
    /// The text is longer than [`MAX_QUEUE_NAME`] bytes.
    #[error("{what} has {length} bytes, over the limit of {MAX_QUEUE_NAME}: {start:?}…")]
    TooLong {
        /// Queue, key or pattern.
        what: &'static str,
        /// Length of the refused text in bytes.
        length: usize,
        /// Its first characters.
        start: String,
    },
    /// The text holds a character that has a meaning in patterns, or that cannot be printed.
    #[error("{what} {text:?} must not contain {found:?}")]
    Character {
        /// Queue, key or pattern.
        what: &'static str,
        /// The refused text.
        text: String,
        /// The refused character.
        found: char,
    },
    /// A key, a priority or a time to expire was given to a run that waits in no queue.
    #[error("`{option}` needs `queue`: a run without a queue does not wait for its turn")]
    NoQueue {
        /// The option.
        option: &'static str,
    },
    /// The number of a limit makes no sense.
    #[error("limit `{pattern}`: {reason}")]
    Limit {
        /// The pattern of the limit.
        pattern: String,
        /// What is wrong with its number.
        reason: &'static str,
    },
}

/// Checks the name of a queue, one segment.
fn check(what: &'static str, text: &str, forbidden: &[char]) -> Result<(), QueueError> {
    if text.len() > MAX_QUEUE_NAME {
        let start = text.chars().take(32).collect();
        return Err(QueueError::TooLong { what, length: text.len(), start });
    }
    if text.split('/').any(|segment| segment.trim().is_empty()) {
        return Err(QueueError::Empty { what, text: text.into() });
    }
    match text.chars().find(|c| c.is_control() || forbidden.contains(c)) {
        Some(found) => Err(QueueError::Character { what, text: text.into(), found }),
        None => Ok(()),
    }
}

/// Checks the name of a limit.
pub(crate) fn check_name(what: &'static str, text: &str) -> Result<(), QueueError> {
    check(what, text, &['*', '/'])
}

/// Where a run waits for its turns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuePlace {
    /// Name of the queue.
    pub queue: String,
    /// Segments with `/` in between, such as `acme/ann`: whom the run is for. Keys take turns. Empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// A higher priority comes first among the runs of its key.
    #[serde(default)]
    pub priority: i32,
}

impl QueuePlace {
    /// A place in the queue of this name.
    ///
    /// # Errors
    /// [`QueueError`] when the name is not usable.
    pub fn new(queue: impl Into<String>) -> Result<Self, QueueError> {
        let queue = queue.into();
        check("queue", &queue, &['*', '/'])?;
        Ok(Self { queue, key: String::new(), priority: 0 })
    }

    /// The same place under a key.
    ///
    /// # Errors
    /// [`QueueError`] when the key is not usable.
    pub fn with_key(mut self, key: impl Into<String>) -> Result<Self, QueueError> {
        self.key = key.into();
        check("key", &self.key, &['*'])?;
        Ok(self)
    }

    /// Its rank among the runs of its key, of which the lowest comes first: the time of its creation in microseconds, and a
    /// minute less for each step of priority. It never changes, so that a run that waits long enough comes before
    /// newer runs of any priority.
    ///
    /// ```
    /// use aether_core::queue::QueuePlace;
    /// let at = jiff::Timestamp::UNIX_EPOCH;
    /// let place = QueuePlace::new("tickets")?;
    /// let urgent = QueuePlace { priority: 2, ..place.clone() };
    /// assert!(urgent.rank(at) < place.rank(at));
    /// assert!(urgent.rank(at + jiff::SignedDuration::from_mins(3)) > place.rank(at));
    /// # Ok::<(), aether_core::queue::QueueError>(())
    /// ```
    pub fn rank(&self, created_at: Timestamp) -> i64 {
        created_at.as_microsecond().saturating_sub(i64::from(self.priority).saturating_mul(AGEING))
    }
}

/// Queue and key, as a pattern names them.
impl fmt::Display for QueuePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.key.is_empty() { "" } else { "/" };
        write!(f, "{}{slash}{}", self.queue, self.key)
    }
}

/// What a run was given at its start besides its input. The default is a run that may begin at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartTerms {
    /// Where it waits for its turns; `None` for a run that needs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueuePlace>,
    /// It does not begin before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// If it has not begun by this time, it ends without being executed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// How many starts were gathered into its input; 0 where none were.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub inputs: u32,
    /// How much all its calls may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Box<Budget>>,
    /// Of a child: which of the runs that had its parent's id one after the other started it. Children of former builds have
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_life: Option<Box<str>>,
}

fn is_zero(inputs: &u32) -> bool {
    *inputs == 0
}

impl StartTerms {
    /// From when on a run that is created at this time may begin.
    pub fn begins(&self, at: Timestamp) -> Timestamp {
        self.not_before.map_or(at, |begins| begins.max(at))
    }

    /// Whether it is the default.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The runs that a limit counts together: those of a queue whose keys begin with the same segments.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueScope {
    /// Name of the queue.
    pub queue: String,
    /// The segments that the keys begin with; empty for all runs of the queue.
    pub prefix: String,
}

impl QueueScope {
    /// Whether it holds the runs of this key.
    pub fn holds(&self, place: &QueuePlace) -> bool {
        let rest = place.key.strip_prefix(&*self.prefix);
        self.queue == place.queue
            && (self.prefix.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
    }
}

/// Which runs a limit is for: a queue, and then segments of keys, of which `*` stands for each one by itself.
///
/// `tickets` counts all runs of the queue together, `tickets/acme` those whose key begins with `acme`, and `tickets/*`
/// those of each first segment by themselves.
///
/// ```
/// use aether_core::queue::{LimitPattern, QueuePlace};
/// let each: LimitPattern = "tickets/*".parse()?;
/// let place = QueuePlace::new("tickets")?.with_key("acme/ann")?;
/// assert_eq!(each.scope(&place).map(|scope| scope.prefix).as_deref(), Some("acme"));
/// # Ok::<(), aether_core::queue::QueueError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LimitPattern(String);

impl LimitPattern {
    /// Checks `text` and makes it a pattern.
    ///
    /// # Errors
    /// [`QueueError`] when it does not begin with the name of a queue, or a segment is neither `*` nor usable in a key.
    pub fn new(text: impl Into<String>) -> Result<Self, QueueError> {
        let text = text.into();
        check("pattern", &text, &[])?;
        let mut segments = text.split('/');
        let queue = segments.next().unwrap_or_default();
        let starred = queue.contains('*') || segments.any(|segment| segment != "*" && segment.contains('*'));
        if starred {
            return Err(QueueError::Character { what: "pattern", text, found: '*' });
        }
        Ok(Self(text))
    }

    /// The pattern as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Name of its queue.
    pub fn queue(&self) -> &str {
        self.0.split('/').next().unwrap_or_default()
    }

    /// Whether it counts all runs of its queue together.
    pub fn is_whole_queue(&self) -> bool {
        !self.0.contains('/')
    }

    /// The runs that are counted together with one at `place`; `None` where the pattern is not for it.
    pub fn scope(&self, place: &QueuePlace) -> Option<QueueScope> {
        let mut segments = self.0.split('/');
        if segments.next() != Some(&*place.queue) {
            return None;
        }
        let mut key = place.key.split('/').filter(|segment| !segment.is_empty());
        let mut prefix = String::new();
        for segment in segments {
            let found = key.next().filter(|found| segment == "*" || segment == *found)?;
            if !prefix.is_empty() {
                prefix.push('/');
            }
            prefix.push_str(found);
        }
        Some(QueueScope { queue: place.queue.clone(), prefix })
    }
}

/// Which runs a worker takes.
///
/// ```
/// use aether_core::queue::{LimitPattern, QueuePlace, Serves};
/// let serves = Serves { queues: Some(vec![LimitPattern::new("mail/*")?]), others: false };
/// assert!(serves.takes(Some(&QueuePlace::new("mail")?.with_key("acme")?)));
/// assert!(!serves.takes(Some(&QueuePlace::new("mail")?)) && !serves.takes(None));
/// # Ok::<(), aether_core::queue::QueueError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Serves {
    /// Of runs in queues those that one of the patterns is for; all of them without patterns.
    pub queues: Option<Vec<LimitPattern>>,
    /// Whether it takes runs that are in no queue.
    pub others: bool,
}

impl Default for Serves {
    fn default() -> Self {
        Self::ALL
    }
}

impl Serves {
    /// All runs.
    pub const ALL: Self = Self { queues: None, others: true };

    /// Whether it takes a run of this place, or one without a queue.
    pub fn takes(&self, place: Option<&QueuePlace>) -> bool {
        match (place, &self.queues) {
            (None, _) => self.others,
            (Some(_), None) => true,
            (Some(place), Some(patterns)) => patterns.iter().any(|pattern| pattern.scope(place).is_some()),
        }
    }

    /// Whether it takes any runs of this queue.
    pub fn takes_queue(&self, queue: &str) -> bool {
        self.queues.as_ref().is_none_or(|patterns| patterns.iter().any(|pattern| pattern.queue() == queue))
    }

    /// Whether it takes runs of queues at all.
    pub fn takes_queues(&self) -> bool {
        self.queues.as_ref().is_none_or(|patterns| !patterns.is_empty())
    }
}

impl fmt::Display for LimitPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for LimitPattern {
    type Err = QueueError;
    fn from_str(text: &str) -> Result<Self, QueueError> {
        Self::new(text)
    }
}

impl TryFrom<String> for LimitPattern {
    type Error = QueueError;
    fn try_from(text: String) -> Result<Self, QueueError> {
        Self::new(text)
    }
}

impl From<LimitPattern> for String {
    fn from(pattern: LimitPattern) -> Self {
        pattern.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(key: &str) -> QueuePlace {
        QueuePlace { queue: "q".into(), key: key.into(), priority: 0 }
    }

    #[test]
    fn a_pattern_counts_by_the_segments_that_it_names() {
        let prefix = |pattern: &str, key: &str| {
            LimitPattern::new(pattern).ok().and_then(|p| p.scope(&place(key))).map(|scope| scope.prefix)
        };
        assert_eq!(prefix("q", "a/b").as_deref(), Some(""));
        assert_eq!(prefix("q", "").as_deref(), Some(""));
        assert_eq!(prefix("q/*", "a/b").as_deref(), Some("a"));
        assert_eq!(prefix("q/a", "a/b").as_deref(), Some("a"));
        assert_eq!(prefix("q/a/*", "a/b").as_deref(), Some("a/b"));
        assert_eq!(prefix("q/a/*", "a"), None);
        assert_eq!(prefix("q/*", ""), None);
        assert_eq!(prefix("q/b", "a/b"), None);
        assert_eq!(prefix("p", "a"), None);
    }

    #[test]
    fn a_scope_ends_where_a_segment_ends() {
        let scope = QueueScope { queue: "q".into(), prefix: "a".into() };
        assert!(scope.holds(&place("a")) && scope.holds(&place("a/b")));
        assert!(!scope.holds(&place("ab")) && !scope.holds(&place("")));
    }

    #[test]
    fn names_that_mean_something_else_are_refused() {
        assert!(QueuePlace::new("").is_err() && QueuePlace::new("a/b").is_err());
        assert!(QueuePlace::new("a*").is_err() && QueuePlace::new("a\n").is_err());
        assert!(QueuePlace::new("q").and_then(|q| q.with_key("a//b")).is_err());
        assert!(QueuePlace::new("q").and_then(|q| q.with_key("*")).is_err());
        assert!(LimitPattern::new("*").is_err() && LimitPattern::new("q/a*").is_err());
        assert!(QueuePlace::new("x".repeat(201)).is_err());
    }
}
