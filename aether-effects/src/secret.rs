//! A value that must not be seen: it prints as `***` and does not serialize, so it never reaches a journal.

use std::fmt;

/// A secret, such as an API key.
///
/// ```
/// use aether_effects::secret::Secret;
/// let key = Secret::new("sk-123".to_owned());
/// assert_eq!(format!("{key} {key:?}"), "*** Secret(***)");
/// assert_eq!(key.expose(), "sk-123");
/// ```
///
/// It cannot be the argument or the result of a step:
///
/// ```compile_fail
/// fn recordable<T: aether_core::step::Recordable>() {}
/// recordable::<aether_effects::secret::Secret<String>>();
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// Wraps `value`, so that printing shows `***`.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// The value, in the open.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> From<T> for Secret<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}

impl From<&str> for Secret<String> {
    fn from(value: &str) -> Self {
        Self(value.to_owned())
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

impl<T> fmt::Display for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
