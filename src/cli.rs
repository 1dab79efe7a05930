//! The command line of the engine, inside of the program: for programs whose operators look at runs and steer them.

pub use aether_cli::{Exit, run};
