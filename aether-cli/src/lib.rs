//! The command line: see and steer durable runs, in the file of a program that runs and of one that does not.
//!
//! Promise: nothing here advances a run, but `dev` inside of a program. Whoever decides something is recorded with it; what comes from outside reaches no
//! terminal unescaped; exit codes and the JSON of `--json` keep their meaning.
//!
//! The binary `aether` opens a store by itself. [`run`] is the same inside of a program that links its workflows: there
//! `start`, `verify`, `check`, `fork` and `retry` know their code.

mod args;
mod commands;
mod dispatch;
mod error;
mod exit;
mod output;
mod screen;
mod session;
#[cfg(feature = "web")]
mod supervised;
mod text;
mod time;
mod value;
#[cfg(feature = "web")]
mod watched;

pub use dispatch::{run, standalone};
pub use exit::Exit;
