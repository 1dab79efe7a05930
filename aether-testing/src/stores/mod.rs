//! Stores that misbehave: they die, fail, answer wrongly, or break a rule on purpose. All stand in front of a real one.
//!
//! Promise: what a store lets pass reaches the store behind it unchanged. It imports no other folder of this crate.

pub(crate) mod agreeing;
pub mod crash;
pub(crate) mod crash_point;
pub mod failing;
pub mod faulty;
mod gated;
pub mod mutants;
pub(crate) mod stream_watch;
