//! Runs: listing them, reading them, starting and ending them.
//!
//! Promise: what several commands take is said once.

use std::time::Duration;

use aether_core::contract::Status;
use aether_core::store::Cursor;
use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;

use crate::output::hold::Reason;
use crate::time::{parse_duration, parse_moment};

#[derive(Debug, Subcommand)]
pub(crate) enum Runs {
    /// List runs, newest first, each with why it does not move
    List(List),
    /// One run: input, result, steps, what it waits for, why it does not move
    Show(Show),
    /// The events of a run
    History(History),
    /// Wait until runs have ended
    Wait(Wait),
    /// Ask runs to end: their steps are undone
    Cancel(End),
    /// End runs at once: nothing is undone
    Terminate(End),
    /// Retry failed runs, each from before its failure
    Retry(Retry),
    /// Begin a new run with what another one has recorded up to a cut
    Fork(Fork),
}

/// Which runs.
#[derive(Debug, Args)]
pub(crate) struct Filter {
    /// Only runs of this status; may be repeated
    #[arg(long, value_name = "STATUS")]
    pub(crate) status: Vec<Status>,
    /// Only runs that have not ended
    #[arg(long, conflicts_with = "status")]
    pub(crate) open: bool,
    /// Only runs of this workflow
    #[arg(long, value_name = "NAME")]
    pub(crate) workflow: Option<String>,
    /// Only runs of this version of their workflow
    #[arg(long, value_name = "NUMBER")]
    pub(crate) version: Option<u32>,
    /// Only runs that have this label; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    pub(crate) label: Vec<(String, String)>,
    /// Only runs whose ids contain this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) id: Option<String>,
    /// Only runs of this queue
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: Option<String>,
    /// Only runs that this one started
    #[arg(long, value_name = "RUN")]
    pub(crate) parent: Option<String>,
    /// Only runs created since this time, or so long ago: 2h
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    pub(crate) since: Option<Timestamp>,
}

/// Which runs, also by why they do not move.
#[derive(Debug, Args)]
pub(crate) struct Pick {
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// Only runs that do not move for this reason; may be repeated
    #[arg(long, value_name = "REASON", value_enum)]
    pub(crate) why: Vec<Reason>,
    /// Only runs that nothing moves until somebody does something
    #[arg(long)]
    pub(crate) stuck: bool,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) pick: Pick,
    /// At most so many
    #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = some)]
    pub(crate) limit: usize,
    /// The page behind this place
    #[arg(long, value_name = "PLACE")]
    pub(crate) after: Option<Cursor>,
}

#[derive(Debug, Args)]
pub(crate) struct OneRun {
    /// Id of the run
    pub(crate) run: String,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    #[command(flatten)]
    pub(crate) run: OneRun,
    /// Only this page of its steps, from 1, of 200 each: for runs of many steps
    #[arg(long, value_name = "NUMBER", value_parser = some)]
    pub(crate) page: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct ManyRuns {
    /// Ids of the runs
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct History {
    /// Id of the run
    pub(crate) run: String,
    /// Begin with the event of this position
    #[arg(long, value_name = "POSITION", default_value_t = 0)]
    pub(crate) from: u64,
    /// At most so many events
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: u64,
    /// Only events of this kind; may be repeated
    #[arg(long, value_name = "KIND")]
    pub(crate) kind: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Wait {
    #[command(flatten)]
    pub(crate) runs: ManyRuns,
    /// Give up after this long: 90s, 2h
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,
}

/// Runs that are named, or all that fit.
#[derive(Debug, Args)]
pub(crate) struct Named {
    /// Ids of the runs; without any, the options say which
    #[arg(value_name = "RUN")]
    pub(crate) runs: Vec<String>,
    #[command(flatten)]
    pub(crate) pick: Pick,
    /// Do it to all that fit without asking: for scripts
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct End {
    #[command(flatten)]
    pub(crate) which: Named,
    /// Why, for the record
    #[arg(long)]
    pub(crate) reason: String,
}

/// What becomes of the calls behind the cut of a fork.
#[derive(Debug, Args)]
pub(crate) struct Decisions {
    /// Keep the outcome of this call; may be repeated
    #[arg(long, value_name = "COMMAND")]
    pub(crate) keep: Vec<String>,
    /// Make this call again; may be repeated
    #[arg(long, value_name = "COMMAND")]
    pub(crate) again: Vec<String>,
    /// Undo this call first; may be repeated
    #[arg(long, value_name = "COMMAND")]
    pub(crate) undo_first: Vec<String>,
    /// Keep the outcome of every undecided call that has one
    #[arg(long, conflicts_with_all = ["again_all", "undo_all_first"])]
    pub(crate) keep_all: bool,
    /// Make every undecided call again that is not irreversible
    #[arg(long, conflicts_with = "undo_all_first")]
    pub(crate) again_all: bool,
    /// Undo every undecided call first that can be undone
    #[arg(long)]
    pub(crate) undo_all_first: bool,
    /// The digest that `--dry-run` printed: by another bill nothing is started
    #[arg(long)]
    pub(crate) digest: Option<String>,
    /// Print the bill and start nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Retry {
    #[command(flatten)]
    pub(crate) which: Named,
    #[command(flatten)]
    pub(crate) decisions: Decisions,
}

#[derive(Debug, Args)]
pub(crate) struct Fork {
    /// Id of the run
    pub(crate) run: String,
    #[command(flatten)]
    pub(crate) cut: Cut,
    #[command(flatten)]
    pub(crate) decisions: Decisions,
    /// Id of the fork [default: that of the run with a number]
    #[arg(long, value_name = "RUN")]
    pub(crate) new_id: Option<String>,
    /// Replace the recorded answer of a command before the cut; may be repeated
    #[arg(long, value_name = "COMMAND=JSON", value_parser = pair)]
    pub(crate) answer: Vec<(String, String)>,
    /// Terminate a run that has not ended first, for this reason
    #[arg(long, value_name = "REASON", conflicts_with = "leave_origin_running")]
    pub(crate) end_origin: Option<String>,
    /// Let a run that has not ended run on beside its fork
    #[arg(long)]
    pub(crate) leave_origin_running: bool,
}

/// Where a run is cut.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Cut {
    /// Cut before this command, such as 5:send_email
    #[arg(long, value_name = "COMMAND")]
    pub(crate) before: Option<String>,
    /// Cut before the command whose error ended the run
    #[arg(long)]
    pub(crate) before_failure: bool,
    /// Copy nothing but the input
    #[arg(long)]
    pub(crate) from_start: bool,
    /// Copy everything up to the end of the workflow
    #[arg(long)]
    pub(crate) at_end: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Start {
    /// Name of the workflow
    pub(crate) workflow: String,
    /// Its input, an object with a field for each argument: JSON, @FILE, or - for stdin
    #[arg(default_value = "{}")]
    pub(crate) input: String,
    /// Id of the run; the same id twice is the same run
    #[arg(long, value_name = "RUN")]
    pub(crate) id: Option<String>,
    /// A label; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    pub(crate) label: Vec<(String, String)>,
    /// The queue in which it waits for its turns
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: Option<String>,
    /// Its key in the queue
    #[arg(long, value_name = "KEY", requires = "queue")]
    pub(crate) key: Option<String>,
    /// Its priority in the queue
    #[arg(long, value_name = "NUMBER", requires = "queue", allow_negative_numbers = true)]
    pub(crate) priority: Option<i32>,
}

#[derive(Debug, Args)]
pub(crate) struct Signal {
    /// Id of the run
    pub(crate) run: String,
    /// Name of the signal
    pub(crate) name: String,
    /// What it carries: JSON, @FILE, or - for stdin
    #[arg(default_value = "null", allow_negative_numbers = true)]
    pub(crate) value: String,
    /// Id of the signal: a second one of the same id is dropped, and nobody else is recorded [default: a new one, with your
    /// name]
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Streams {
    /// Print a stream, and follow it until its run has ended
    Tail(Tail),
}

#[derive(Debug, Args)]
pub(crate) struct Tail {
    /// Id of the run
    pub(crate) run: String,
    /// Name of the stream
    pub(crate) name: String,
    /// Begin with this number
    #[arg(long, value_name = "NUMBER", conflicts_with = "last")]
    pub(crate) from: Option<u64>,
    /// Begin with about the last so many items
    #[arg(long, value_name = "NUMBER")]
    pub(crate) last: Option<usize>,
    /// Do not wait for what is not there yet
    #[arg(long)]
    pub(crate) no_follow: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Graph {
    /// Name of the workflow
    pub(crate) workflow: String,
    /// Version of the workflow [default: the newest]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) version: Option<u32>,
    /// How to draw it
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: GraphFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphFormat {
    Text,
    Mermaid,
    Dot,
}

/// `key=value`.
pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) =
        text.split_once('=').ok_or_else(|| format!("{text:?} has no `=`: write it as KEY=VALUE"))?;
    Ok((key.to_owned(), value.to_owned()))
}

/// A number of things to list: none is no list.
pub(super) fn some(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("a list of 0 would say nothing: at least 1".into()),
        Ok(number) => Ok(number),
        Err(error) => Err(error.to_string()),
    }
}
