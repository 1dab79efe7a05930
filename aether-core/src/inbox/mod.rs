//! Messages to a run: topics, replies, decisions.
//!
//! Promise: sender and receiver share these types, and neither knows the other. Imports `store` and below.

pub(crate) mod decisions;
pub(crate) mod error;
pub(crate) mod replies;
pub(crate) mod topics;

pub use decisions::{Decision, Expiry, Resolution};
pub use error::SendError;
