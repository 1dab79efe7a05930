//! What the unit tests of the effect gate share.

mod script;
pub(crate) mod stage;
