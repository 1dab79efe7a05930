//! The workflows of a help desk.

mod answer;
mod desk;
mod digest;
mod steps;

pub use answer::{Drafted, draft_answer};
pub use desk::{Ended, escalate, handle_ticket, settle_credit};
pub use digest::{Digest, weekly_digest};
pub use steps::{
    add_credit, article, page_team, past_tickets, remove_credit, send_mail, solved_tickets, tickets_of_week,
};
