//! The arguments.
//!
//! Promise: plain data; what a command does with them is said in `commands/`.

use std::path::PathBuf;
use std::time::Duration;

use aether_core::contract::Status;
use aether_core::store::Cursor;
use aether_core::view::pending::Waiting;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use jiff::Timestamp;

use crate::output::hold::Reason;
use crate::screen::When;
use crate::time::{parse_duration, parse_moment};

/// See and steer durable runs: in the file of a program that runs, and of one that does not.
///
/// Nothing here advances a run: what you decide is written into the store, and takes effect in the program that advances it.
#[derive(Debug, Parser)]
#[command(name = "aether", version)]
pub(crate) struct Standalone {
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// See and steer the durable runs of this program.
///
/// Nothing but `dev` advances a run: what you decide is written into the store, and takes effect in the process that advances it.
#[derive(Debug, Parser)]
pub(crate) struct Embedded {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where the runs are.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// The SQLite file of the runs, or the URL of a Postgres database
    #[arg(long, env = "AETHER_DB", value_name = "PATH|URL", global = true, hide_env_values = true)]
    pub(crate) db: Option<String>,
}

/// What every command takes.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Print JSON; `schema` prints its schemas
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Cut nothing
    #[arg(long, global = true)]
    pub(crate) full: bool,
    /// When to use colour; NO_COLOR is respected
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: When,
    /// Who is recorded with what you decide [default: your login name]
    #[arg(long, env = "AETHER_ACTOR", global = true, value_name = "NAME")]
    pub(crate) actor: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List, read, wait for, end, retry and fork runs
    #[command(subcommand)]
    Runs(Runs),
    /// Start a run (in the program that has its workflow)
    Start(Start),
    /// What waits for people: list it, decide it
    #[command(subcommand)]
    Inbox(Inbox),
    /// Send a signal to a run
    Signal(Signal),
    /// The calls of a run that may have changed the world
    Ledger(OneRun),
    /// What the bodies of a run send while they run
    #[command(subcommand)]
    Streams(Streams),
    /// The state machine of a workflow, as text or as a drawing
    Graph(Graph),
    /// Replay runs without executing anything (in the program that has their workflow)
    Verify(ManyRuns),
    /// What this program would do with every open run, before it is deployed
    Check(Filter),
    /// Write a run, with what belongs to it, to a file
    Export(Export),
    /// Load an exported run into a store that does not have it
    Import(Import),
    /// The record of a run, for somebody else to check
    #[command(subcommand)]
    Evidence(Evidence),
    /// The store itself
    #[command(subcommand)]
    Db(Db),
    /// The console in a browser, read-only unless told otherwise
    #[cfg(feature = "web")]
    Web(Web),
    /// A program under development: built and started again on changes, its console beside it
    #[cfg(feature = "web")]
    Dev(Dev),
    /// What is wrong, and how to fix it
    Doctor,
    /// The JSON Schema of what a command prints with --json
    Schema(Schema),
    /// Completions for a shell, to be loaded by it
    Completions {
        /// The shell
        shell: Shell,
    },
    /// The manual page, in roff
    Man,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Runs {
    /// List runs, newest first, each with why it does not move
    List(List),
    /// One run: input, result, steps, what it waits for, why it does not move
    Show(OneRun),
    /// The events of a run
    History(History),
    /// Wait until runs have ended
    Wait(Wait),
    /// Ask runs to end: their steps are undone
    Cancel(End),
    /// End runs at once: nothing is undone
    Terminate(End),
    /// Retry a failed run, from before its failure
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

#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// Only runs that do not move for this reason; may be repeated
    #[arg(long, value_name = "REASON", value_enum)]
    pub(crate) why: Vec<Reason>,
    /// Only runs that nothing moves until somebody does something
    #[arg(long)]
    pub(crate) stuck: bool,
    /// At most so many
    #[arg(long, value_name = "NUMBER", default_value_t = 50)]
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
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000)]
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

#[derive(Debug, Args)]
pub(crate) struct End {
    #[command(flatten)]
    pub(crate) runs: ManyRuns,
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
    /// Print the bill and start nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Retry {
    /// Id of the run
    pub(crate) run: String,
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
    #[arg(long, value_name = "NUMBER", default_value_t = 50)]
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
    #[arg(required_unless_present = "text")]
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
    #[arg(long, value_name = "JSON")]
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

#[derive(Debug, Args)]
pub(crate) struct Signal {
    /// Id of the run
    pub(crate) run: String,
    /// Name of the signal
    pub(crate) name: String,
    /// What it carries: JSON, @FILE, or - for stdin
    #[arg(default_value = "null")]
    pub(crate) value: String,
    /// Id of the signal: a second one of the same id is dropped [default: a new one, with your name]
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

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// Id of the run
    pub(crate) run: String,
    /// The file to write [default: stdout]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Leave in what looks like a secret
    #[arg(long)]
    pub(crate) unmasked: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The file of the recording
    pub(crate) file: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Db {
    /// Versions, sizes, runs by status, workers. Changes nothing
    Status,
    /// Bring the tables to the version of this build, or make them: processes of older builds stop working on them
    Migrate,
    /// Delete runs that ended long ago
    Prune(Prune),
    /// Copy the file while programs use it
    Backup {
        /// The file to make; none is replaced
        to: PathBuf,
    },
    /// Put a backup in the place of the file, which no program may have open; what was there is kept beside it
    Restore {
        /// The backup
        from: PathBuf,
    },
    /// Read every journal: hash chains, events, large values. Changes nothing
    Check,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Evidence {
    /// Write everything that is recorded of a run, unmasked, for somebody else to check
    Export(EvidenceExport),
    /// Check such a file. Needs no store
    Verify {
        /// The file
        file: PathBuf,
        /// The hash of the history that was noted when it was made
        #[arg(long, value_name = "HASH")]
        tip: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct EvidenceExport {
    /// Id of the run
    pub(crate) run: String,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Prune {
    #[command(flatten)]
    pub(crate) ages: Ages,
    /// Count them and delete nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Which ended runs are deleted.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct Ages {
    /// Delete completed runs that ended longer ago than this: 30d
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) completed: Option<Duration>,
    /// Delete failed runs that ended longer ago than this
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) failed: Option<Duration>,
    /// Delete rejected runs that ended longer ago than this
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) rejected: Option<Duration>,
    /// Delete cancelled runs that ended longer ago than this
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) cancelled: Option<Duration>,
}

#[cfg(feature = "web")]
#[derive(Debug, Args)]
pub(crate) struct Web {
    /// The port of this machine; 0 for a free one
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// What may be done there
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ACTIONS")]
    pub(crate) allow: Vec<Allowed>,
    /// Show idempotency keys, actors, settings and system prompts, too
    #[arg(long)]
    pub(crate) audit: bool,
}

#[cfg(feature = "web")]
#[derive(Debug, Args)]
pub(crate) struct Dev {
    /// The folder of the program, with its Cargo.toml [default: the current one]
    pub(crate) folder: Option<PathBuf>,
    /// The port of the console; 0 for a free one
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// How the program is started there [default: cargo run]
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// What may be done in the console.
#[cfg(feature = "web")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Allowed {
    /// Approve, reject, answer, and say what became of calls in doubt
    Decide,
    /// Send signals
    Signal,
    /// Cancel and terminate runs
    End,
    /// Fork and retry runs
    Fork,
    /// All of them
    All,
}

#[derive(Debug, Args)]
pub(crate) struct Schema {
    /// The command, such as `runs list`, or `error`; without it, all
    #[arg(num_args = 0..)]
    pub(crate) command: Vec<String>,
}

/// `key=value`.
fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) =
        text.split_once('=').ok_or_else(|| format!("{text:?} has no `=`: write it as KEY=VALUE"))?;
    Ok((key.to_owned(), value.to_owned()))
}

fn waiting(text: &str) -> Result<Waiting, String> {
    let names = || Waiting::all().map(Waiting::as_str).collect::<Vec<_>>().join(", ");
    Waiting::parse(text).ok_or_else(|| format!("{text:?} is no kind of wait: one of {}", names()))
}
