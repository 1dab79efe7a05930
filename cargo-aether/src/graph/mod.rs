//! The graph of references: which function or datum names which, over all object files of a build.
//!
//! Promise: a reference counts as a call, so that trait objects, function pointers, closures in statics, `Drop` and
//! `Display` need no rules of their own. Instances that several crates share are one node.

pub(crate) mod nodes;
pub(crate) mod object_file;
pub(crate) mod parts;
