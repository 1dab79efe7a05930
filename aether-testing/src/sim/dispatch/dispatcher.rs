//! The stage of one simulation: answers bodies from their scripts and writes down every call.
//!
//! Promise: a call that no script answers stops the simulation; nothing real runs unasked, except `pure` bodies. A probe
//! that has no script finds what the stubs did.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use aether_core::def::{Probe, StepOptions};
use aether_core::host::{BodyCall, Interceptor};
use aether_core::id::{CommandId, IdempotencyKey, RunId};
use aether_core::outcome::{EffectClass, FailureClass};
use aether_core::payload::Payload;
use aether_core::replay::Answer;
use aether_core::step::{BodyError, BodyResult, ProbeResult};
use aether_core::step_cx::StepCx;
use futures_util::future::{BoxFuture, pending, ready};
use tokio::sync::Notify;

use super::orders::Orders;
use super::people::Reports;
use super::script::{Answers, Behaviour, Look, Rule, Script, Scripts};
use super::{Settings, SimError, http};
use crate::crash::CrashStore;
use crate::trap;

/// One call of a body, real or not.
#[derive(Clone, Debug)]
pub struct CallRecord {
    /// Unique name of the step, or name of the effect.
    pub path: String,
    /// The run.
    pub run: RunId,
    /// The command.
    pub command: CommandId,
    /// Logical attempt, from 0.
    pub attempt: u32,
    /// How the step is executed.
    pub options: StepOptions,
    /// The arguments.
    pub args: Payload,
    /// The key that the outside would see.
    pub key: IdempotencyKey,
}

/// A value that is set once and waited for.
#[derive(Debug)]
pub(super) struct Signal<T> {
    value: OnceLock<T>,
    set: Notify,
}

impl<T: Clone + Debug> Signal<T> {
    fn new() -> Self {
        Self { value: OnceLock::new(), set: Notify::new() }
    }

    fn set(&self, value: T) {
        let _first_counts = self.value.set(value);
        self.set.notify_one();
    }

    pub(super) async fn wait(&self) -> T {
        loop {
            if let Some(value) = self.value.get() {
                return value.clone();
            }
            self.set.notified().await;
        }
    }
}

/// What stubs answered in a first simulation, to answer the same in a second one.
#[derive(Clone, Debug, Default)]
pub(super) struct Tape {
    answers: Arc<Mutex<BTreeMap<IdempotencyKey, BodyResult>>>,
    plays: bool,
}

impl Tape {
    /// Takes answers down.
    pub(super) fn recording(&self) -> Self {
        Self { plays: false, ..self.clone() }
    }

    /// Gives the answers that were taken down. A stub is called all the same, and may wait.
    pub(super) fn playing(&self) -> Self {
        Self { plays: true, ..self.clone() }
    }

    fn pass(&self, key: IdempotencyKey, answer: BodyResult) -> BodyResult {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if self.plays {
            return answers.get(&key).cloned().unwrap_or(answer);
        }
        answers.insert(key, answer.clone());
        answer
    }
}

/// The draws of workflow code by run and command. One that a crash took along is drawn again with the same value, and so
/// is one of another simulation that shares them.
pub(super) type Draws = Arc<Mutex<BTreeMap<(RunId, CommandId), Answer>>>;

/// Answers bodies during one simulation, over all its crashes.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) scripts: Arc<Scripts>,
    tape: Option<Tape>,
    draws: Draws,
    orders: Option<Arc<Orders>>,
    state: Arc<Mutex<State>>,
    /// What bodies that handed their completion over have reported about them.
    pub(super) reports: Reports,
    pub(super) trouble: Signal<SimError>,
}

#[derive(Debug, Default)]
struct State {
    /// Number of this process, from 1.
    life: usize,
    /// Answers given, by path and by rule: the rest of a script has the number of its rules.
    used: BTreeMap<(String, usize), usize>,
    /// The answer that each path and key was given last.
    given: BTreeMap<(String, String), Given>,
    /// The newest question of each call of a model.
    asked: BTreeMap<String, usize>,
    calls: Vec<CallRecord>,
    /// What this process writes to.
    store: Option<Arc<CrashStore>>,
    /// What each world-changing call did to the simulated world.
    world: BTreeMap<IdempotencyKey, Probe<Payload>>,
}

/// Which answer was given.
#[derive(Clone, Copy, Debug)]
struct Given {
    /// To which process.
    life: usize,
    rule: usize,
    turn: usize,
}

impl Stage {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            scripts: Arc::clone(&settings.scripts),
            tape: settings.tape.clone(),
            draws: settings.draws.clone().unwrap_or_default(),
            orders: settings.orders.clone(),
            state: Arc::default(),
            reports: Reports::default(),
            trouble: Signal::new(),
        }
    }

    fn draws(&self) -> MutexGuard<'_, BTreeMap<(RunId, CommandId), Answer>> {
        self.draws.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this process is dead and only does not know it yet.
    fn is_dead(&self) -> bool {
        self.state().store.as_ref().is_some_and(|store| store.is_frozen())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every call so far, in order.
    pub(super) fn calls(&self) -> Vec<CallRecord> {
        self.state().calls.clone()
    }

    fn note(&self, call: &BodyCall<'_>, cx: &StepCx) {
        self.state().calls.push(CallRecord {
            path: call.path.into(),
            run: call.run.clone(),
            command: call.command.clone(),
            attempt: call.attempt,
            options: *call.options,
            args: call.args.clone(),
            key: cx.idempotency_key(),
        });
    }

    /// What the script says about this call.
    fn next(&self, call: &BodyCall<'_>, cx: &StepCx) -> Result<Behaviour, SimError> {
        if let Some(script) = self.scripts.get(call.path) {
            return self.scripted(script, call, cx);
        }
        if call.options.class == EffectClass::Pure {
            return Ok(Behaviour::Real);
        }
        if let Some(name) = self.scripts.models.answered_call(call.path) {
            let turn = match self.given_before(call.path, cx) {
                Some(given) => given.turn,
                None => self.give(call.path, cx, 0),
            };
            self.state().asked.insert(name.into(), turn);
            return Ok(Behaviour::Real);
        }
        let servers = http::answers(&self.scripts.http, call);
        if !servers.is_empty() {
            let answers = servers.iter().map(|(_, answers)| answers.first.len()).sum();
            let used_up =
                || SimError::StubUsedUp { asked: call.path.into(), command: call.command.clone(), answers };
            return self.pick("http", cx, &servers).ok_or_else(used_up);
        }
        if let Some(played) = &self.scripts.recorded {
            return played.answer(call);
        }
        Err(SimError::MissingStub {
            asked: call.path.into(),
            command: call.command.clone(),
            args: call.args.clone(),
            stubs: self.scripts.names(),
        })
    }

    /// The answer of the first rule that fits and is not used up, or of what is said for all other calls.
    fn scripted(&self, script: &Script, call: &BodyCall<'_>, cx: &StepCx) -> Result<Behaviour, SimError> {
        let fitting = script.rules.iter().enumerate().filter(|(_, rule)| self.fits(rule, call));
        let mut answers: Vec<_> = fitting.map(|(number, rule)| (number, &rule.answers)).collect();
        answers.push((script.rules.len(), &script.rest));
        if let Some(behaviour) = self.pick(call.path, cx, &answers) {
            return Ok(behaviour);
        }
        let (asked, command) = (call.path.into(), call.command.clone());
        if script.rules.is_empty() {
            return Err(SimError::StubUsedUp { asked, command, answers: script.rest.first.len() });
        }
        let told = |(number, rule): (usize, &Rule)| match answers.iter().any(|(fits, _)| *fits == number) {
            true => format!("{}, used up after {} answers", rule.at, rule.answers.first.len()),
            false => format!("{}, for other arguments", rule.at),
        };
        let matchers = script.rules.iter().enumerate().map(told).collect();
        Err(SimError::NoMatch { asked, command, args: call.args.clone(), matchers })
    }

    /// The first answer that is not used up by calls of `path`. A call whose answer a crash took along gets the same one
    /// again.
    fn pick(&self, path: &str, cx: &StepCx, answers: &[(usize, &Answers)]) -> Option<Behaviour> {
        if let Some(Given { rule, turn, .. }) = self.given_before(path, cx)
            && let Some((_, answers)) = answers.iter().find(|(number, _)| *number == rule)
            && let Some(behaviour) = answers.get(turn)
        {
            return Some(behaviour.clone());
        }
        answers.iter().find_map(|(rule, answers)| {
            let behaviour = answers.get(self.used(path, *rule))?;
            self.give(path, cx, *rule);
            Some(behaviour.clone())
        })
    }

    /// Whether a rule is for this call. A matcher that panics ends the simulation.
    fn fits(&self, rule: &Rule, call: &BodyCall<'_>) -> bool {
        match std::panic::catch_unwind(AssertUnwindSafe(|| (rule.fits)(call.args))) {
            Ok(Ok(fits)) => fits,
            Ok(Err(error)) => {
                self.give_up(SimError::Broken(format!("`.when` at {}: {error}", rule.at)));
                false
            }
            Err(_) => {
                self.give_up(SimError::Broken(format!("the matcher of `.when` at {} panicked", rule.at)));
                false
            }
        }
    }

    /// How many answers of a rule are used.
    fn used(&self, path: &str, rule: usize) -> usize {
        self.state().used.get(&(path.to_owned(), rule)).copied().unwrap_or_default()
    }

    /// The answer that a process which died was given for this call.
    fn given_before(&self, path: &str, cx: &StepCx) -> Option<Given> {
        let mut state = self.state();
        let life = state.life;
        let given = state.given.get_mut(&(path.to_owned(), cx.idempotency_key().to_string()))?;
        let before = given.life < life;
        given.life = life;
        before.then_some(*given)
    }

    /// Uses the next answer of a rule up; returns its number.
    fn give(&self, path: &str, cx: &StepCx, rule: usize) -> usize {
        let mut state = self.state();
        let used = state.used.entry((path.to_owned(), rule)).or_default();
        let turn = *used;
        *used += 1;
        let given = Given { life: state.life, rule, turn };
        state.given.insert((path.to_owned(), cx.idempotency_key().to_string()), given);
        turn
    }

    /// Calls a stub: what it does to the world is remembered for probes, and what it answers goes through the tape.
    fn play(
        &self,
        call: &BodyCall<'_>,
        cx: &StepCx,
        answer: BoxFuture<'static, BodyResult>,
    ) -> BoxFuture<'static, BodyResult> {
        let (key, tape) = (cx.idempotency_key(), self.tape.clone());
        let changes_world = call.options.class.changes_world();
        let state = Arc::clone(&self.state);
        Box::pin(async move {
            let answer = answer.await;
            let answer = match tape {
                Some(tape) => tape.pass(key.clone(), answer),
                None => answer,
            };
            if changes_world {
                state.lock().unwrap_or_else(PoisonError::into_inner).world.insert(key, done(&answer));
            }
            answer
        })
    }

    /// Begins to answer the next process.
    pub(super) fn begin_life(&self, store: &Arc<CrashStore>) {
        let mut state = self.state();
        state.life += 1;
        state.store = Some(Arc::clone(store));
    }

    /// A call that died before it did anything: its answer is still to be given, and the world is as it was.
    fn take_back(&self, call: &BodyCall<'_>) {
        let key = IdempotencyKey::new(call.run, call.command, call.attempt);
        let mut state = self.state();
        state.world.remove(&key);
        for path in [call.path, "http"] {
            let given = state.given.remove(&(path.to_owned(), key.to_string()));
            if let Some(used) = given.and_then(|given| state.used.get_mut(&(path.to_owned(), given.rule))) {
                *used = used.saturating_sub(1);
            }
        }
    }

    /// Number of the answer to the question that this call of a model is about to ask. The body asks as soon as it
    /// was let through, so that no other question of this name comes between.
    pub(super) fn model_turn(&self, call: &str) -> usize {
        self.state().asked.get(call).copied().unwrap_or_default()
    }

    /// Ends the simulation.
    pub(super) fn give_up(&self, error: SimError) {
        self.trouble.set(error);
    }
}

impl Interceptor for Stage {
    fn draw(&self, run: &RunId, command: &CommandId) -> Option<Answer> {
        let recorded = self.scripts.recorded.as_ref().and_then(|played| played.draw(run, command));
        recorded.or_else(|| self.draws().get(&(run.clone(), command.clone())).cloned())
    }

    fn drawn(&self, run: &RunId, command: &CommandId, answer: &Answer) {
        self.draws().entry((run.clone(), command.clone())).or_insert_with(|| answer.clone());
    }

    fn around(
        &self,
        call: &BodyCall<'_>,
        body: BoxFuture<'static, BodyResult>,
    ) -> BoxFuture<'static, BodyResult> {
        let Some(store) = self.state().store.clone() else { return body };
        let number = store.body_begins(call.command.as_str());
        if store.is_frozen() {
            self.take_back(call);
            return Box::pin(pending());
        }
        let pure = call.options.class == EffectClass::Pure;
        let orders = self.orders.clone().filter(|_| !pure);
        let (name, command) =
            (format!("{} {}#{}", call.run, call.command, call.attempt), call.command.clone());
        Box::pin(async move {
            let answer = body.await;
            store.body_returns(number, command.as_str());
            if store.is_frozen() {
                return pending().await;
            }
            if let Some(orders) = orders {
                orders.pass(name).await;
            }
            answer
        })
    }

    fn intercept(&self, call: &BodyCall<'_>, cx: &StepCx) -> Option<BoxFuture<'static, BodyResult>> {
        if trap::caught() || self.is_dead() {
            // The simulation, or this process, has ended; no body runs any more.
            return Some(Box::pin(pending()));
        }
        self.note(call, cx);
        if call.options.class.changes_world() {
            self.state().world.insert(cx.idempotency_key(), Probe::Unknown);
        }
        match self.next(call, cx) {
            Ok(Behaviour::Answer(answer)) => Some(self.play(call, cx, answer(cx.clone(), call.args.clone()))),
            Ok(Behaviour::HandOver(after, report)) => {
                let (reports, cx, args) = (self.reports.clone(), cx.clone(), call.args.clone());
                Some(Box::pin(async move { reports.hand_over(&cx, after, report(&args)) }))
            }
            Ok(Behaviour::Real) => None,
            Ok(Behaviour::Never) => Some(Box::pin(pending())),
            Err(error) => {
                self.give_up(error);
                Some(Box::pin(pending()))
            }
        }
    }

    fn probe(&self, call: &BodyCall<'_>, cx: &StepCx) -> Option<BoxFuture<'static, ProbeResult>> {
        let found = match self.scripts.probes.get(call.path) {
            Some(Look::Real) => return None,
            Some(Look::Answer(look)) => look(call.args),
            None => {
                let found = self.state().world.get(&cx.idempotency_key()).cloned();
                Ok(Ok(found.unwrap_or(Probe::DidNotHappen)))
            }
        };
        Some(Box::pin(ready(found)))
    }
}

/// What a body that ended so did to the world.
fn done(answer: &BodyResult) -> Probe<Payload> {
    match answer {
        Ok(Ok(value)) => Probe::Happened(value.clone()),
        Ok(Err(BodyError { class: FailureClass::Unknown, .. })) | Err(_) => Probe::Unknown,
        Ok(Err(_)) => Probe::DidNotHappen,
    }
}
