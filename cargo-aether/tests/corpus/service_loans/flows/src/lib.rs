//! The workflows of a lender.

pub mod apply;
pub mod repay;
pub mod statements;
pub mod steps;
