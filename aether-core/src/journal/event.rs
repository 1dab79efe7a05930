//! Everything that can stand in a journal: one type per kind of event, with a frozen name and number.
//!
//! Promise: a name or number once released is never reused or renamed. Readers skip kinds and fields they do not
//! know. An event is stored as a JSON object with one field, its kind: `{"time_recorded":{"command":"0:now",…}}`.
//! Beside the fields of an event, `stored` is reserved for references to the effect store.

pub(crate) mod about;
mod define;
pub(crate) mod forked;
pub(crate) mod resend;
pub(crate) mod reserved;
pub(crate) mod uncompensated;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use self::forked::{ForkDecision, ForkedFrom};
pub use self::resend::Resend;
pub use self::reserved::{CarriedSpend, OpenedBudget, Reserved};
pub use self::uncompensated::Uncompensated;

use crate::journal::event::define::{LargeField as _, command_of, events, marked};

use crate::vocabulary::budget::{Budget, Spend};
use crate::vocabulary::code::{ParkedAt, RunCode};
use crate::vocabulary::contract::Constraints;
use crate::vocabulary::id::{CommandId, IdempotencyKey, InvocationId, RunId, WorkerId};
use crate::vocabulary::labels::Labels;
use crate::vocabulary::outcome::{EffectClass, Outcome};
use crate::vocabulary::payload::{Digest, Payload};
use crate::vocabulary::queue::StartTerms;

events! {
    /// The run exists.
    1 RunCreated {
        /// Name of the workflow.
        workflow: String,
        /// Module of the workflow's function; tells workflows of one name apart.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        module: String,
        /// Version of the workflow's definition.
        version: u32,
        /// Fingerprint of the workflow's source.
        fingerprint: String,
        /// Its input.
        @large input: Payload,
        /// Digest of the input, to tell a repeated start from a conflicting one.
        digest: Digest,
        /// From which values drawn inside step bodies are derived, 32 hexadecimal digits.
        seed: String,
        /// The run that started this one as a child.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<RunId>,
        /// Its labels, given at its start.
        #[serde(default, skip_serializing_if = "Labels::is_empty")]
        labels: Labels,
        /// The run that this one is a fork of.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        forked_from: Option<ForkedFrom>,
        /// Its queue, when it may begin, and how many starts were gathered into it.
        #[serde(default, skip_serializing_if = "StartTerms::is_default")]
        terms: StartTerms,
    }
    /// The run is suspended and lives only in the store.
    2 RunWaiting {
        /// When to wake it, if a timer is among what it waits for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
        /// The commands it waits at; of many, the first ones in the order of their ids.
        on: Vec<CommandId>,
        /// How many more there are: a run that waits in many branches is suspended once for each of them.
        #[serde(default, skip_serializing_if = "is_zero")]
        more: u64,
    }
    /// The run ended with a value.
    3 RunCompleted {
        /// The value.
        @large result: Payload,
        /// Steps that failed half-way and could not be undone.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        uncompensated: Vec<Uncompensated>,
    }
    /// The run ended with an error.
    4 RunFailed {
        /// The error as the workflow returned it.
        @large error: Payload,
        /// The error as text.
        message: String,
        /// Steps that could not be undone.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        uncompensated: Vec<Uncompensated>,
    }
    /// The run was given up.
    5 RunCancelled {
        /// Why.
        reason: String,
        /// By whom.
        actor: String,
        /// Steps that could not be undone.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        uncompensated: Vec<Uncompensated>,
        /// When it should have begun at the latest: it was not executed because that time had passed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expired_at: Option<Timestamp>,
    }
    /// A worker took the run up again.
    6 RunRequeued {
        /// The worker.
        worker: WorkerId,
        /// What stood in the journal when it did.
        reason: String,
    }
    /// The workflow is over and its steps are being undone; its code is not run any more.
    7 RunUnwinding {
        /// The event with which the run ends when that is done: how it ended, and by whom.
        end: Box<Event>,
    }
    /// The run was ended at once; nothing was undone.
    8 RunTerminated {
        /// Why.
        reason: String,
        /// By whom.
        actor: String,
    }
    /// The code at hand does not fit what is recorded: the run waits for code that does. Nothing of it was lost.
    9 RunParked {
        /// The difference, in one sentence.
        why: String,
        /// The command in history at which they differ, where one is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        recorded: Option<ParkedAt>,
        /// The command that the code asked for, where one is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        requested: Option<ParkedAt>,
        /// The code that recorded the run last.
        needs: RunCode,
    }
    /// A plan was recorded; from here on it is authoritative.
    10 PlanGenerated {
        /// The command that asked for it.
        command: CommandId,
        /// The plan.
        @large plan: Payload,
    }
    /// A step was requested.
    11 NodeStarted {
        /// The command.
        command: CommandId,
        /// What kind of contact with the world it is.
        class: EffectClass,
        /// Digest of the arguments.
        digest: Digest,
        /// The arguments; absent where `command_emitted` holds them.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        @large input: Option<Payload>,
        /// Unique name of a step that may change the world, or of the workflow of a child run. Older journals do not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        /// Where in the source it was awaited, `file:line`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        site: Option<String>,
        /// What its executions may do.
        #[serde(default, skip_serializing_if = "Constraints::is_empty")]
        constraints: Constraints,
    }
    /// A step reached its end; nothing of it will be done again.
    12 NodeFinished {
        /// The command.
        command: CommandId,
    }
    /// A request without effect on the world is about to be sent.
    13 CommandEmitted {
        /// The command.
        command: CommandId,
        /// Logical attempt, from 0.
        attempt: u32,
        /// The whole input, for a model its prompt, name and parameters; absent where an earlier event of this kind has it.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        @large input: Option<Payload>,
        /// What it reserved of budgets, where it counts in any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reserved: Option<Reserved>,
    }
    /// The outcome of a command, final.
    14 CommandCommitted {
        /// The command.
        command: CommandId,
        /// What it means for the world.
        outcome: Outcome,
        /// The value, where the outcome is a value.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        @large result: Option<Payload>,
        /// The step error, where the outcome is an error.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        @large error: Option<Payload>,
        /// The outcome was taken over from the ledger or the effect store after a crash.
        #[serde(default, skip_serializing_if = "is_false")]
        caught_up: bool,
        /// What it took of budgets; where it reserved something and this is absent, all of that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spent: Option<Spend>,
    }
    /// The step is complete; written only on success.
    15 StepCommitted {
        /// The command.
        command: CommandId,
        /// Name of the step.
        step: String,
        /// Idempotency key of the successful attempt, for world-changing steps.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<IdempotencyKey>,
    }
    /// An attempt definitely failed and another one is due.
    16 StepRetried {
        /// The command.
        command: CommandId,
        /// The attempt that failed, from 0.
        attempt: u32,
        /// Its error.
        @large error: Payload,
        /// When the next attempt is due.
        due: Timestamp,
        /// How long the attempts so far and their waits took, this wait included, in milliseconds. Time in which no process
        /// ran is not in it. Older journals do not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spent_ms: Option<u64>,
        /// The error has no class: nobody said that it passes.
        #[serde(default, skip_serializing_if = "is_false")]
        unclassified: bool,
        /// What the attempt took of budgets; where it reserved something and this is absent, all of that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spent: Option<Spend>,
    }
    /// An earlier step was undone.
    17 StepCompensated {
        /// The command that undid it.
        command: CommandId,
        /// The command that was undone.
        undoes: CommandId,
    }
    /// The intent to change the world; durable before the body runs.
    20 ToolInvocationStarted {
        /// The command.
        command: CommandId,
        /// Name of the invocation.
        invocation: InvocationId,
        /// Name of the tool.
        tool: String,
        /// Logical attempt, from 0.
        attempt: u32,
        /// The stable name the outside world sees.
        key: IdempotencyKey,
        /// What it reserved of budgets, where it counts in any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reserved: Option<Reserved>,
    }
    /// The body came back.
    21 ToolInvocationFinished {
        /// The command.
        command: CommandId,
        /// Name of the invocation.
        invocation: InvocationId,
        /// What it means for the world.
        outcome: Outcome,
        /// The value, where there is one.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        @large result: Option<Payload>,
        /// The error, where there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        @large error: Option<Payload>,
        /// Taken over from the ledger or the effect store after a crash.
        #[serde(default, skip_serializing_if = "is_false")]
        caught_up: bool,
    }
    /// The ledger did not grant the invocation: its key is taken. The body was not called.
    22 ToolInvocationRefused {
        /// The command.
        command: CommandId,
        /// Name of the invocation.
        invocation: InvocationId,
        /// The key that is taken.
        key: IdempotencyKey,
        /// Budgets that began with the call, or that had other limits than before. Older journals do not say.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        opens: Vec<OpenedBudget>,
    }
    /// An invocation of unknown outcome was decided.
    23 InvocationResolved {
        /// The command.
        command: CommandId,
        /// Name of the invocation.
        invocation: InvocationId,
        /// What was decided.
        decision: InvocationDecision,
        /// Who or what decided: a policy, a probe, or an operator's name.
        actor: String,
        /// Where it is sent again, and not for the first time: which time it is, and when. Absent also where nothing is waited
        /// for, and in older journals.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resend: Option<Resend>,
    }
    /// A branch lost a race, or the run ended, while this invocation was in flight; its outcome is unknown.
    24 InvocationAbandoned {
        /// The command.
        command: CommandId,
        /// Name of the invocation.
        invocation: InvocationId,
    }
    /// An attempt waits until the limit that its step names lets it through.
    25 LimitAwaited {
        /// The command.
        command: CommandId,
        /// Logical attempt, from 0.
        attempt: u32,
        /// Name of the limit.
        limit: String,
        /// Until when.
        until: Timestamp,
        /// How long the limit had ever been held by then, in milliseconds: a longer hold moves the end.
        held_ms: u64,
    }
    /// The clock was read.
    30 TimeRecorded {
        /// The command.
        command: CommandId,
        /// What it said.
        value: Timestamp,
    }
    /// A durable timer was set.
    31 TimerScheduled {
        /// The command.
        command: CommandId,
        /// When it is due.
        due: Timestamp,
        /// Where in the source it was awaited, `file:line`. Older journals do not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        site: Option<String>,
    }
    /// A durable timer fired.
    32 TimerFired {
        /// The command.
        command: CommandId,
    }
    /// A UUID was drawn.
    33 UuidRecorded {
        /// The command.
        command: CommandId,
        /// The UUID.
        value: uuid::Uuid,
    }
    /// Random bytes were drawn.
    34 RandomRecorded {
        /// The command.
        command: CommandId,
        /// The value that was handed out.
        value: Payload,
    }
    /// An HTTP exchange took place.
    35 HttpRecorded {
        /// The command.
        command: CommandId,
        /// Number of the exchange inside its command, from 0.
        exchange: u32,
        /// Method, URL and allow-listed headers.
        @large request: Payload,
        /// Status, allow-listed headers and body, or the error.
        @large response: Payload,
    }
    /// A step says that it changed a resource.
    40 StateChanged {
        /// The command.
        command: CommandId,
        /// Kind of resource, for example `http` or `file`.
        resource: String,
        /// Which one.
        id: String,
        /// What was done to it.
        operation: String,
        /// Its version afterwards.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
        /// Its entity tag afterwards.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        etag: Option<String>,
        /// Its name in the other system.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        external_ref: Option<String>,
    }
    /// A wait began.
    41 WaitStarted {
        /// The command.
        command: CommandId,
        /// Name of what is waited for.
        name: String,
        /// When the wait expires.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
        /// Where in the source it was awaited, `file:line`. Older journals do not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        site: Option<String>,
    }
    /// A wait ended.
    42 WaitCompleted {
        /// The command.
        command: CommandId,
        /// The value that ended it; absent where it expired.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        @large value: Option<Payload>,
        /// The time limit that it expired under, in milliseconds: the wait ends as timed out. In older journals the limit is
        /// absent, and a wait that expired ends as cancelled.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit_ms: Option<u64>,
    }
    /// A message was taken from the inbox.
    43 SignalReceived {
        /// Id of the message.
        id: String,
        /// Name it was sent under.
        name: String,
        /// What it holds.
        @large value: Payload,
    }
    /// A person was asked to approve a call.
    44 ApprovalRequested {
        /// The command.
        command: CommandId,
        /// What is to be approved, or the question.
        @large request: Payload,
        /// When the request expires.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
        /// The name under which it is answered, where the workflow gave it one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Where in the source it was awaited, `file:line`. Absent where `node_started` holds it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        site: Option<String>,
        /// The time limit behind `until`, in milliseconds. Older journals do not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit_ms: Option<u64>,
    }
    /// A person decided.
    45 ApprovalDecided {
        /// The command.
        command: CommandId,
        /// The decision.
        @large decision: Payload,
        /// Who decided.
        actor: String,
    }
    /// A child run was started.
    46 ChildStarted {
        /// The command.
        command: CommandId,
        /// The child.
        child: RunId,
        /// The command ends when the child was started, and does not wait for the child's end.
        #[serde(default, skip_serializing_if = "is_false")]
        unawaited: bool,
        /// The child goes on when its parent has ended.
        #[serde(default, skip_serializing_if = "is_false")]
        detached: bool,
        /// The budget that it was granted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        granted: Option<Budget>,
        /// What was reserved for it, in the budgets that it was granted from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reserved: Option<Reserved>,
    }
    /// What somebody answered to a wait does not fit it; the wait goes on.
    47 AnswerRefused {
        /// The command.
        command: CommandId,
        /// Why it was refused.
        reason: String,
        /// Who answered.
        actor: String,
    }
    /// A body came back without an outcome: somebody outside is to report it.
    48 CallbackAwaited {
        /// The command.
        command: CommandId,
        /// Name of the invocation.
        invocation: InvocationId,
        /// When it is no longer waited for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    }
    /// Somebody outside reported the outcome of an invocation; it follows in the same append.
    49 CallbackReceived {
        /// The command.
        command: CommandId,
        /// Name of the invocation.
        invocation: InvocationId,
    }
    /// The code took a version branch.
    50 VersionMarked {
        /// The command.
        command: CommandId,
        /// Name of the change.
        change: String,
        /// The version taken.
        version: u32,
    }
    /// A race was decided.
    51 RaceDecided {
        /// The command.
        command: CommandId,
        /// Scope of the branch that won, for example `3.b1`.
        winner: String,
    }
    /// A snapshot was saved.
    52 CheckpointSaved {
        /// Number of the first event that is not in it.
        position: u64,
    }
    /// The run went on as a new run with a fresh journal.
    53 ContinuedAsNew {
        /// The new run.
        next: RunId,
    }
    /// Before a recorded outcome was handed out again, a resource it had changed was looked at.
    54 StateConfirmed {
        /// The command that changed the resource last.
        command: CommandId,
        /// Kind of resource.
        resource: String,
        /// Which one.
        id: String,
        /// What was found.
        verdict: StateVerdict,
        /// What was expected, where something else was found.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expected: Option<String>,
        /// What was found in its place, or why nothing could be found out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        found: Option<String>,
        /// Name of the verifier.
        verifier: String,
        /// The run waits for an operator to decide about it.
        #[serde(default, skip_serializing_if = "is_false")]
        asks: bool,
    }
    /// An operator decided about a resource that is not as it was left.
    55 ConfirmationDecided {
        /// The command that changed the resource last.
        command: CommandId,
        /// Kind of resource.
        resource: String,
        /// Which one.
        id: String,
        /// What was decided.
        decision: ConfirmationDecision,
        /// Who decided.
        actor: String,
    }
    /// The body of a transaction step came back. What its SQL did became durable in the append that holds this event,
    /// or was rolled back before it.
    58 TransactionFinished {
        /// The command.
        command: CommandId,
        /// Logical attempt, from 0.
        attempt: u32,
        /// What it means for the world: `side_effect_committed`, or a failure that left nothing.
        outcome: Outcome,
        /// The value, where there is one.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        result: Option<Payload>,
        /// The step error, where there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Payload>,
        /// The resources that the body says it changed; each follows as a `state_changed`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changed: Vec<StateChanged>,
        /// How long the error asks for no other attempt, in milliseconds. Older journals do not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
    }
    /// An attempt at a transaction step was rolled back for a reason that is not the step's own; it does not count.
    59 TransactionRolledBack {
        /// The command.
        command: CommandId,
        /// Logical attempt, from 0.
        attempt: u32,
        /// Why.
        reason: String,
    }
    /// The call that undoes a step, kept in case it must be undone.
    60 CompensationRecorded {
        /// The command that it would undo.
        command: CommandId,
        /// Unique name of the undoing step.
        step: String,
        /// Arguments of the undoing step.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        @large args: Option<Payload>,
        /// Why there are no arguments: the step cannot be undone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        problem: Option<String>,
        /// The step failed half-way, so that it must be undone however the run ends.
        #[serde(default, skip_serializing_if = "is_false")]
        half_way: bool,
    }
    /// The run has nothing to do with a child any more: it saw its end, or let it go.
    61 ChildReleased {
        /// The command.
        command: CommandId,
        /// The child.
        child: RunId,
        /// What it took of the budget that it was granted; where it was granted one and this is absent, all of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spent: Option<Spend>,
    }
    /// Other code than before advances the run from here on: it was seen to fit all that is recorded.
    80 CodeAdopted {
        /// The code.
        code: RunCode,
    }
    /// The code that recorded an answer could not read it itself: it saw a step error, and so does every replay.
    62 ResultUnreadable {
        /// The command.
        command: CommandId,
        /// What the decoder said.
        reason: String,
    }
    /// The workflow continued as new. The journal begins anew with the `run_created` before this event.
    70 RunContinued {
        /// Number of the generation that begins; the run's first is 0.
        generation: u32,
        /// Chain hash of the last frame of the generation before, 64 hexadecimal digits.
        previous: String,
        /// Name of the workflow that the run was started as.
        started_as: String,
        /// When the run was started.
        started_at: Timestamp,
        /// What the run owes from earlier generations: steps to be undone if it fails, and children.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        @large carried: Option<Payload>,
        /// The input that the run was started with, to tell a repeated start from a conflicting one.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        @large first_input: Option<Payload>,
        /// What earlier generations took of the run's budget.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spent: Option<CarriedSpend>,
    }
    /// The length of the present journal was asked for.
    71 HistoryMeasured {
        /// The command.
        command: CommandId,
        /// Number of events.
        events: u64,
        /// The most events that the engine allowed.
        limit: u64,
    }
    /// What was decided about a call that the origin of this fork had made behind the cut. Stands behind the copied events.
    75 ForkDecided {
        /// The call, by its command in the origin.
        origin: CommandId,
        /// What was decided.
        decision: ForkDecision,
        /// What kind of contact with the world it was.
        class: EffectClass,
        /// Unique name of its step. Older journals do not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        /// Digest of its arguments.
        digest: Digest,
        /// Its arguments, where its outcome is kept. Older journals do not say.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        @large args: Option<Payload>,
        /// Whether its step declares that it cannot be repeated.
        #[serde(default, skip_serializing_if = "is_false")]
        irreversible: bool,
        /// Its outcome there; absent where it had none yet.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outcome: Option<Outcome>,
        /// Its value, where its outcome is kept and is a value.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        @large result: Option<Payload>,
        /// Its step error, where its outcome is kept and is an error.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        @large error: Option<Payload>,
        /// Idempotency key of its newest attempt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<IdempotencyKey>,
        /// The child run that it started.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        child: Option<RunId>,
        /// Unique name of the step that undoes it, where it is undone first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        undo: Option<String>,
        /// Arguments of the step that undoes it.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        @large undo_args: Option<Payload>,
        /// The resources that it changed, where its outcome is kept.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changed: Vec<StateChanged>,
    }
    /// The command took over what its origin had made, and made nothing itself.
    76 OutcomeKept {
        /// The command.
        command: CommandId,
        /// The call, by its command in the origin.
        origin: CommandId,
        /// Digest of its arguments; absent where the command itself was copied with its child run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<Digest>,
    }
    /// The answer of a copied command was replaced by another one.
    77 AnswerReplaced {
        /// The command.
        origin: CommandId,
        /// Digest of the answer that it has in the origin.
        digest: Digest,
    }
}

/// What became of an invocation whose outcome was unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InvocationDecision {
    /// It happened; its result is known.
    Happened,
    /// It did not happen.
    DidNotHappen,
    /// It stays unknown and the step fails as in doubt.
    InDoubt,
    /// It is sent again under the same key.
    Retry,
    /// The run waits for an operator.
    Ask,
}

/// What a look at a changed resource came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateVerdict {
    /// It is as it was left.
    Matches,
    /// It is not.
    Differs,
    /// It could not be looked at.
    Unverifiable,
}

/// What an operator decides about a resource that is not as it was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfirmationDecision {
    /// Its state is accepted as it is; this change of it is not looked at again.
    Accept,
    /// The run fails for good.
    Fail,
}

/// A field that is there holds a value, also where that value is `null`.
fn present<'de, D: serde::Deserializer<'de>>(field: D) -> Result<Option<Payload>, D::Error> {
    Payload::deserialize(field).map(Some)
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}
