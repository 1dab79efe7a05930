//! Replay modes, and the policy that is asked before every command.

use std::fmt::Debug;

use crate::vocabulary::id::{CommandId, RunId};
use crate::vocabulary::outcome::EffectClass;

/// How far a replay may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Inject what is recorded, then go on live.
    Recover,
    /// Inject only. An unrecorded effect is an error, and nothing runs.
    Verify,
}

/// What a policy says about one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// What the mode says: inject where recorded, else execute in `Recover` and forbid in `Verify`.
    Default,
    /// The command must be recorded; if it is not, the run stops.
    Inject,
    /// The command may run where the mode lets it, without asking the matcher first. The effect gate still hands out
    /// a recorded outcome instead of producing it again.
    Execute,
    /// The command must not happen, recorded or not; the run stops with this reason.
    Forbid(String),
}

/// What a policy is told.
#[derive(Clone, Debug)]
pub struct Consulted<'a> {
    /// The run.
    pub run: &'a RunId,
    /// The command.
    pub command: &'a CommandId,
    /// What kind of contact with the world it is.
    pub class: EffectClass,
    /// Whether its outcome is recorded.
    pub recorded: bool,
    /// The mode of this replay.
    pub mode: Mode,
}

/// Is asked before every command. A recorded outcome is never produced again, whatever it says.
pub trait ReplayPolicy: Send + Sync + Debug + 'static {
    /// Decides about one command.
    fn consult(&self, consulted: &Consulted<'_>) -> Verdict;
}

/// The policy that leaves everything to the mode.
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultPolicy;

impl ReplayPolicy for DefaultPolicy {
    fn consult(&self, _: &Consulted<'_>) -> Verdict {
        Verdict::Default
    }
}
