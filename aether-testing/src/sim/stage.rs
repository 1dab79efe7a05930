//! The stage of one simulation: answers bodies from their scripts and writes down every call.
//!
//! Promise: a call that no script answers stops the simulation; nothing real runs unasked, except `pure` bodies.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use aether_core::def::StepOptions;
use aether_core::host::{BodyCall, Interceptor};
use aether_core::id::{CommandId, IdempotencyKey, RunId};
use aether_core::outcome::EffectClass;
use aether_core::payload::Payload;
use aether_core::replay::Answer;
use aether_core::step::BodyResult;
use aether_core::step_cx::StepCx;
use futures_util::future::{BoxFuture, pending};
use tokio::sync::Notify;

use super::orders::Orders;
use super::script::{Behaviour, Script, Scripts};
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
    state: Mutex<State>,
    pub(super) trouble: Signal<SimError>,
}

#[derive(Debug, Default)]
struct State {
    /// Number of this process, from 1.
    life: usize,
    /// Answers given, by path.
    used: BTreeMap<String, usize>,
    /// For each path and key, the process that got an answer last, and which.
    turns: BTreeMap<(String, String), (usize, usize)>,
    /// The newest question of each call of a model.
    asked: BTreeMap<String, usize>,
    calls: Vec<CallRecord>,
    /// What this process writes to.
    store: Option<Arc<CrashStore>>,
}

impl Stage {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            scripts: Arc::clone(&settings.scripts),
            tape: settings.tape.clone(),
            draws: settings.draws.clone().unwrap_or_default(),
            orders: settings.orders.clone(),
            state: Mutex::default(),
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
            return self.next_of(script, call, self.turn(call, cx));
        }
        if call.options.class == EffectClass::Pure {
            return Ok(Behaviour::Real);
        }
        if let Some(name) = self.scripts.models.answered_call(call.path) {
            let turn = self.turn(call, cx);
            self.state().asked.insert(name.into(), turn);
            return Ok(Behaviour::Real);
        }
        if let Some(answer) = http::answer(&self.scripts.http, call) {
            return Ok(answer);
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

    fn next_of(&self, script: &Script, call: &BodyCall<'_>, turn: usize) -> Result<Behaviour, SimError> {
        let behaviour = script.first.get(turn).or(script.then.as_ref());
        behaviour.cloned().ok_or_else(|| SimError::StubUsedUp {
            asked: call.path.into(),
            command: call.command.clone(),
            answers: script.first.len(),
        })
    }

    /// Number of the answer that is this call's turn. A call whose answer a crash took along gets the same one again.
    fn turn(&self, call: &BodyCall<'_>, cx: &StepCx) -> usize {
        let mut state = self.state();
        let (life, path) = (state.life, call.path.to_owned());
        if let Some((given_in, turn)) = state.turns.get_mut(&(path.clone(), cx.idempotency_key().to_string()))
            && *given_in < life
        {
            *given_in = life;
            return *turn;
        }
        let used = state.used.entry(path.clone()).or_default();
        let turn = *used;
        *used += 1;
        state.turns.insert((path, cx.idempotency_key().to_string()), (life, turn));
        turn
    }

    /// Begins to answer the next process.
    pub(super) fn begin_life(&self, store: &Arc<CrashStore>) {
        let mut state = self.state();
        state.life += 1;
        state.store = Some(Arc::clone(store));
    }

    /// The answer to a call that died before it did anything is still to be given.
    fn take_back(&self, path: &str, key: &str) {
        let mut state = self.state();
        if state.turns.remove(&(path.to_owned(), key.to_owned())).is_some()
            && let Some(used) = state.used.get_mut(path)
        {
            *used = used.saturating_sub(1);
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
            let key = IdempotencyKey::new(call.run, call.command, call.attempt);
            self.take_back(call.path, key.as_str());
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
        match self.next(call, cx) {
            Ok(Behaviour::Answer(answer)) => {
                let answer = answer(cx.clone(), call.args.clone());
                let Some(tape) = self.tape.clone() else { return Some(answer) };
                let key = cx.idempotency_key();
                Some(Box::pin(async move { tape.pass(key, answer.await) }))
            }
            Ok(Behaviour::Real) => None,
            Ok(Behaviour::Never) => Some(Box::pin(pending())),
            Err(error) => {
                self.give_up(error);
                Some(Box::pin(pending()))
            }
        }
    }
}
