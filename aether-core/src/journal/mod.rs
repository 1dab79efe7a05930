//! One run's ordered events: their kinds, the frames they are stored in, and what folds over them say.
//!
//! Promise: an event is never edited, kinds and numbers are frozen, and nothing in here reads a store. Imports
//! `vocabulary`.

pub(crate) mod bill;
pub(crate) mod carried;
pub(crate) mod code;
pub(crate) mod cut;
pub(crate) mod encoded;
pub mod event;
pub(crate) mod frame;
pub(crate) mod generation;
pub mod history;
pub(crate) mod kept;
pub(crate) mod large_values;
pub(crate) mod obligations;
pub mod resources;
pub(crate) mod spending;
pub mod version_marks;

pub use bill::{BilledCall, CallOutcome};
pub use frame::{CHAIN_START, ChainHash, Chained, Frame, JournalError, StoredFrame, chain, read_verified};
pub use large_values::{BlobRef, LargeValue};
pub use spending::BudgetUse;
