//! Tools for testing what is built with and for Aether.

pub mod conformance;
