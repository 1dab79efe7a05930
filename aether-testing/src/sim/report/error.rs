//! Why a simulation came to no report.

use std::time::Duration;

use aether_core::contract::Status;
use aether_core::engine::{BuildError, StartError};
use aether_core::id::{CommandId, RunId};
use aether_core::inbox::SendError;
use aether_core::payload::{Payload, PayloadError};
use aether_core::store::StoreError;

use super::advice::{for_call, shown};
use super::divergence::Comparison;
use crate::stores::crash_point::CrashPoint;
use crate::trap::hit::TrapHit;

/// Why a simulation came to no report.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// A step was called that has no stub.
    #[error(
        "step `{asked}` was called and has no stub (command `{command}`, {})\n  stubs: {}\n  help: {}",
        shown(asked, args),
        listed(stubs),
        for_call(asked, args)
    )]
    MissingStub {
        /// Unique name of the step or effect that was called.
        asked: String,
        /// The command that called it: its place in the run, and the name.
        command: CommandId,
        /// The arguments of the call, as they would be recorded.
        args: Payload,
        /// Unique names of all steps, requests and model calls that have a stub.
        stubs: Vec<String>,
    },
    /// A step was called with arguments that no answer is for.
    #[error(
        "step `{asked}` was called with arguments that no `.when` answers (command `{command}`, {})\n  matchers: {}\n  help: for all other calls {}",
        shown(asked, args),
        listed(matchers),
        for_call(asked, args)
    )]
    NoMatch {
        /// Unique name of the step or effect that was called.
        asked: String,
        /// The command that called it: its place in the run, and the name.
        command: CommandId,
        /// The arguments of the call, as they would be recorded.
        args: Payload,
        /// Each `.when` of the step: its line in the test, and why it did not answer.
        matchers: Vec<String>,
    },
    /// A signal of the test was not sent.
    #[error(transparent)]
    NotSent(#[from] SendError),
    /// A decision or an answer of the test was refused.
    #[error("run `{run}`: what the test says to command `{command}` was refused: {reason}")]
    Refused {
        /// The run that asked.
        run: RunId,
        /// The command that asked: an approval, a question or a callback.
        command: CommandId,
        /// Why the engine refused it, for example because the answer has another type.
        reason: String,
    },
    /// The run ended, and nobody had responded to what it asked: the test plans nothing for the request.
    #[error(
        "command `{command}` of run `{run}` asked, and nobody responded: its time limit was over, or the run did without\n  help: add {help}; if nobody is to respond, add `.nobody_answers()`"
    )]
    Unanswered {
        /// The run that asked.
        run: RunId,
        /// The command that asked: an approval, a question, or a call that needs consent.
        command: CommandId,
        /// What to add to the test so that somebody responds.
        help: String,
    },
    /// A model was asked what none of its scripts answers.
    #[error(
        "the model was asked by `{call}`, and no script answers it: {asked:?}\n  scripts: {}\n  help: add `.model_for(\"{call}\", |request| \"its answer\")`",
        listed(scripts)
    )]
    NoModelAnswer {
        /// Name of the call: of `cx.llm(call)`, or of the agent.
        call: String,
        /// The last message of the question.
        asked: String,
        /// The model calls that have a script.
        scripts: Vec<String>,
    },
    /// A conversation was continued beyond its last reply.
    #[error(
        "the model was asked by `{call}` for reply {}, and its conversation has {replies}; the last message is {asked:?}\n  help: add replies to `.conversation(\"{call}\", [..])`; the last one should `say(..)` something",
        replies + 1
    )]
    ConversationOver {
        /// Name of the call that has the conversation.
        call: String,
        /// How many replies its script has.
        replies: usize,
        /// The last message of the question that no reply is left for.
        asked: String,
    },
    /// A step was called more often than its stub has answers.
    #[error(
        "step `{asked}` was called once more than its stub has answers ({answers}), by command `{command}`\n  help: add answers, or for every further call {}",
        for_call(asked, &Payload::null())
    )]
    StubUsedUp {
        /// Unique name of the step or effect that was called.
        asked: String,
        /// The command whose call found no answer left.
        command: CommandId,
        /// How many answers the stub has.
        answers: usize,
    },
    /// A body was called that the recording has no answer for.
    #[error(
        "command `{command}` of run `{run}` {what} (arguments {args:?})\n  nearest recorded: {nearest}\n  help: record anew, or add a stub for the step"
    )]
    NotRecorded {
        /// The run that called; it may be a child of the recorded one.
        run: RunId,
        /// The command that called: its place in the run, and the name.
        command: CommandId,
        /// The arguments of the call.
        args: Payload,
        /// How the recording differs: it has no such command, other arguments, or no outcome.
        what: &'static str,
        /// The recorded command that is most like it.
        nearest: String,
    },
    /// A model was asked more often than its script has answers.
    #[error(
        "the model was asked by `{call}` once more than its script has answers ({answers})\n  help: add answers to `.model_seq`, or a `.model` that answers every further question"
    )]
    ModelUsedUp {
        /// Name of the call: of `cx.llm(call)`, or of the agent.
        call: String,
        /// How many answers its script has.
        answers: usize,
    },
    /// Workflow code did what a replay would not reproduce; see [`Trap`](crate::Trap).
    #[error("{0}")]
    Trapped(Box<TrapHit>),
    /// Two runs of the workflow with the same input, draws and answers came apart.
    #[error(
        "the workflow is not deterministic: the first run and {between} come apart\n  first:  {first}\n  second: {second}\n  help: look between the await that both share and this place for what does not come through `cx`: clocks, hash order, random numbers, statics, thread-locals, the environment, addresses"
    )]
    Nondeterministic {
        /// Which two runs were compared.
        between: Comparison,
        /// What the first run did, and where in the source.
        first: String,
        /// What the second did, and where in the source.
        second: String,
    },
    /// The run did not end in the time it was given.
    #[error(
        "the run did not end within {within:?} of virtual time: it is {status}, {}{}",
        waits(waiting),
        hints(help)
    )]
    Unfinished {
        /// How much virtual time the run was given; see [`Sim::within`](crate::Sim::within).
        within: Duration,
        /// Status of the run when that time was over.
        status: Status,
        /// Commands that had started and have no outcome.
        waiting: Vec<CommandId>,
        /// What to add to the test so that it continues.
        help: Vec<String>,
    },
    /// The input cannot be recorded.
    #[error("the input cannot be recorded: {0}")]
    Input(PayloadError),
    /// The engine cannot be started.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The run cannot be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The store answered a call of the simulation itself with an error.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The simulation itself panicked, or its thread could not be started.
    #[error("the simulation broke down: {0}")]
    Broken(String),
    /// A crash changed what must not change.
    #[error(
        "crash {point} ({what}): {broken}\n  reproduce with: {reproduce}\n  journal afterwards:\n{journal}"
    )]
    Crash {
        /// The crash point; its id goes into `AETHER_CRASH_AT`.
        point: CrashPoint,
        /// What is written, called or waited for there.
        what: String,
        /// The guarantee that does not hold, and where it fails.
        broken: String,
        /// The command line that tries this one crash again.
        reproduce: String,
        /// The journal of the run at the end of the simulation.
        journal: String,
    },
    /// A store that fails changed what it must not change.
    #[error("{fault}: {broken}\n  reproduce with: {reproduce}\n  journal afterwards:\n{journal}")]
    StoreFault {
        /// The fault, for example `write 3 fails`.
        fault: String,
        /// The guarantee that does not hold, and where it fails.
        broken: String,
        /// The command line that runs the sweep again.
        reproduce: String,
        /// The journal of the run at the end of the simulation.
        journal: String,
    },
    /// A guarantee does not hold, without any crash.
    #[error("without any crash: {broken}\n  reproduce with: {reproduce}\n  journal:\n{journal}")]
    Undisturbed {
        /// The guarantee that does not hold, and where it fails.
        broken: String,
        /// The command line that runs the test again.
        reproduce: String,
        /// The journal of the run.
        journal: String,
    },
    /// What a run does depends on the order in which bodies came back.
    #[error(
        "the workflow depends on the order in which bodies come back: {broken}\n  one order:   {one}\n  the other:   {other}\n  reproduce with: {reproduce}\n  journal in the other:\n{journal}"
    )]
    Order {
        /// The first thing that differs between the two orders.
        broken: String,
        /// The bodies as they came back first.
        one: String,
        /// The bodies as they came back when it was different.
        other: String,
        /// The command line that tries the other order again.
        reproduce: String,
        /// The journal of the run in the other order.
        journal: String,
    },
    /// A schedule breaks a rule.
    #[error("{broken}\n  in this schedule:\n{choices}  reproduce with: {reproduce}\n  journal:\n{journal}")]
    Schedule {
        /// The rule that does not hold, and where it fails.
        broken: String,
        /// The choices of the schedule that are left after shrinking, in words.
        choices: String,
        /// The command line that tries this schedule alone.
        reproduce: String,
        /// The journal of the run.
        journal: String,
    },
    /// An environment variable is not understood.
    #[error("environment variable {variable}: {problem}")]
    Environment {
        /// Name of the variable.
        variable: String,
        /// What is wrong, and what is right.
        problem: String,
    },
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

fn hints(help: &[String]) -> String {
    help.iter().map(|line| format!("\n  help: {line}")).collect()
}

fn waits(waiting: &[CommandId]) -> String {
    if waiting.is_empty() {
        return "and no command of it is open".into();
    }
    let waiting: Vec<_> = waiting.iter().map(CommandId::as_str).collect();
    format!("without an outcome of {}", waiting.join(", "))
}
