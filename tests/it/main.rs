//! Integration tests of the whole library.

mod kill_sweep;
