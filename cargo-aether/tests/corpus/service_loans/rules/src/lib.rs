//! What a lender decides: scores, plans, reminders, and what a statement of a bank says.

pub mod plan;
pub mod reminders;
pub mod score;
pub mod statement;
