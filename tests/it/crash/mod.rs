//! Proofs of crash safety: generated workflows that die at random points, a matrix of every kind of step and every
//! instant at which a process can die in it, and processes on one database of which one is killed again and again.

mod bookings;
mod forks;
mod interpret;
mod judge;
pub(crate) mod lives;
mod matrix;
mod model;
mod program;
mod property;
mod stage;
mod steps;
mod two_processes;
