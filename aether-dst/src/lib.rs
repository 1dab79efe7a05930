//! Deterministic exploration of schedules: whole engines on one thread, where every lock, flag, wake-up, spawn and store
//! call is a place at which another task may run, for as long as the seed says.
//!
//! Promise: a seed is one story (programs, and what is done to them from outside) and one schedule of it, and repeats
//! exactly in the same build. What is judged are general rules and an independent model, never one story. Without
//! `--cfg aether_dst` this crate is empty; `scripts/schedules` builds and runs it.
#![cfg(aether_dst)]

pub mod case;
pub mod explore;
pub mod judge;
pub mod judged;
pub mod model;
pub mod mutants;
pub mod play;
pub mod program;
pub mod rng;
pub mod sim;
pub mod store;
pub mod story;
pub mod world;
