//! Effects on the world outside: clock and entropy.

pub mod world;
