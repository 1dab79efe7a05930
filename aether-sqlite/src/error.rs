//! What can go wrong inside the store, and what callers are told about it.
//!
//! Promise: every failure of the driver becomes the [`StoreError`] variant that says what to do about it.

use std::path::Path;

use rusqlite::ErrorCode;

use aether_core::store::{AppendError, StoreError};

/// Why an operation did not work.
#[derive(Debug)]
pub(crate) enum OpError<E = StoreError> {
    /// The operation was refused; the transaction it is part of continues.
    Refused(E),
    /// The driver failed.
    Sqlite(rusqlite::Error),
    /// A stored row does not hold what it must.
    Row(String),
}

/// Why an append did not work.
pub(crate) type AppendOpError = OpError<AppendError>;

impl<E> From<rusqlite::Error> for OpError<E> {
    fn from(error: rusqlite::Error) -> Self {
        match error {
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..) => Self::Row(error.to_string()),
            other => Self::Sqlite(other),
        }
    }
}

impl OpError {
    /// What the caller is told.
    pub(crate) fn into_store_error(self, store: &str) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Sqlite(error) => translate(&error, store),
            Self::Row(reason) => StoreError::Corrupt { store: store.into(), reason },
        }
    }

    /// Whether the same may succeed later.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Refused(error) => matches!(error, StoreError::Locked { .. } | StoreError::Full { .. }),
            Self::Sqlite(error) => is_transient(error),
            Self::Row(_) => false,
        }
    }

    /// As [`OpError::into_store_error`], of a failure to open `path`.
    pub(crate) fn into_open_error(self, path: &Path, store: &str) -> StoreError {
        match self {
            Self::Sqlite(error) => opening(&error, path, store),
            other => other.into_store_error(store),
        }
    }
}

/// The file has the tables of a newer build.
#[derive(Debug, thiserror::Error)]
#[error("the file has tables of version {found}, of a newer build")]
pub(crate) struct NewerTables {
    pub(crate) found: u32,
    pub(crate) supported: u32,
}

impl From<NewerTables> for rusqlite::Error {
    fn from(newer: NewerTables) -> Self {
        Self::ToSqlConversionFailure(Box::new(newer))
    }
}

/// Whether the same write may succeed later: the medium refuses it for the moment.
pub(crate) fn is_transient(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
                | ErrorCode::CannotOpen
                | ErrorCode::OutOfMemory
                | ErrorCode::FileLockingProtocolFailed
                | ErrorCode::OperationInterrupted
        )
    )
}

/// The variant that fits what the driver said.
pub(crate) fn translate(error: &rusqlite::Error, store: &str) -> StoreError {
    let (store, reason) = (store.to_owned(), error.to_string());
    if let rusqlite::Error::ToSqlConversionFailure(error) = error
        && let Some(NewerTables { found, supported }) = error.downcast_ref()
    {
        return StoreError::NewerSchema { store, found: *found, supported: *supported };
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full { store, reason },
        Some(ErrorCode::ReadOnly) => StoreError::ReadOnly { store, reason },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked { store, reason },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Corrupt { store, reason },
        _ => StoreError::Unavailable { store, reason },
    }
}

/// The variant that fits a failure to open `path`.
pub(crate) fn opening(error: &rusqlite::Error, path: &Path, store: &str) -> StoreError {
    match translate(error, store) {
        StoreError::Corrupt { store, reason }
            if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) =>
        {
            let advice = "give the engine another path, or restore a backup if it was a database";
            StoreError::Corrupt { store, reason: format!("{reason}, or is encrypted; {advice}") }
        }
        StoreError::Unavailable { store, reason } => {
            StoreError::Open { store, reason: format!("{reason}{}", advice(path)) }
        }
        other => other,
    }
}

fn advice(path: &Path) -> String {
    match path.parent() {
        _ if path.is_dir() => format!("; {} is a directory, not a file", path.display()),
        Some(parent) if !parent.as_os_str().is_empty() && !parent.is_dir() => {
            format!("; the directory {} does not exist: create it first", parent.display())
        }
        _ => String::new(),
    }
}

/// The store is gone.
pub(crate) fn gone(store: &str) -> StoreError {
    StoreError::Closed { store: store.into() }
}
