//! What the unit tests of the effect gate share.

pub(crate) mod stage;
