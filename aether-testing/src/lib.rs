//! Tools for testing what is built with and for Aether: simulated runs with stubs and virtual time, crashes at every
//! write, faulty stores, and the rules that every store must keep.

#[doc(hidden)]
pub mod attribute;
pub mod conformance;
pub mod crash;
pub mod failing;
pub mod fuzz;
mod gated;
pub mod recordings;
pub mod sim;
pub mod trap;

pub use crash::{CrashPoint, CrashStore};
pub use failing::FailingStore;
pub use sim::{
    Comparison, CrashReport, Live, Reply, Sim, SimError, SimReport, SimWorld, call_named, call_tool, delayed,
    say,
};
pub use trap::{Door, Trap, TrapHit};
