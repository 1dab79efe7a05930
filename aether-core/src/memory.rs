//! The reference store: everything in memory, for tests and for programs that need no durability.
