//! Recordings: runs with everything that belongs to them, in one file for people, tests and other machines.
//!
//! Promise: a recording that is read back and loaded into a store replays there as it did where it was made. Secrets
//! that the [`Masking`] finds are not in it. Imports `store` and below.

mod export;
mod file;
pub(crate) mod head;
mod import;
pub mod masking;
pub mod recorded;
mod walk;

pub use file::replace_file;
pub use head::{HeadError, check_head};
pub use masking::{MASK, Masking};
pub use recorded::{RecordedFrame, RecordedRun, Recording, RecordingError, VERSION};
