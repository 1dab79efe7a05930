//! The head of a file that this build reads: which format it says it has, and in which version.
//!
//! Promise: a file of another kind, or of a newer version, is told apart from a damaged one before anything else is read.

use serde::Deserialize;

/// Why a file is not read any further.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeadError {
    /// It is no JSON object, has another format, or has no version; says which.
    Unreadable(String),
    /// It was written by a newer build.
    NewerVersion {
        /// The file's version.
        found: u32,
    },
}

#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    format: String,
    #[serde(default)]
    version: u32,
}

/// Checks that the JSON file `text` says that it is a `format` of a version from 1 to `newest`: its fields `format` and
/// `version`.
///
/// # Errors
/// [`HeadError`] where it does not.
///
/// ```
/// use aether_core::recording::{HeadError, check_head};
/// let text = br#"{"format":"notes","version":3}"#;
/// assert_eq!(check_head(text, "notes", 3), Ok(()));
/// assert_eq!(check_head(text, "notes", 2), Err(HeadError::NewerVersion { found: 3 }));
/// assert!(check_head(text, "cassette", 3).is_err());
/// ```
pub fn check_head(text: &[u8], format: &str, newest: u32) -> Result<(), HeadError> {
    let head: Head =
        serde_json::from_slice(text).map_err(|error| HeadError::Unreadable(error.to_string()))?;
    if head.format != format {
        return Err(HeadError::Unreadable(format!("its `format` is {:?}, not {format:?}", head.format)));
    }
    match head.version {
        0 => Err(HeadError::Unreadable("it has no `version`".into())),
        found if found > newest => Err(HeadError::NewerVersion { found }),
        _ => Ok(()),
    }
}
