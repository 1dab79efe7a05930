//! The vocabulary of the crate: ids, recorded values, outcomes, failures, limits, and the environment.
//!
//! Promise: plain data and traits; nothing in here knows a journal, a store or a run. Imports no other room.

pub mod budget;
pub(crate) mod callback_token;
pub(crate) mod canonical;
pub mod clock_change;
pub(crate) mod code;
pub mod codec;
pub mod contract;
pub mod deps;
pub mod environment;
pub(crate) mod error_text;
pub mod failure;
pub mod id;
pub(crate) mod known_errors;
pub mod labels;
pub mod limits;
pub(crate) mod masking;
pub mod measures;
pub(crate) mod net;
pub(crate) mod one_line;
pub(crate) mod opaque;
pub mod outcome;
pub mod payload;
pub mod queue;
pub(crate) mod quoted_text;
pub(crate) mod redaction;
pub(crate) mod seed;
pub(crate) mod shared_text;
pub(crate) mod spans;
pub mod trace;
pub mod waiting;
pub(crate) mod walk;
pub(crate) mod without_values;
