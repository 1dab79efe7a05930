//! Tools for testing what is built with and for Aether: simulated runs with stubs and virtual time, crashes at every
//! write, faulty stores, and the rules that every store must keep.
//!
//! Promise: what is simulated is only the world; engine, journal, ledger and replay are the real ones. Nothing here is for
//! programs in service.

#[doc(hidden)]
pub mod attribute;
pub mod conformance;
pub mod fuzz;
pub mod recordings;
pub mod sim;
mod stores;
pub mod trap;

pub use sim::{
    Comparison, CrashReport, EverySchedule, FaultReport, Live, OrderReport, Reply, ScheduleReport, Sim,
    SimEnvironment, SimError, SimReport, SimStream, call_named, call_tool, delayed, say, say_in_pieces,
};
pub use stores::agreeing::{AgreeingStore, lists_what_its_journal_says};
pub use stores::crash::{Boundary, CrashPoint, CrashStore};
pub use stores::failing::FailingStore;
pub use stores::faulty::{FaultyStore, StoreFault};
#[doc(hidden)]
pub use stores::mutants;
pub use stores::{crash, failing, faulty};
pub use trap::{Trap, TrapHit, TrapKind};
