//! Tools for testing what is built with and for Aether: simulated runs with stubs and virtual time, crashes at every
//! write, faulty stores, and the rules that every store must keep.

#[doc(hidden)]
pub mod attribute;
pub mod conformance;
pub mod crash;
pub mod failing;
pub mod faulty;
pub mod fuzz;
mod gated;
#[doc(hidden)]
pub mod mutants;
pub mod recordings;
pub mod sim;
pub mod trap;

pub use crash::{Boundary, CrashPoint, CrashStore};
pub use failing::FailingStore;
pub use faulty::{Fault, FaultyStore};
pub use sim::{
    Comparison, CrashReport, FaultReport, Live, OrderReport, Reply, Sim, SimEnvironment, SimError, SimReport,
    call_named, call_tool, delayed, say,
};
pub use trap::{Door, Trap, TrapHit};
