//! What macros say of a program: workflows as state machines, steps with their options, and pictures of both.
//!
//! Promise: static data that executes nothing. Imports `vocabulary`.

pub mod def;
mod graph;
