//! What waits for people.
//!
//! Promise: a decision names its wait, and may name what was seen of it.

use aether_core::view::pending::Waiting;
use clap::{Args, Subcommand};

use crate::args::runs::some;

#[derive(Debug, Subcommand)]
pub(crate) enum Inbox {
    /// What waits for people, operators and other systems, oldest first
    List(InboxList),
    /// One wait, with its question, arguments and digest
    Show(ShowWait),
    /// Consent to a call, or to what a workflow asks
    Approve(Approve),
    /// Refuse a call, or what a workflow asks
    Reject(Reject),
    /// Answer a question
    Answer(Answer),
    /// Say what became of a call whose outcome nobody knows
    Resolve(Resolve),
    /// Say what to do about a resource that has changed since the run changed it
    Confirm(Confirm),
}

#[derive(Debug, Args)]
pub(crate) struct InboxList {
    /// Only waits of this run
    #[arg(long, value_name = "RUN")]
    pub(crate) run: Option<String>,
    /// Only waits of runs of this workflow
    #[arg(long, value_name = "NAME")]
    pub(crate) workflow: Option<String>,
    /// Only waits of this name
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Only waits of this kind; may be repeated. Timers, children, retries and limits are listed only when named
    #[arg(long, value_name = "KIND", value_parser = waiting)]
    pub(crate) kind: Vec<Waiting>,
    /// At most so many
    #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = some)]
    pub(crate) limit: usize,
    /// The page behind this place
    #[arg(long, value_name = "PLACE")]
    pub(crate) after: Option<u64>,
}

/// Which wait.
#[derive(Debug, Args)]
pub(crate) struct ShowWait {
    /// Id of the run
    pub(crate) run: String,
    /// Command or name of the wait; not needed where only one fits
    pub(crate) wait: Option<String>,
}

/// Which wait, and what was seen of it.
#[derive(Debug, Args)]
pub(crate) struct WhichWait {
    #[command(flatten)]
    pub(crate) which: ShowWait,
    /// The digest that `inbox show` printed: nothing else is decided about
    #[arg(long, value_name = "DIGEST")]
    pub(crate) digest: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Approve {
    #[command(flatten)]
    pub(crate) wait: WhichWait,
    /// Edit the arguments in $VISUAL or $EDITOR first
    #[arg(long, conflicts_with = "args")]
    pub(crate) edit: bool,
    /// Approve with these arguments instead: JSON, @FILE, or - for stdin
    #[arg(long, value_name = "JSON")]
    pub(crate) args: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Reject {
    #[command(flatten)]
    pub(crate) wait: WhichWait,
    /// Why, for the record and for the run
    #[arg(long)]
    pub(crate) reason: String,
}

#[derive(Debug, Args)]
pub(crate) struct Answer {
    /// Id of the run
    pub(crate) run: String,
    /// The answer: JSON, @FILE, or - for stdin
    #[arg(required_unless_present = "text", allow_negative_numbers = true)]
    pub(crate) value: Option<String>,
    /// The answer as a plain text
    #[arg(long, conflicts_with = "value")]
    pub(crate) text: Option<String>,
    /// Command or name of the question; not needed where only one is open
    #[arg(long, value_name = "WAIT")]
    pub(crate) wait: Option<String>,
    /// The digest that `inbox show` printed: nothing else is answered
    #[arg(long, value_name = "DIGEST")]
    pub(crate) digest: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Resolve {
    #[command(flatten)]
    pub(crate) wait: WhichWait,
    #[command(flatten)]
    pub(crate) outcome: OutcomeOf,
}

/// What became of the call.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct OutcomeOf {
    /// It happened, with this result: JSON, @FILE, or - for stdin
    #[arg(long, value_name = "JSON", allow_negative_numbers = true)]
    pub(crate) happened: Option<String>,
    /// It did not happen: it is made again
    #[arg(long)]
    pub(crate) did_not_happen: bool,
    /// Nobody will ever know: the step fails as in doubt
    #[arg(long)]
    pub(crate) abandon: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Confirm {
    #[command(flatten)]
    pub(crate) wait: WhichWait,
    #[command(flatten)]
    pub(crate) decision: Confirmed,
}

/// What to do about the resource.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Confirmed {
    /// Its state is accepted as it is
    #[arg(long)]
    pub(crate) accept: bool,
    /// The run fails for good
    #[arg(long)]
    pub(crate) fail: bool,
}

fn waiting(text: &str) -> Result<Waiting, String> {
    let names = || Waiting::all().map(Waiting::as_str).collect::<Vec<_>>().join(", ");
    Waiting::parse(text).ok_or_else(|| format!("{text:?} is no kind of wait: one of {}", names()))
}
