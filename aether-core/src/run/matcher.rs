//! Matching commands with history: what is recorded of them, whether they may execute, and when answers are delivered.
//!
//! Promise: a mismatch stops the run before anything executes; recorded answers are delivered in the recorded order.

use std::future::{Pending, pending, poll_fn};
use std::task::Poll;

use crate::journal::history::record::{CommandRecord, RecordedResult};
use crate::policy::replay::{Consulted, Mode, Verdict};
use crate::run::changes::ValueChanges;
use crate::run::claim::Run;
use crate::run::fault::{CommandSummary, Divergence, Fault};
use crate::run::requested::Requested;
use crate::vocabulary::id::CommandId;
use crate::vocabulary::net::in_net;
use crate::vocabulary::outcome::EffectClass;
use crate::vocabulary::payload::{Digest, Payload};

impl Run {
    /// Matches a command with history. A mismatch stops the run.
    pub(crate) async fn request(
        &self,
        command: &CommandId,
        class: EffectClass,
        digest: Option<&Digest>,
        site: Option<String>,
    ) -> Matched {
        self.request_with(command, class, digest, None, &|| site.clone()).await
    }

    /// As [`Run::request`]. Where the digests differ, `args` tell whether the recorded arguments are the same ones in an
    /// older encoding; and what is linked is not taken for a namesake in another module.
    pub(crate) async fn request_with(
        &self,
        command: &CommandId,
        class: EffectClass,
        digest: Option<&Digest>,
        args: Option<&Requested<'_>>,
        site: &(dyn Fn() -> Option<String> + Sync),
    ) -> Matched {
        let side =
            || CommandSummary { command: command.clone(), class, digest: digest.cloned(), site: site() };
        // Compared before the policy is asked: a policy must not see a command that history contradicts.
        let compared = self.lock().history.request(command.place()).map(|found| {
            let same_class = found.class.is_none_or(|recorded| recorded == class);
            let same_digest = found.digest.is_none() || digest.is_none() || found.digest.as_ref() == digest;
            let matched = if found.answer.is_some() {
                Matched::Answered
            } else {
                Matched::Begun(Box::new(found.clone()))
            };
            if found.command == *command
                && let Some((recorded, requested)) = self.namesake(found, args)
            {
                let of = |side: CommandSummary, path: &str| CommandSummary {
                    command: CommandId::from(format!("{} of {path}", side.command)),
                    ..side
                };
                let recorded = of(recorded_side(found, class), recorded);
                return Err(Box::new((recorded, Some(of(side(), requested)))));
            }
            if found.command == *command && same_class {
                let recorded = (!same_digest).then(|| (found.input.clone(), recorded_side(found, class)));
                return Ok((matched, recorded));
            }
            Err(Box::new((recorded_side(found, class), None)))
        });
        let matched = match compared {
            None => {
                self.note_ahead(side);
                Matched::New
            }
            Some(Ok((matched, None))) => matched,
            // Code of the user decodes the arguments: not under the run's lock.
            Some(Ok((matched, Some((input, recorded))))) => {
                if !args.is_some_and(|args| input.as_ref().is_some_and(|input| args.are(input))) {
                    let changes = args.zip(input.as_ref()).map(|(args, input)| args.changes(input));
                    return self.differs(recorded, side(), changes.unwrap_or_default()).await;
                }
                matched
            }
            Some(Err(sides)) => {
                let (recorded, requested) = *sides;
                return self.diverged(Some(recorded), Some(requested.unwrap_or_else(side))).await;
            }
        };
        let answered = matches!(matched, Matched::Answered);
        let verdict = self.consult(command, class, answered, side).await;
        // Where there is a body, the effect gate looks at history again before it calls it: see `Run::has_answer`.
        if answered && verdict == Verdict::Execute && has_body(class) { Matched::New } else { matched }
    }

    /// The paths of the recorded step, or child workflow, and of the one that is called, where they are two of one name. What
    /// was moved to another module is known by its name, as long as its old path is free.
    fn namesake<'s>(
        &self,
        found: &'s CommandRecord,
        asked: Option<&Requested<'s>>,
    ) -> Option<(&'s str, &'s str)> {
        let (recorded, requested) = (found.path.as_deref()?, asked?.path);
        let is_other = recorded != requested && self.shared.has(recorded);
        is_other.then_some((recorded, requested))
    }

    /// Remembers a command that history does not hold, while code and history may still differ.
    fn note_ahead(&self, side: impl Fn() -> CommandSummary) {
        let mut state = self.lock();
        if !state.history.is_proven() {
            state.ahead.push(side());
        }
    }

    /// Whether history holds an answer for `command` that was not delivered: the second check, at the effect gate.
    pub(crate) fn has_answer(&self, command: &CommandId) -> bool {
        self.lock().history.request(command.place()).is_some_and(|record| record.answer.is_some())
    }

    /// Asks the policy; returns only when the command may proceed.
    pub(crate) async fn consult(
        &self,
        command: &CommandId,
        class: EffectClass,
        recorded: bool,
        side: impl Fn() -> CommandSummary,
    ) -> Verdict {
        let consulted = Consulted { run: &self.id, command, class, recorded, mode: self.mode };
        let verdict = in_net(|| self.shared.policy.consult(&consulted))
            .unwrap_or_else(|message| Verdict::Forbid(format!("it panicked: {message}")));
        let unrecorded = match &verdict {
            Verdict::Default | Verdict::Execute => {
                !recorded && self.mode == Mode::Verify && class != EffectClass::Pure
            }
            Verdict::Inject => !recorded,
            Verdict::Forbid(reason) => {
                let reason = reason.clone();
                let fault = Fault::Forbidden { run: self.id.clone(), command: command.clone(), reason };
                return self.stop(fault).await;
            }
        };
        // Only after the rest of history was delivered: if it cannot be, the run diverged, and that is the better
        // explanation than a command that is not recorded.
        if unrecorded {
            self.wait_for_frontier(command).await;
            return self.stop(Fault::Unrecorded { run: self.id.clone(), requested: Box::new(side()) }).await;
        }
        verdict
    }

    /// Stops the run with a divergence.
    pub(crate) fn diverged<T>(
        &self,
        recorded: Option<CommandSummary>,
        requested: Option<CommandSummary>,
    ) -> Pending<T> {
        let divergence = Divergence {
            run: self.id.clone(),
            recorded,
            requested,
            changes: ValueChanges::default(),
            same_code: self.is_of_same_code(),
        };
        self.stop(Fault::Diverged(Box::new(divergence)))
    }

    /// Stops the run: its code passes other arguments than are recorded.
    fn differs<T>(
        &self,
        recorded: CommandSummary,
        requested: CommandSummary,
        changes: ValueChanges,
    ) -> Pending<T> {
        let run = self.id.clone();
        let divergence = Divergence {
            run,
            recorded: Some(recorded),
            requested: Some(requested),
            changes,
            same_code: self.is_of_same_code(),
        };
        self.stop(Fault::Diverged(Box::new(divergence)))
    }

    /// The recorded arguments of a command. Delivers nothing.
    pub(crate) fn recorded_input(&self, command: &CommandId) -> Option<Payload> {
        self.lock().history.request(command.place()).and_then(|record| record.input.clone())
    }

    /// What is recorded of a command. Delivers nothing, and does not count as a request.
    pub(crate) fn recorded(&self, command: &CommandId) -> Option<CommandRecord> {
        self.lock().history.peek(command.place()).cloned()
    }

    /// Whether history holds this command. Delivers nothing, and does not count as a request.
    pub(crate) fn is_recorded(&self, command: &CommandId) -> bool {
        self.lock().history.peek(command.place()).is_some_and(|record| record.command == *command)
    }

    /// Takes in what is recorded of a command by now, for who goes on with it.
    pub(crate) fn bring_up_to_date(&self, record: CommandRecord) {
        self.lock().history.bring_up_to_date(record);
    }

    /// The recorded answer of a command. Does not deliver it.
    pub(crate) fn peek(&self, command: &CommandId) -> Option<RecordedResult> {
        self.lock().history.request(command.place()).and_then(|record| record.answer.clone())
    }

    /// Waits until this command's answer is the next one in recorded order, and takes it.
    pub(crate) async fn next_delivery(&self, command: &CommandId) -> CommandRecord {
        // `take_delivery` looks and registers the waker under one lock, so that the delivery before this one cannot
        // slip in between. Taking an answer wakes the command whose answer is next, or, after the last one, every
        // command that waits at the frontier.
        let taken = poll_fn(|cx| {
            if self.holds_back(cx) {
                return Poll::Pending;
            }
            let taken = self.lock().history.take_delivery(command.place(), cx.waker());
            taken.map_or(Poll::Pending, Poll::Ready)
        })
        .await;
        self.lock().matched += 1;
        taken
    }

    /// Stops the run: the recorded answer of `command` is of another kind than the command.
    pub(crate) fn mismatched<T>(
        &self,
        command: &CommandId,
        class: EffectClass,
        found: Option<RecordedResult>,
    ) -> Pending<T> {
        tracing::error!(target: "aether::run", run = %self.id, %command, ?found, "recorded answer is of another kind");
        let side = CommandSummary { command: command.clone(), class, digest: None, site: None };
        self.diverged(Some(side.clone()), Some(side))
    }

    /// Waits until every recorded answer was delivered. Never returns in a run that is being stopped or cancelled.
    pub(crate) async fn wait_for_frontier(&self, command: &CommandId) {
        self.frontier(command).await;
        // After the wait, and not before: a shutdown or a cancellation may have begun in the meantime.
        self.still_open().await;
        self.record_passed_marks();
    }

    /// As [`Run::wait_for_frontier`], but it returns in a run that is being stopped: who won a race, and what its losers did, is
    /// known now, and to say it begins nothing.
    pub(crate) async fn wait_to_decide(&self, command: &CommandId) {
        self.frontier(command).await;
        if self.is_cancelling() {
            pending::<()>().await;
        }
        self.record_passed_marks();
    }

    async fn frontier(&self, command: &CommandId) {
        // A live effect that started earlier would mix its answer into the recorded order of deliveries.
        poll_fn(|cx| {
            if !self.holds_back(cx) && self.lock().history.pass_frontier(command, cx.waker()) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}

/// Whether a command of this class is answered by a body, behind the effect gate.
const fn has_body(class: EffectClass) -> bool {
    match class {
        EffectClass::Read
        | EffectClass::Llm
        | EffectClass::Tool
        | EffectClass::External
        | EffectClass::Http
        | EffectClass::Transaction => true,
        // The answer of a race is recorded as that of a pure command; a pure step is computed without being matched.
        EffectClass::Pure
        | EffectClass::Time
        | EffectClass::Uuid
        | EffectClass::Random
        | EffectClass::Human
        | EffectClass::Workflow => false,
    }
}

pub(super) fn recorded_side(record: &CommandRecord, otherwise: EffectClass) -> CommandSummary {
    CommandSummary {
        command: record.command.clone(),
        class: record.class.unwrap_or(otherwise),
        digest: record.digest.clone(),
        site: record.site(),
    }
}

/// What history holds of a command.
#[derive(Debug)]
pub(crate) enum Matched {
    /// Its answer is recorded.
    Answered,
    /// It was started, and its answer is not recorded.
    Begun(Box<CommandRecord>),
    /// History does not hold it.
    New,
}
