//! What stands between the engine and bodies: answers them from their scripts, and writes every call down.
//!
//! Promise: a call that no script answers stops the simulation. It imports `settings` and what stands below it.

mod conversations;
pub(crate) mod dispatcher;
pub(crate) mod latch;
pub(crate) mod model_client;
mod pieces;
pub(crate) mod reports;
mod turns;
