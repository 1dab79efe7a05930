//! People in the loop: approvals, questions, and operators' decisions. For workflows that wait for a person, and for the
//! services through which people answer.

pub use aether_core::engine::{DecideError, NamedWait};
pub use aether_core::inbox::{Decision, Expiry, Resolution};
pub use aether_core::policy::{ApprovalCall, Approvals};
pub use aether_core::store::{WaitFilter, WaitPlace};
pub use aether_core::view::WaitRef;
pub use aether_core::view::pending::{Pending, PendingPage, UnreadableWait, Waiting};
pub use aether_core::workflow::{ApprovalRequest, Question};
