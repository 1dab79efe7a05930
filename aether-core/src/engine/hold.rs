//! The reasons for which a run does not move.
//!
//! Promise: plain values; each displays as one line that says what would move the run.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use crate::store::queues::{Limit, LimitKind, QueuePosition};
use crate::vocabulary::code::RunCode;
use crate::vocabulary::contract::Status;
use crate::vocabulary::id::{CodeId, CommandId, Epoch, WorkerId};
use crate::vocabulary::queue::QueuePlace;
use crate::vocabulary::waiting::Waiting;

/// Why a run does not move, or that it does. Displays as one line.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Hold {
    /// It has ended.
    Ended {
        /// How.
        status: Status,
        /// When.
        at: Timestamp,
    },
    /// It does not fit the code that tried it, and waits for code that it fits.
    Parked {
        /// Since when.
        since: Timestamp,
        /// The difference, in one sentence.
        why: String,
        /// The code that recorded it last: a program that has it resumes the run.
        needs: RunCode,
    },
    /// An operator must say what became of a call: see [`Engine::resolve`](crate::engine::Engine::resolve).
    InDoubt {
        /// The step whose outcome is not known.
        step: CommandId,
        /// Since when.
        since: Timestamp,
    },
    /// It waits for people, other systems, a time, or other runs; at most a hundred of its waits, in the order in which they
    /// were opened.
    Waiting {
        /// What for.
        on: Vec<OpenWaitOf>,
    },
    /// A step has failed and is made again later.
    Retrying {
        /// The step.
        step: CommandId,
        /// Number of the next attempt, from 1.
        attempt: u32,
        /// Why the attempt before it failed.
        error: String,
        /// When the next attempt is due.
        next: Option<Timestamp>,
    },
    /// A worker holds it and does not renew its lease.
    SilentWorker {
        /// The worker.
        worker: WorkerId,
        /// For how long this engine has seen it silent; it may have been for longer.
        silent: Duration,
        /// How long until others may take the run over.
        takeover_in: Duration,
    },
    /// A worker that renews its lease advances it.
    Running {
        /// The worker.
        worker: WorkerId,
        /// Which claim of the run this is, from 1.
        claim: Epoch,
        /// When its journal last changed.
        since: Timestamp,
    },
    /// It could execute its next turn, and waits for one of its queue. Workers that have its code are there.
    Queued {
        /// Its queue, its key and its priority.
        place: QueuePlace,
        /// Since when it waits for this turn.
        since: Timestamp,
        /// How many runs of its key come before it, counted up to [`QueuePosition::MOST`].
        ahead: u64,
        /// The limit that keeps it back; `None` where only its order does.
        limit: Option<Limit>,
    },
    /// It is due, and a worker that has its code will take it: soon, unless all of them are full.
    Due {
        /// Since when it is due.
        since: Timestamp,
    },
    /// It is due, and no worker that is there has its code. Those that have its workflow may adopt it.
    NoCode {
        /// Since when it is due.
        since: Timestamp,
        /// The code that it needs.
        code: CodeId,
    },
    /// It is due, and of the workers that have its code none takes it: none serves its queue, or none takes runs that are
    /// in no queue.
    NotServed {
        /// Since when it is due.
        since: Timestamp,
        /// Its queue and its key; `None` for a run without one.
        place: Option<QueuePlace>,
    },
    /// It is due, and no worker is there.
    NoWorker {
        /// Since when it is due.
        since: Timestamp,
    },
    /// It is not due yet: it is to be started later, or was released after a fault that its worker has logged.
    NotYet {
        /// When it is due.
        at: Timestamp,
    },
    /// This engine holds it, and the store refuses to write.
    StoreRefuses {
        /// For how long.
        time: Duration,
        /// What the store said last.
        error: String,
    },
}

/// An open wait of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenWaitOf {
    /// The command that waits.
    pub command: CommandId,
    /// What it waits for.
    pub waiting: Waiting,
    /// Its name: of the signal, of the step, of the matter, or the question's text.
    pub name: String,
    /// Since when.
    pub since: Timestamp,
    /// When it expires, fires, or the next attempt is due.
    pub until: Option<Timestamp>,
    /// For retries, the number of the next attempt, from 0.
    pub(crate) attempt: Option<u32>,
    /// For retries, why the last attempt failed.
    pub(crate) error: Option<String>,
}

impl Hold {
    /// What open waits make of a run; `None` without any.
    pub(crate) fn of_waits(waits: Vec<OpenWaitOf>) -> Option<Self> {
        if let Some(wait) = waits.iter().find(|wait| wait.waiting == Waiting::Resolution) {
            return Some(Self::InDoubt { step: wait.command.clone(), since: wait.since });
        }
        let retries = waits.iter().filter(|wait| wait.waiting == Waiting::Retry);
        match retries.min_by_key(|wait| wait.until) {
            Some(retry) if waits.iter().all(|wait| wait.waiting == Waiting::Retry) => Some(Self::Retrying {
                step: retry.command.clone(),
                attempt: retry.attempt.unwrap_or(0).saturating_add(1),
                error: retry.error.clone().unwrap_or_default(),
                next: retry.until,
            }),
            _ if waits.is_empty() => None,
            _ => Some(Self::Waiting { on: waits }),
        }
    }

    /// Whether nothing moves the run until somebody does something: resolves a call, starts a worker, deploys code, or
    /// raises the limit of a paused queue.
    pub fn needs_operator(&self) -> bool {
        match self {
            Self::Parked { .. }
            | Self::InDoubt { .. }
            | Self::NoCode { .. }
            | Self::NotServed { .. }
            | Self::NoWorker { .. }
            | Self::StoreRefuses { .. } => true,
            Self::Queued { limit: Some(limit), .. } => {
                matches!(limit.kind, LimitKind::Running(0) | LimitKind::Starts { n: 0, .. })
            }
            _ => false,
        }
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended { status, at } => write!(f, "it is {status} since {at}"),
            Self::Parked { since, why, needs } => {
                write!(f, "parked since {since}: {why}; it needs {needs}, or code that fits it")
            }
            Self::InDoubt { step, since } => {
                write!(f, "the outcome of {step} is not known since {since}: `resolve` it")
            }
            Self::Waiting { on } => waiting(f, on),
            Self::Retrying { step, attempt, error, next } => {
                write!(f, "{step} has failed ({error}), attempt {attempt} ")?;
                match next {
                    Some(next) => write!(f, "is due at {next}"),
                    None => f.write_str("is being made"),
                }
            }
            Self::SilentWorker { worker, silent, takeover_in } => write!(
                f,
                "worker {worker} holds it and has been silent for {silent:.1?}; others may take it over in {takeover_in:.1?}"
            ),
            Self::Running { worker, claim, since } => {
                write!(f, "worker {worker} advances it (claim {claim}); its journal last changed at {since}")
            }
            Self::Queued { place, since, ahead, limit } => {
                write!(f, "it waits for a turn of {place} since {since}, behind ")?;
                let at_least = if *ahead >= QueuePosition::MOST { "at least " } else { "" };
                write!(f, "{at_least}{ahead} of its key")?;
                limit.as_ref().map_or(Ok(()), |limit| write!(f, ", kept back by the limit `{limit}`"))
            }
            Self::Due { since } => write!(f, "due since {since}, and not claimed yet"),
            Self::NoCode { since, code } => {
                write!(f, "due since {since}, and no worker that is there has its code {code}")
            }
            Self::NotServed { since, place: Some(place) } => {
                write!(f, "due since {since}, and no worker that is there serves {place}")
            }
            Self::NotServed { since, place: None } => {
                write!(f, "due since {since}, and the workers that are there take only runs of queues")
            }
            Self::NoWorker { since } => write!(f, "due since {since}, and no worker is there"),
            Self::NotYet { at } => write!(f, "due at {at}"),
            Self::StoreRefuses { time, error } => {
                write!(f, "the store has refused writes for {time:.1?}: {error}")
            }
        }
    }
}

/// The first wait, and how many more there are.
fn waiting(f: &mut fmt::Formatter<'_>, on: &[OpenWaitOf]) -> fmt::Result {
    let Some(first) = on.first() else { return f.write_str("it waits for a message") };
    write!(f, "{} waits for {} since {}", first.name, first.waiting, first.since)?;
    if let Some(until) = first.until {
        write!(f, ", until {until}")?;
    }
    match on.len() - 1 {
        0 => Ok(()),
        1 => f.write_str(", and 1 more wait"),
        more => write!(f, ", and {more} more waits"),
    }
}
