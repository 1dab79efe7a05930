//! Why a run does not move, in a word, in a sentence, and with what would move it.

use aether_core::engine::Hold;
use aether_core::id::RunId;
use aether_core::view::pending::Waiting;
use clap::ValueEnum;
use schemars::JsonSchema;
use serde::Serialize;

use crate::text::word;

/// Why a run does not move, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Reason {
    /// It has ended.
    Ended,
    /// It does not fit the code that tried it.
    Parked,
    /// Nobody knows what became of a call.
    InDoubt,
    /// It waits for a person's consent.
    Approval,
    /// It waits for an answer.
    Question,
    /// It waits for a report from another system.
    Callback,
    /// A resource has changed since the run changed it.
    Confirmation,
    /// It waits for a signal.
    Signal,
    /// It waits for a time.
    Timer,
    /// It waits for the end of a child run.
    Child,
    /// It waits for a limit on steps.
    Limit,
    /// It waits for a message.
    Message,
    /// A step has failed and is made again later.
    Retrying,
    /// A worker holds it and does not renew its lease.
    SilentWorker,
    /// A worker advances it.
    Running,
    /// It waits for a turn of its queue.
    Queued,
    /// A worker will take it soon.
    Due,
    /// No worker that is there has its code.
    NoCode,
    /// No worker that is there serves its queue.
    NotServed,
    /// No worker is there.
    NoWorker,
    /// It is not due yet.
    NotYet,
    /// The store refuses to write.
    StoreRefuses,
    /// Another reason, of a newer engine.
    Other,
}

impl Reason {
    /// How soon somebody should look at what a run waits for.
    const fn urgency(waiting: Waiting) -> u8 {
        match waiting {
            Waiting::Resolution | Waiting::Confirmation => 0,
            Waiting::Approval | Waiting::Question => 1,
            Waiting::Callback | Waiting::Signal => 2,
            _ => 3,
        }
    }

    /// Every reason for which a run does not move; more than one where it waits for several things.
    pub(crate) fn all_of(hold: &Hold) -> Vec<Self> {
        vec![match hold {
            Hold::Waiting { on } if on.is_empty() => Self::Message,
            Hold::Waiting { on } => return on.iter().map(|wait| Self::of_wait(wait.waiting)).collect(),
            Hold::Ended { .. } => Self::Ended,
            Hold::Parked { .. } => Self::Parked,
            Hold::InDoubt { .. } => Self::InDoubt,
            Hold::Retrying { .. } => Self::Retrying,
            Hold::SilentWorker { .. } => Self::SilentWorker,
            Hold::Running { .. } => Self::Running,
            Hold::Queued { .. } => Self::Queued,
            Hold::Due { .. } => Self::Due,
            Hold::NoCode { .. } => Self::NoCode,
            Hold::NotServed { .. } => Self::NotServed,
            Hold::NoWorker { .. } => Self::NoWorker,
            Hold::NotYet { .. } => Self::NotYet,
            Hold::StoreRefuses { .. } => Self::StoreRefuses,
            _ => Self::Other,
        }]
    }

    const fn of_wait(waiting: Waiting) -> Self {
        match waiting {
            Waiting::Approval => Self::Approval,
            Waiting::Question => Self::Question,
            Waiting::Callback => Self::Callback,
            Waiting::Resolution => Self::InDoubt,
            Waiting::Confirmation => Self::Confirmation,
            Waiting::Signal => Self::Signal,
            Waiting::Timer => Self::Timer,
            Waiting::Child => Self::Child,
            Waiting::Retry => Self::Retrying,
            Waiting::Limit => Self::Limit,
            _ => Self::Other,
        }
    }
}

/// Why a run does not move.
#[derive(Clone, Serialize, JsonSchema)]
pub(crate) struct Held {
    /// In a word; of several, the one that somebody should look at first.
    pub(crate) reason: Reason,
    /// In a sentence.
    pub(crate) text: String,
    /// Whether nothing moves it until somebody does something.
    pub(crate) needs_operator: bool,
    /// What would move it, as a command or as advice.
    pub(crate) fix: Option<String>,
}

impl Held {
    pub(crate) fn of(run: &RunId, hold: &Hold) -> Self {
        let mut hold = hold.clone();
        if let Hold::Waiting { on } = &mut hold {
            on.sort_by_key(|wait| Reason::urgency(wait.waiting));
        }
        let hold = &hold;
        let reason = Reason::all_of(hold).first().copied().unwrap_or(Reason::Other);
        Self {
            reason,
            text: hold.to_string(),
            needs_operator: hold.needs_operator(),
            fix: fix(run, hold, reason),
        }
    }
}

fn fix(run: &RunId, hold: &Hold, reason: Reason) -> Option<String> {
    let run = word(run.as_str());
    Some(match (reason, hold) {
        (Reason::Parked, _) => {
            "start a program with code that it fits; `check` in that program says which runs it fits".into()
        }
        (Reason::InDoubt, _) => {
            format!(
                "look at the world, then `inbox resolve {run} --happened JSON` or `--did-not-happen` or `--abandon`"
            )
        }
        (Reason::Approval, _) => format!("`inbox approve {run}` or `inbox reject {run} --reason WHY`"),
        (Reason::Question, _) => format!("`inbox show {run}`, then `inbox answer {run} VALUE`"),
        (Reason::Confirmation, _) => {
            format!("`inbox show {run}`, then `inbox confirm {run} --accept` or `--fail`")
        }
        (Reason::Signal, Hold::Waiting { on }) => {
            let name = on.first().map_or_else(|| "NAME".into(), |wait| word(&wait.name));
            format!("`signal {run} {name} VALUE`")
        }
        (Reason::NoWorker, _) => "start the program that advances the runs of this store".into(),
        (Reason::NoCode, _) => "start a program that has its workflow".into(),
        (Reason::NotServed, _) => "start a program that serves its queue".into(),
        (Reason::StoreRefuses, _) => "`doctor` says what is wrong with the store".into(),
        _ => return None,
    })
}
