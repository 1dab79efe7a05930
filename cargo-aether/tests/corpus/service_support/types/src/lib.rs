//! Tickets, who they are for, and how fast they are answered.

pub mod mail;
pub mod route;
pub mod sla;
pub mod text;
pub mod ticket;

pub use ticket::{Event, Plan, Priority, Status, Team, Ticket, Transition};
