//! What a model is asked and what it answers, and what a provider of models must offer.
//!
//! Promise: imports nothing of this crate; recorded types are our own and never a provider's.

pub(crate) mod attachment;
pub(crate) mod chat;
pub(crate) mod client;
pub(crate) mod error;
pub(crate) mod estimate;
pub(crate) mod price;
pub(crate) mod usage;
