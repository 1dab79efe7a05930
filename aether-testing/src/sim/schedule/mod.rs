//! One schedule of a simulation: what comes when, as data, and what makes it happen in store, clock and bodies.
//!
//! Promise: a schedule is a list of choices. The same choices give the same simulation, and no choice changes nothing.
//! It imports `report`, `tape` and `world`.

pub(crate) mod draw;
pub(crate) mod pace;
pub(crate) mod paced_store;
pub(crate) mod paced_world;
pub(crate) mod plan;
pub(crate) mod survey;
mod text;
