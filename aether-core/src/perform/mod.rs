//! The effect gate: how one step call is answered, from history or by its body.
//!
//! Promise: a body that may change the world runs only with a `DurableIntent` in hand; an unknown outcome goes to the
//! step's policy, and every decision is an event. Imports `run` and below.

mod admitted;
pub(crate) mod approval;
pub(crate) mod attempts;
mod body;
pub(crate) mod body_outcome;
mod budgeted;
pub(crate) mod business_key;
pub(crate) mod call;
mod callback;
mod catch_up;
mod commit;
mod compensation;
mod confirm;
pub(crate) mod failures;
mod heartbeat;
mod kept;
pub(crate) mod known_at_end;
mod limited;
mod reading;
mod recorded_call;
mod resend;
mod retry;
mod streams;
mod told_at_end;
mod transact;
pub(crate) mod undo;
pub(crate) mod undo_first;
mod unknown;
mod verdict;

#[cfg(test)]
pub(crate) mod tests;
