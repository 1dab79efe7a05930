//! The options of an attribute: read, refused with the form they have, and held against each other.

pub(crate) mod allow;
pub(crate) mod read;
pub(crate) mod rules;
pub(crate) mod values;
pub(crate) mod written;
