//! Phase one: tokens to an attribute's options and the item it stands on.
//!
//! Promise: judges nothing but the grammar. Imports `diagnostics` and `syntax`.

pub(crate) mod inherit;
pub(crate) mod item;
pub(crate) mod kind;
pub(crate) mod options;
