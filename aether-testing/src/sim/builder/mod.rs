//! What a test writes: [`Sim`](sim::Sim) and its methods, from stubs over people and the surroundings to runs and sweeps.
//!
//! Promise: a simulation is built from values only, and begins when one of `run` and `sweeps` is awaited. It imports every
//! other folder of the simulator, and none of them imports it.

// In the order in which a test needs them, which is that of the methods on the page of `Sim`.
pub(crate) mod sim;

mod steps;

pub(crate) mod when;

mod children;

mod effects;

mod http;

mod model;

mod people;

mod surroundings;

mod run;

mod sweeps;

pub(crate) mod schedules;

mod recorded;
