//! Rows that are read without those that cannot be.
//!
//! Promise: one damaged row hides no other one, and makes no page shorter: its place is taken by the next row. The first
//! column of a row is its name, for the log.

use tokio_postgres::Row;

use crate::claims::number;
use crate::error::OpError;
use crate::row::get;

/// What can be read of some rows.
pub(crate) fn readable<T>(rows: &[Row], read: impl Fn(&Row) -> Result<T, OpError>) -> Vec<T> {
    let read = |row: &Row| {
        let name = || get::<String>(row, 0).unwrap_or_default();
        let warn = |error: &OpError| tracing::warn!(name = name(), ?error, "a damaged row is left alone");
        read(row).inspect_err(warn).ok()
    };
    rows.iter().filter_map(read).collect()
}

/// A page that is asked for until it has all the rows that can be read, or as many as are wanted.
#[derive(Debug)]
pub(crate) struct Page {
    wanted: usize,
    /// As many more are asked for, because so many could not be read.
    more: usize,
}

impl Page {
    /// A page of so many rows.
    pub(crate) fn of(wanted: usize) -> Self {
        Self { wanted, more: 0 }
    }

    /// A page of so many rows; of all for 0.
    pub(crate) fn or_all(wanted: usize) -> Self {
        Self::of(if wanted == 0 { usize::MAX } else { wanted })
    }

    /// How many rows to ask for.
    pub(crate) fn rows(&self) -> i64 {
        number(self.asked())
    }

    fn asked(&self) -> usize {
        self.wanted.saturating_add(self.more)
    }

    /// The page, if these rows are enough for it.
    pub(crate) fn read<T>(
        &mut self,
        rows: &[Row],
        read: impl Fn(&Row) -> Result<T, OpError>,
    ) -> Option<Vec<T>> {
        let mut found = readable(rows, read);
        let there_are_more = rows.len() >= self.asked();
        if there_are_more && found.len() < self.wanted {
            self.more = rows.len().saturating_sub(found.len());
            return None;
        }
        found.truncate(self.wanted);
        Some(found)
    }
}
