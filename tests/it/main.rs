//! The integration tests of the facade, one module for each subject.

mod sim;
mod sim_crashes;
mod sim_models;
mod ui;
