//! The integration tests of the facade, one module for each subject.

mod sim;
mod ui;
