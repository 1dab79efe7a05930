//! What comes out of a simulation: its report and the assertions on it, its errors, and what to add to the test.
//!
//! Promise: the texts of one run do not depend on the build or the machine. It imports no other folder of the simulator.

pub(crate) mod advice;
mod assertions;
pub(crate) mod call;
mod difference;
pub(crate) mod divergence;
pub(crate) mod error;
pub(crate) mod journal;
pub(crate) mod reordered;
pub(crate) mod running;
pub(crate) mod sim_report;
pub(crate) mod streams;
