//! Aether.
