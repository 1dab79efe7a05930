//! What a program decides beforehand: whether commands may execute, which calls need approval, how resources are
//! verified, when a schedule ticks.
//!
//! Promise: a policy can forbid and can require more; it cannot lower what a step declares. Imports `definition`,
//! `journal` and below.

pub(crate) mod approvals;
pub(crate) mod cron;
pub(crate) mod replay;
pub(crate) mod retries;
pub(crate) mod verifiers;

pub use approvals::{ApprovalCall, Approvals};
pub use cron::{Cron, CronError};
pub use replay::{Consulted, DefaultPolicy, Mode, ReplayPolicy, Verdict};
pub use verifiers::{Inspection, Verifier};
