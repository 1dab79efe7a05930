//! Labels of runs: the caller's own attributes, by which runs are found again.
//!
//! Promise: what is over a limit is refused before it is recorded. Labels are given when a run is created and never
//! change.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The most labels that a run can have.
pub const MAX_LABELS: usize = 32;

/// Longest key of a label, in bytes.
pub const MAX_LABEL_KEY: usize = 64;

/// Longest value of a label, in bytes.
pub const MAX_LABEL_VALUE: usize = 256;

/// Why a run cannot have a label.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LabelError {
    /// The key is the empty string, or only space.
    #[error("the key of a label must not be empty: give it a name such as `customer`")]
    NoKey,
    /// The run has [`MAX_LABELS`] labels already.
    #[error("label `{key}` is one more than the {MAX_LABELS} that a run can have")]
    TooMany {
        /// Key of the refused label.
        key: String,
    },
    /// The key is longer than [`MAX_LABEL_KEY`] bytes.
    #[error("the key of a label has {length} bytes, over the limit of {MAX_LABEL_KEY}: {start:?}…")]
    LongKey {
        /// Length of the refused key in bytes.
        length: usize,
        /// Its first characters.
        start: String,
    },
    /// The value is longer than [`MAX_LABEL_VALUE`] bytes.
    #[error(
        "the value of label `{key}` has {length} bytes, over the limit of {MAX_LABEL_VALUE}; large values belong into the run's input"
    )]
    LongValue {
        /// Key of the refused label.
        key: String,
        /// Length of its value in bytes.
        length: usize,
    },
    /// Key or value holds a control character.
    #[error("label {key:?} holds a control character in its key or value: use printable text")]
    Control {
        /// Key of the refused label.
        key: String,
    },
}

/// The labels of a run: at most one value for each key, in the order of the keys.
///
/// ```
/// use aether_core::labels::Labels;
/// let mut labels = Labels::default();
/// labels.insert("customer", "acme")?;
/// assert_eq!(labels.get("customer"), Some("acme"));
/// assert!(labels.insert("", "acme").is_err());
/// # Ok::<(), aether_core::labels::LabelError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Labels(BTreeMap<String, String>);

impl Labels {
    /// Adds a label, or replaces the value of its key.
    ///
    /// # Errors
    /// [`LabelError`] when key or value is over a limit or not printable, or there are too many labels.
    pub fn insert(&mut self, key: impl Into<String>, value: impl Into<String>) -> Result<(), LabelError> {
        let (key, value) = (key.into(), value.into());
        if key.trim().is_empty() {
            return Err(LabelError::NoKey);
        }
        if key.len() > MAX_LABEL_KEY {
            return Err(LabelError::LongKey { length: key.len(), start: key.chars().take(32).collect() });
        }
        if value.len() > MAX_LABEL_VALUE {
            return Err(LabelError::LongValue { key, length: value.len() });
        }
        if key.chars().chain(value.chars()).any(char::is_control) {
            return Err(LabelError::Control { key });
        }
        if self.0.len() >= MAX_LABELS && !self.0.contains_key(&key) {
            return Err(LabelError::TooMany { key });
        }
        self.0.insert(key, value);
        Ok(())
    }

    /// These labels and another one, as [`Labels::insert`] adds it.
    ///
    /// # Errors
    /// [`LabelError`] as for [`Labels::insert`].
    pub fn with(mut self, key: impl Into<String>, value: impl Into<String>) -> Result<Self, LabelError> {
        self.insert(key, value)?;
        Ok(self)
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// All labels, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_a_limit_is_refused_and_what_is_at_it_is_not() {
        let mut labels = Labels::default();
        let (key, value) = ("k".repeat(MAX_LABEL_KEY), "v".repeat(MAX_LABEL_VALUE));
        assert_eq!(labels.insert(key.clone(), value.clone()), Ok(()));
        let long = labels.insert(format!("{key}k"), "");
        assert!(matches!(long, Err(LabelError::LongKey { length, .. }) if length == MAX_LABEL_KEY + 1));
        let long = labels.insert("a", format!("{value}v"));
        assert!(matches!(long, Err(LabelError::LongValue { length, .. }) if length == MAX_LABEL_VALUE + 1));
        assert_eq!(labels.insert(" ", "x"), Err(LabelError::NoKey));
        assert_eq!(labels.insert("a\n", "x"), Err(LabelError::Control { key: "a\n".into() }));
        for n in 1..MAX_LABELS {
            labels.insert(format!("{n}"), "").unwrap();
        }
        assert_eq!(labels.insert("one more", ""), Err(LabelError::TooMany { key: "one more".into() }));
        assert_eq!(labels.insert("1", "again"), Ok(()), "a key that is there takes no room");
        assert_eq!(labels.get("1"), Some("again"));
    }
}
