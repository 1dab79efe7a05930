//! Replay modes, and the policy that is consulted before every command.
//!
//! Promise: no policy makes a recorded effect happen again.

use std::fmt::Debug;

use crate::vocabulary::id::{CommandId, RunId};
use crate::vocabulary::outcome::EffectClass;

/// What a replay may do beyond what is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Inject recorded outcomes, then continue live.
    Recover,
    /// Only inject recorded outcomes. An unrecorded effect is an error, and no body is called.
    Verify,
}

/// A policy's decision about one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Follow the mode: inject where recorded, else execute in `Recover` and forbid in `Verify`.
    Default,
    /// The command must be recorded; if it is not, the run stops.
    Inject,
    /// The command may execute where the mode allows it, without asking the matcher first. The effect gate still
    /// delivers a recorded outcome instead of producing it again.
    Execute,
    /// The command must not happen, recorded or not; the run stops with a fault that gives this reason.
    Forbid(String),
}

/// The command that a policy is consulted about.
#[derive(Clone, Debug)]
pub struct Consulted<'a> {
    /// The run that requests the command.
    pub run: &'a RunId,
    /// Place and name of the command.
    pub command: &'a CommandId,
    /// Effect class of the command.
    pub class: EffectClass,
    /// Whether its outcome is recorded.
    pub recorded: bool,
    /// The mode of this replay.
    pub mode: Mode,
}

/// Is consulted before every command, on replay and live. Whatever it decides, a recorded outcome is never produced
/// again. Set it with `Engine::builder().policy(..)`.
///
/// ```
/// use aether_core::policy::{Consulted, ReplayPolicy, Verdict};
/// /// Lets runs resume, but makes no new call that changes the world.
/// #[derive(Debug)]
/// struct Freeze;
///
/// impl ReplayPolicy for Freeze {
///     fn consult(&self, consulted: &Consulted<'_>) -> Verdict {
///         if consulted.class.changes_world() && !consulted.recorded {
///             return Verdict::Forbid("changes are frozen until Monday".to_owned());
///         }
///         Verdict::Default
///     }
/// }
/// ```
pub trait ReplayPolicy: Send + Sync + Debug + 'static {
    /// Decides about one command. Called in the task that advances the run: it must not block.
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
