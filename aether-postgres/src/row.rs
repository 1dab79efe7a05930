//! How values stand in columns, and how rows become values again.
//!
//! Promise: reading a damaged row is an [`OpError::Row`] that names what is wrong with it, never a panic. Times are
//! microseconds since 1970, numbers have 63 bits. The numbers of the statuses are frozen.

use aether_core::contract::Status;
use aether_core::id::{RunId, WorkerId};
use aether_core::journal::{ChainHash, StoredFrame};
use aether_core::labels::Labels;
use aether_core::payload::{Digest, Payload};
use aether_core::queue::StartTerms;
use aether_core::store::ledger::LedgerStatus;
use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::error::OpError;

/// A number as Postgres holds it. What does not fit becomes the largest one, which no condition will match.
pub(crate) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number as it was before [`int`].
pub(crate) fn nat(number: i64, what: &str) -> Result<u64, OpError> {
    u64::try_from(number).map_err(|_| OpError::Row(format!("{what} is {number}")))
}

/// A small number as it was stored.
pub(crate) fn nat32(number: i64, what: &str) -> Result<u32, OpError> {
    u32::try_from(number).map_err(|_| OpError::Row(format!("{what} is {number}")))
}

/// A column of a row.
pub(crate) fn get<'r, T: FromSql<'r>>(row: &'r Row, column: usize) -> Result<T, OpError> {
    row.try_get(column)
        .map_err(|error| OpError::Row(format!("column {column}: {}", crate::error::said(&error))))
}

/// A time as Postgres holds it.
pub(crate) fn micros(time: Timestamp) -> i64 {
    time.as_microsecond()
}

/// A time as it was stored.
pub(crate) fn time(micros: i64) -> Result<Timestamp, OpError> {
    // Not `from_microsecond`, which refuses the last second that a timestamp can hold.
    let (second, rest) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
    let nanos = i32::try_from(rest * 1_000).unwrap_or(0);
    Timestamp::new(second, nanos).map_err(|e| OpError::Row(format!("time {micros}: {e}")))
}

/// The statuses by their numbers in the store.
const STATUSES: [(Status, i16); 7] = [
    (Status::Pending, 0),
    (Status::Running, 1),
    (Status::Waiting, 2),
    (Status::Completed, 3),
    (Status::Failed, 4),
    (Status::Rejected, 5),
    (Status::Cancelled, 6),
];

/// A status as Postgres holds it.
pub(crate) fn status_number(status: Status) -> i16 {
    STATUSES.iter().find(|(known, _)| *known == status).map_or(-1, |(_, number)| *number)
}

/// A status as it was stored.
pub(crate) fn status(number: i16) -> Result<Status, OpError> {
    let found = STATUSES.iter().find(|(_, known)| *known == number);
    found.map(|(status, _)| *status).ok_or_else(|| OpError::Row(format!("run status {number}")))
}

/// The statuses of ledger rows by their numbers in the store.
const LEDGER_STATUSES: [(LedgerStatus, i16); 5] = [
    (LedgerStatus::Started, 0),
    (LedgerStatus::Succeeded, 1),
    (LedgerStatus::Failed, 2),
    (LedgerStatus::InDoubt, 3),
    (LedgerStatus::Confirmed, 4),
];

/// A ledger status as Postgres holds it; `None` for one that this build does not know.
pub(crate) fn ledger_number(status: LedgerStatus) -> i16 {
    LEDGER_STATUSES.iter().find(|(known, _)| *known == status).map_or(-1, |(_, number)| *number)
}

/// A ledger status as it was stored.
pub(crate) fn ledger_status(number: i16) -> Result<LedgerStatus, OpError> {
    let found = LEDGER_STATUSES.iter().find(|(_, known)| *known == number);
    found.map(|(status, _)| *status).ok_or_else(|| OpError::Row(format!("ledger status {number}")))
}

/// A chain hash as it was stored.
pub(crate) fn chain(bytes: &[u8]) -> Result<ChainHash, OpError> {
    bytes.try_into().map_err(|_| OpError::Row(format!("chain hash of {} bytes", bytes.len())))
}

/// A run's id as it was stored.
pub(crate) fn run_id(id: String) -> Result<RunId, OpError> {
    RunId::new(id).map_err(|e| OpError::Row(e.to_string()))
}

/// A worker's id as it was stored.
pub(crate) fn worker_id(id: String) -> WorkerId {
    WorkerId::from(id)
}

/// A digest as it was stored.
pub(crate) fn digest(text: String) -> Result<Digest, OpError> {
    serde_json::from_value(serde_json::Value::String(text)).map_err(|e| OpError::Row(e.to_string()))
}

/// Labels as they were stored.
pub(crate) fn labels(text: &str) -> Result<Labels, OpError> {
    serde_json::from_str(text).map_err(|e| OpError::Row(format!("labels: {e}")))
}

/// What a run was given at its start, as it was stored.
pub(crate) fn terms(text: String) -> Result<StartTerms, OpError> {
    serde_json::from_str(&text).map_err(|e| OpError::Row(format!("terms: {e}")))
}

/// A payload as it was stored.
pub(crate) fn payload(text: String) -> Result<Payload, OpError> {
    Payload::from_text(text).map_err(|e| OpError::Row(e.to_string()))
}

/// Reads position, time, epoch, events and chain of a frame.
pub(crate) fn frame(row: &Row) -> Result<StoredFrame, OpError> {
    Ok(StoredFrame {
        position: nat(get(row, 0)?, "position")?,
        at: time(get(row, 1)?)?,
        epoch: nat(get(row, 2)?, "epoch")?,
        text: get(row, 3)?,
        chain: chain(get(row, 4)?)?,
        decoded: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_statuses_are_frozen_and_all_there() {
        assert!(Status::ALL.iter().all(|known| status(status_number(*known)).unwrap() == *known));
        assert!(Status::ALL.iter().all(|known| known.is_terminal() == (status_number(*known) >= 3)));
        assert_eq!(status_number(Status::Completed), 3);
        assert!(status(7).is_err() && ledger_status(5).is_err());
    }

    #[test]
    fn times_come_back_to_the_microsecond() {
        for at in [Timestamp::MIN, Timestamp::UNIX_EPOCH, Timestamp::MAX] {
            assert_eq!(time(micros(at)).unwrap().as_microsecond(), at.as_microsecond());
        }
        assert!(time(i64::MAX).is_err());
    }
}
