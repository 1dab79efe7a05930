//! The attributes: what each makes of the item it stands on.
//!
//! Promise: the roof; the crate's root is its only caller.

pub(crate) mod accepts;
pub(crate) mod block;
pub(crate) mod deterministic;
pub(crate) mod function;
pub(crate) mod item;
pub(crate) mod module;
pub(crate) mod test;
