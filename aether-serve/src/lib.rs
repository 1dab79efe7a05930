//! What the servers of Aether have in common: the console, and workflows as tools.
//!
//! Promise: who is slow at the other end, or says nothing, keeps nobody else out.

mod connections;
mod patient;

pub use connections::{Connections, Stranger};
pub use patient::Patient;
