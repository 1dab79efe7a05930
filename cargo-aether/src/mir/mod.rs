//! What leaves no reference in an object file, read from the MIR of the workspace's crates: addresses that become numbers or
//! are compared, assembly, and what is done with entries that does not depend on their order.
//!
//! Promise: MIR is text that the compiler changes at will; what is not understood in it is passed over.

mod alone;
mod made;
mod parts;
pub(crate) mod read;
mod text;
pub(crate) mod told;
