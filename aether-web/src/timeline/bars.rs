//! What an execution did, stretch by stretch.

use std::collections::BTreeSet;

use aether_core::contract::Status;
use aether_core::id::CommandId;
use aether_core::outcome::EffectClass;
use aether_core::view::{CALLBACK, Execution, Purpose, RunView, StepView};
use jiff::Timestamp;

use crate::text::time::{between, length};

/// What a stretch of an execution was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A body at work that returned a value.
    Worked,
    /// A body at work that failed.
    Failed,
    /// A body at work now.
    Working,
    /// The time until the next attempt.
    Backoff,
    /// Waiting for a person.
    Person,
    /// Nobody knows whether it happened.
    Unknown,
    /// Waiting for a time, a message or a limit.
    Wait,
    /// Another run at work.
    Child,
}

impl Kind {
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Worked => "worked",
            Self::Failed => "failed",
            Self::Working => "working",
            Self::Backoff => "backoff",
            Self::Person => "person",
            Self::Unknown => "unknown",
            Self::Wait => "wait",
            Self::Child => "child",
        }
    }

    const fn says(self) -> &'static str {
        match self {
            Self::Worked => "at work",
            Self::Failed => "failed",
            Self::Working => "at work now",
            Self::Backoff => "until the next attempt",
            Self::Person => "waiting for a person",
            Self::Unknown => "outcome unknown",
            Self::Wait => "waiting",
            Self::Child => "another run",
        }
    }

    /// Whether somebody computes meanwhile, so that the time counts for the scale.
    pub(crate) const fn is_work(self) -> bool {
        matches!(self, Self::Worked | Self::Failed | Self::Working)
    }
}

/// A stretch of time of one execution.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stretch {
    pub(crate) from: Timestamp,
    pub(crate) to: Timestamp,
    pub(crate) kind: Kind,
    /// Number of the attempt, from 1.
    pub(crate) attempt: usize,
}

impl Stretch {
    pub(crate) fn says(&self) -> String {
        let took = length(between(self.from, self.to));
        match self.attempt {
            0 | 1 => format!("{}, {took}", self.kind.says()),
            attempt => format!("attempt {attempt}: {}, {took}", self.kind.says()),
        }
    }
}

/// When a run that is still open is looked at, and what of it is in doubt.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    pub(crate) now: Timestamp,
    pub(crate) unknown: BTreeSet<CommandId>,
}

/// The stretches of one execution, the `attempt`th of its command.
pub(crate) fn stretches(
    view: &RunView,
    step: Option<&StepView>,
    execution: &Execution,
    attempt: usize,
    moment: &Moment,
) -> Vec<Stretch> {
    let lifecycle = &execution.lifecycle;
    let end = match view.status.is_terminal() {
        true => view.lifecycle.updated_at,
        false => moment.now,
    };
    let mut found = Vec::with_capacity(lifecycle.transitions.len() + 1);
    let (mut from, mut status) = (lifecycle.created.at, Status::Pending);
    let mut put = |from: Timestamp, to: Timestamp, status: Status, left_by: Option<&str>| {
        let to = to.max(from);
        if let Some(kind) = kind(step, execution, attempt, (status, left_by), moment)
            && (to > from || kind != Kind::Backoff)
        {
            found.push(Stretch { from, to, kind, attempt });
        }
    };
    for moved in &lifecycle.transitions {
        put(from, moved.moment.at, status, Some(&moved.actor));
        (from, status) = (moved.moment.at, moved.to);
    }
    if !status.is_terminal() {
        put(from, end, status, None);
    }
    found
}

fn kind(
    step: Option<&StepView>,
    execution: &Execution,
    attempt: usize,
    (status, left_by): (Status, Option<&str>),
    moment: &Moment,
) -> Option<Kind> {
    let in_doubt = step.is_some_and(|step| step.in_doubt) && execution.class.changes_world();
    match status {
        Status::Pending if attempt > 1 => Some(Kind::Backoff),
        Status::Running => Some(match execution.lifecycle.status {
            _ if execution.purpose == Purpose::Approval => return None,
            _ if matches!(execution.class, EffectClass::Human | EffectClass::Workflow) => return None,
            Status::Completed | Status::Waiting => Kind::Worked,
            Status::Failed | Status::Cancelled | Status::Rejected if in_doubt => Kind::Unknown,
            Status::Failed | Status::Cancelled | Status::Rejected => Kind::Failed,
            _ => Kind::Working,
        }),
        Status::Waiting => Some(match execution.class {
            EffectClass::Workflow => Kind::Child,
            _ if execution.purpose == Purpose::Approval => Kind::Person,
            EffectClass::Human if execution.decided_by.is_some() || left_by.is_none() => Kind::Person,
            class if class.changes_world() => match left_by {
                Some(CALLBACK) => Kind::Wait,
                Some(_) => Kind::Unknown,
                None if moment.unknown.contains(&execution.command) => Kind::Unknown,
                None => Kind::Wait,
            },
            _ => Kind::Wait,
        }),
        _ => None,
    }
}
