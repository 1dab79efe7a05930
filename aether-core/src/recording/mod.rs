//! Recordings: runs with everything that belongs to them, in one file for people, tests and other machines.
//!
//! Promise: a recording that is read back and imported into a store replays there as it did where it was made. It does
//! not contain the secrets that the [`Masking`] finds. Imports `store` and below.

pub(crate) mod decided;
pub(crate) mod evidence;
pub(crate) mod evidence_report;
mod export;
mod file;
pub(crate) mod head;
mod import;
pub mod recorded;

pub use crate::vocabulary::masking::{MASK, Masking};
pub use decided::EvidenceDecision;
pub use evidence::{Evidence, EvidenceError, EvidenceReplay};
pub use evidence_report::EvidenceReport;
pub use file::replace_file;
pub use head::{HeadError, check_head};
pub use recorded::{RecordedFrame, RecordedRun, Recording, RecordingError, VERSION};
