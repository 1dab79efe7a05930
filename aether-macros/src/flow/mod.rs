//! The awaits of a workflow's body: each is numbered and put behind the gate, and a graph tells which may follow which.
//!
//! Promise: imports what lies below it: `plan`, `syntax` and `diagnostics`. The graph is made of a body with gates.

pub(crate) mod gate;
pub(crate) mod graph;
#[cfg(test)]
mod tests;
pub(crate) mod walk;
