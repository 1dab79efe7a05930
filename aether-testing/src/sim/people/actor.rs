//! People of a simulation: consent, decisions and answers, in virtual time.
//!
//! Promise: everybody acts through the engine's own interface, as they would outside; nobody acts unless the test plans
//! it; a crash loses no decision and no answer.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use aether_core::engine::DecideError;
use aether_core::id::{CommandId, InvocationId, RunId};
use aether_core::journal::event::{Event, InvocationDecision};
use aether_core::payload::Payload;
use aether_core::run::Observed;
use aether_core::store::WaitFilter;
use aether_core::view::pending::{Pending, Waiting};
use jiff::Timestamp;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::persist::persist;
use crate::sim::dispatch::dispatcher::StubDispatcher;
use crate::sim::live::Live;
use crate::sim::report::error::SimError;
use crate::sim::schedule::pace::{Acknowledged, Pace};
use crate::sim::schedule::plan::{Message, MessageKind};
use crate::sim::script::people::{PeoplePlan, PlannedDecision};

/// Who decides where the test does not say.
const REVIEWER: &str = "reviewer";
/// How often a request is looked for that was announced and is not durable yet: first a virtual millisecond apart, then
/// longer, as its append may take long.
const LOOKS: u32 = 1_000;
/// Doubts about one command after which a simulation ends.
const MOST_DOUBTS: usize = 100;
/// The longest time between two of these looks.
const LOOK: Duration = Duration::from_secs(1);
/// The longest time between two looks for requests that were not heard of.
const RARELY: Duration = Duration::from_secs(24 * 3600);

/// Requests that were responded to: the run, the command, and the invocation where the request is about a doubt.
type Handled = BTreeSet<(RunId, CommandId, Option<InvocationId>)>;

/// Everybody who is asked something in a simulation: one actor for each process.
#[derive(Clone)]
pub(super) struct PeopleActor {
    plan: PeoplePlan,
    dispatcher: Arc<StubDispatcher>,
    live: Live,
    pace: Option<Arc<Pace>>,
}

impl PeopleActor {
    pub(super) fn new(
        plan: PeoplePlan,
        dispatcher: Arc<StubDispatcher>,
        live: Live,
        pace: Option<Arc<Pace>>,
    ) -> Self {
        Self { plan, dispatcher, live, pace }
    }

    /// Responds to every request of every run; ends with the engine. `watch` began before the run: a request that was
    /// announced and is not durable yet would be missed.
    pub(super) async fn run(self, mut watch: Receiver<Observed>) {
        let mut handled = BTreeSet::new();
        self.handle_pending(&mut handled).await;
        let mut again = Duration::from_secs(1);
        loop {
            let observed = tokio::select! {
                biased;
                observed = watch.recv() => observed,
                () = self.look_again(again) => {
                    again = (again * 2).min(RARELY);
                    self.handle_pending(&mut handled).await;
                    continue;
                }
            };
            match observed {
                Ok(observed) => {
                    for event in observed.events.iter() {
                        self.observe(&mut handled, &observed.run, event);
                    }
                }
                Err(RecvError::Lagged(_)) => self.handle_pending(&mut handled).await,
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// In a schedule, a request may have been announced before this actor listened, and become durable after it looked.
    async fn look_again(&self, wait: Duration) {
        match &self.pace {
            Some(_) => self.live.sleep(wait).await,
            None => std::future::pending().await,
        }
    }

    /// Responds to what was asked before this actor ran: by a process that died.
    async fn handle_pending(&self, handled: &mut Handled) {
        let kinds = vec![Waiting::Approval, Waiting::Question, Waiting::Resolution];
        let open = WaitFilter { kinds, ..WaitFilter::default() };
        match persist(&self.live, || self.live.engine().all_pending(open.clone())).await {
            Ok(page) => {
                for open in page.waits {
                    let doubt = open.invocation.as_ref().filter(|_| open.waiting == Waiting::Resolution);
                    self.respond_once(handled, &open.run, &open.command, doubt);
                }
            }
            Err(error) => self.dispatcher.give_up(error.into()),
        }
    }

    fn observe(&self, handled: &mut Handled, run: &RunId, event: &Event) {
        match event {
            Event::ApprovalRequested(asked) => self.respond_once(handled, run, &asked.command, None),
            Event::InvocationResolved(asked) if asked.decision == InvocationDecision::Ask => {
                self.respond_once(handled, run, &asked.command, Some(&asked.invocation));
            }
            Event::AnswerRefused(refused) => {
                let (command, reason) = (refused.command.clone(), refused.reason.clone());
                self.dispatcher.give_up(SimError::Refused { run: run.clone(), command, reason });
            }
            _ => {}
        }
    }

    fn respond_once(
        &self,
        handled: &mut Handled,
        run: &RunId,
        command: &CommandId,
        doubt: Option<&InvocationId>,
    ) {
        if !handled.insert((run.clone(), command.clone(), doubt.cloned())) {
            return;
        }
        // A person who says of every attempt that it did not happen would keep the run busy for ever.
        if handled.iter().filter(|(of, known, _)| of == run && known == command).count() > MOST_DOUBTS {
            let reason = format!("{MOST_DOUBTS} attempts were in doubt, and each was resolved");
            let (run, command) = (run.clone(), command.clone());
            return self.dispatcher.give_up(SimError::Refused { run, command, reason });
        }
        let (actor, run, command) = (self.clone(), run.clone(), command.clone());
        tokio::spawn(async move { actor.respond(&run, &command).await });
    }

    /// How long people still take, who were asked when the request became durable: perhaps of a process that has died.
    async fn delay(&self, run: &RunId, command: &CommandId) -> Option<Duration> {
        if self.plan.delay.is_zero() {
            return Some(Duration::ZERO);
        }
        let asked = self.open(run, command).await?.since;
        Some(self.live.left_until(asked.saturating_add(self.plan.delay).unwrap_or(Timestamp::MAX)))
    }

    async fn respond(&self, run: &RunId, command: &CommandId) {
        let Some(delay) = self.delay(run, command).await else { return };
        match &self.pace {
            Some(pace) => {
                let message = Message { kind: MessageKind::Reply, number: pace.reply_number(run, command) };
                pace.arrives(message, &format!("the reply to {command}"), delay).await;
            }
            None => self.live.sleep(delay).await,
        }
        let Some(pending) = self.open(run, command).await else { return };
        let reply = || async {
            match pending.waiting {
                Waiting::Approval => self.decide(&pending).await,
                Waiting::Question => self.answer(&pending).await,
                Waiting::Resolution => self.resolve(&pending).await,
                _ => Ok(false),
            }
        };
        match persist(&self.live, reply).await {
            // Something else was faster: the time limit, or what else the test does.
            Ok(true) => self.acknowledged(&pending),
            Ok(false)
            | Err(
                DecideError::AlreadyDecided { .. }
                | DecideError::Expired { .. }
                | DecideError::RunEnded { .. }
                | DecideError::NotWaiting { .. },
            ) => {}
            Err(error) => {
                let (run, command, reason) = (run.clone(), command.clone(), error.to_string());
                self.dispatcher.give_up(SimError::Refused { run, command, reason });
            }
        }
    }

    fn acknowledged(&self, pending: &Pending) {
        let Some(pace) = &self.pace else { return };
        let run = pending.run.clone();
        pace.acknowledge(match (pending.waiting, &pending.invocation) {
            (Waiting::Resolution, Some(invocation)) => Acknowledged::Resolution(run, invocation.clone()),
            _ => Acknowledged::Reply(run, pending.command.clone()),
        });
    }

    /// The request, once it is durable; `None` where it is not open any more.
    async fn open(&self, run: &RunId, command: &CommandId) -> Option<Pending> {
        let mut wait = Duration::from_millis(1);
        for _ in 0..LOOKS {
            match persist(&self.live, || self.live.engine().pending(run)).await {
                Ok(all) => {
                    if let Some(pending) = all.into_iter().find(|pending| pending.command == *command) {
                        return Some(pending);
                    }
                }
                Err(error) => self.dispatcher.give_up(error.into()),
            }
            self.live.sleep(wait).await;
            wait = (wait * 2).min(LOOK);
        }
        None
    }

    /// Whether anybody decided.
    async fn decide(&self, pending: &Pending) -> Result<bool, DecideError> {
        let (engine, Pending { run, command, args, .. }) = (self.live.engine(), pending);
        match self.plan.decision(pending) {
            Some(PlannedDecision::Approve { actor }) => engine.approve(run, command, actor).await,
            Some(PlannedDecision::Reject { reason }) => engine.reject(run, command, reason, REVIEWER).await,
            Some(PlannedDecision::Edit(edit)) => {
                let edited = edit(args.as_ref().unwrap_or(&Payload::null()))?;
                engine.approve_with(run, command, &edited, REVIEWER).await
            }
            Some(PlannedDecision::Silent) | None => return Ok(false),
        }
        .map(|()| true)
    }

    /// Whether anybody answered.
    async fn answer(&self, pending: &Pending) -> Result<bool, DecideError> {
        match self.plan.answer(pending) {
            Some(answer) => {
                self.live.engine().answer(&pending.run, &pending.command, &answer?, REVIEWER).await?;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Whether anybody knew what became of a call in doubt.
    async fn resolve(&self, pending: &Pending) -> Result<bool, DecideError> {
        match (self.plan.resolution(pending), &pending.invocation) {
            (Some(resolution), Some(invocation)) => {
                self.live.engine().resolve(&pending.run, invocation, resolution?, REVIEWER).await?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}
