//! What can be said of an event without knowing its fields: its kind's name, its command, whether it ends its run.

use crate::journal::event::Event;
use crate::vocabulary::id::CommandId;

impl Event {
    /// Name of the kind as it stands in the journal.
    pub fn kind(&self) -> String {
        match self {
            Self::Unknown { kind } => kind.clone(),
            known => Self::KINDS
                .iter()
                .find(|(number, _)| *number == known.number())
                .map_or_else(String::new, |(_, name)| snake_case(name)),
        }
    }

    /// The command the event is about, where it is about one.
    pub fn command(&self) -> Option<&CommandId> {
        match self {
            Self::PlanGenerated(e) => Some(&e.command),
            Self::NodeStarted(e) => Some(&e.command),
            Self::NodeFinished(e) => Some(&e.command),
            Self::CommandEmitted(e) => Some(&e.command),
            Self::CommandCommitted(e) => Some(&e.command),
            Self::StepCommitted(e) => Some(&e.command),
            Self::StepRetried(e) => Some(&e.command),
            Self::StepCompensated(e) => Some(&e.command),
            Self::ToolInvocationStarted(e) => Some(&e.command),
            Self::ToolInvocationFinished(e) => Some(&e.command),
            Self::ToolInvocationRefused(e) => Some(&e.command),
            Self::InvocationResolved(e) => Some(&e.command),
            Self::InvocationAbandoned(e) => Some(&e.command),
            Self::TimeRecorded(e) => Some(&e.command),
            Self::TimerScheduled(e) => Some(&e.command),
            Self::TimerFired(e) => Some(&e.command),
            Self::UuidRecorded(e) => Some(&e.command),
            Self::RandomRecorded(e) => Some(&e.command),
            Self::HttpRecorded(e) => Some(&e.command),
            Self::StateChanged(e) => Some(&e.command),
            Self::WaitStarted(e) => Some(&e.command),
            Self::WaitCompleted(e) => Some(&e.command),
            Self::ApprovalRequested(e) => Some(&e.command),
            Self::ApprovalDecided(e) => Some(&e.command),
            Self::ChildStarted(e) => Some(&e.command),
            Self::AnswerRefused(e) => Some(&e.command),
            Self::CallbackAwaited(e) => Some(&e.command),
            Self::CallbackReceived(e) => Some(&e.command),
            Self::VersionMarked(e) => Some(&e.command),
            Self::RaceDecided(e) => Some(&e.command),
            Self::StateConfirmed(e) => Some(&e.command),
            Self::ConfirmationDecided(e) => Some(&e.command),
            Self::CompensationRecorded(e) => Some(&e.command),
            Self::ChildReleased(e) => Some(&e.command),
            Self::TransactionFinished(e) => Some(&e.command),
            Self::TransactionRolledBack(e) => Some(&e.command),
            Self::RunCreated(_)
            | Self::RunWaiting(_)
            | Self::RunCompleted(_)
            | Self::RunFailed(_)
            | Self::RunCancelled(_)
            | Self::RunRequeued(_)
            | Self::RunUnwinding(_)
            | Self::RunTerminated(_)
            | Self::SignalReceived(_)
            | Self::CheckpointSaved(_)
            | Self::ContinuedAsNew(_)
            | Self::Unknown { .. } => None,
        }
    }

    /// Whether this event ends its run.
    pub const fn is_terminal(&self) -> bool {
        matches!(
            self,
            Self::RunCompleted(_)
                | Self::RunFailed(_)
                | Self::RunCancelled(_)
                | Self::RunTerminated(_)
                | Self::ContinuedAsNew(_)
        )
    }
}

fn snake_case(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for (i, c) in name.char_indices() {
        if c.is_ascii_uppercase() && i > 0 {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}
