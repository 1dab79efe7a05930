//! Why a cassette cannot be used.

use std::path::PathBuf;

/// Why a cassette cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CassetteError {
    /// There is no such file, or it cannot be read or written.
    #[error("cassette {path}: {reason}")]
    File {
        /// Path of the cassette.
        path: PathBuf,
        /// What the system said, and what to do.
        reason: String,
    },
    /// The file is no cassette, or not a whole one. It was left as it is.
    #[error("cassette {path} is damaged: {reason}; restore it, or delete it and record again")]
    Damaged {
        /// Path of the cassette.
        path: PathBuf,
        /// What is wrong with it, and where.
        reason: String,
    },
    /// A newer build wrote it.
    #[error("cassette {path} has version {found}, this build reads up to {supported}: update the program")]
    NewerVersion {
        /// Path of the cassette.
        path: PathBuf,
        /// Version that the file names.
        found: u32,
        /// Newest version this build reads.
        supported: u32,
    },
    /// The environment variable names no mode.
    #[error("AETHER_CASSETTE is {0:?}, which is none of `record`, `replay` and `auto`")]
    Mode(String),
}
