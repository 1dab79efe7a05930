//! The trap: while workflow code is polled in a simulation, calls of libc that read the clock, draw entropy, open
//! files or sockets, read the environment, or start processes and threads are caught.
//!
//! Promise: calls by bodies of steps, by stubs, by the engine, by logging and by panics are never caught. What reaches
//! the world without a call of libc is not seen:
//!
//! * code that is not polled as the workflow's own, such as a task that workflow code spawned;
//! * generators that were seeded before, and keys of hash maps, which a thread draws once;
//! * `std::env::vars` and `std::env::args`, which read memory, not `getenv`;
//! * statics, thread-locals, addresses and thread ids, which are memory of this process;
//! * `tokio::time::Instant::now` under a simulation's paused clock, and system calls made without libc.
//!
//! [`Sim::check_deterministic`](crate::Sim::check_deterministic) is for those.
//!
//! The trap works on Linux with glibc, where the linker prefers this crate's definitions to libc's; elsewhere, or
//! without the feature `trap`, nothing is caught, and the first simulation warns of it.

#[cfg(all(feature = "trap", target_os = "linux", target_env = "gnu"))]
mod frames;
pub(crate) mod hit;
#[cfg(all(feature = "trap", target_os = "linux", target_env = "gnu"))]
mod overrides;
pub(crate) mod setting;
#[cfg(all(feature = "trap", target_os = "linux", target_env = "gnu"))]
pub(crate) mod watch;

#[cfg(not(all(feature = "trap", target_os = "linux", target_env = "gnu")))]
#[path = "absent.rs"]
pub(crate) mod watch;

pub use hit::{TrapHit, TrapKind};
pub use setting::Trap;
