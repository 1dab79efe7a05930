//! What the benches share: options, figures, memory, second processes, and the floors that they are measured against.
//!
//! Promise: a floor writes or reads the same bytes as what it is compared with, in the same folder and in the same call of
//! the bench. A floor that did less than it should is an error, not a figure.

#![allow(dead_code, reason = "no bench uses all of it")]

pub(crate) mod child;
pub(crate) mod figures;
pub(crate) mod journal;
pub(crate) mod memory;
pub(crate) mod options;
pub(crate) mod place;
pub(crate) mod progress;
pub(crate) mod writer;

/// What a bench returns. An error ends it with its text.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
