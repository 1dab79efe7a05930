//! The dispatcher of one simulation: answers bodies and probes from their scripts, and writes every call down.
//!
//! Promise: a call that no script answers stops the simulation; nothing real runs unasked, except `pure` bodies. A probe
//! that has no script finds what the stubs did.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aether_core::definition::def::{Probe, WorkflowDef};
use aether_core::id::{CommandId, IdempotencyKey, RunId};
use aether_core::journal::history::RecordedResult;
use aether_core::outcome::{EffectClass, FailureClass};
use aether_core::payload::Payload;
use aether_core::private::CONFIG_PATH;
use aether_core::step::StepCx;
use aether_core::step::{BodyCall, Interceptor};
use aether_core::step::{BodyError, BodyResult, ProbeResult};
use aether_effects::llm::ChatRequest;
use futures_util::future::{BoxFuture, pending, ready};

use super::conversations::{Asking, Conversations};
use super::latch::Latch;
use super::pieces::sending;
use super::reports::ReportQueue;
use super::turns::{Given, HTTP, Turns};
use crate::sim::report::call::CallRecord;
use crate::sim::report::error::SimError;
use crate::sim::schedule::pace::Pace;
use crate::sim::schedule::plan::PointKind;
use crate::sim::scheduler::BodyScheduler;
use crate::sim::script::answers::{Answers, Matcher, ProbeStub, Script};
use crate::sim::script::behaviour::Behaviour;
use crate::sim::script::conversation::Reply;
use crate::sim::script::http;
use crate::sim::script::scripts::Scripts;
use crate::sim::settings::Settings;
use crate::sim::tape::{Draws, Tape};
use crate::stores::crash::CrashStore;
use crate::trap::watch::caught;

/// Answers bodies during one simulation, over all its crashes.
#[derive(Debug)]
pub(crate) struct StubDispatcher {
    pub(crate) scripts: Arc<Scripts>,
    tape: Option<Tape>,
    draws: Draws,
    /// The id of the simulated run.
    root: String,
    scheduler: Option<Arc<BodyScheduler>>,
    pace: Option<Arc<Pace>>,
    state: Arc<Mutex<State>>,
    /// What bodies that handed their completion over have reported about them.
    pub(crate) reports: Arc<ReportQueue>,
    /// Why the simulation was given up.
    pub(crate) trouble: Latch<SimError>,
}

#[derive(Debug, Default)]
struct State {
    turns: Turns,
    conversations: Conversations,
    /// The number of the question of each call of a model whose body is polled, and by which command it is asked.
    asked: BTreeMap<String, (usize, Asking)>,
    calls: Vec<CallRecord>,
    /// What this process writes to.
    store: Option<Arc<CrashStore>>,
    /// What each world-changing call did to the simulated world.
    world: BTreeMap<IdempotencyKey, Probe<Payload>>,
    /// The calls whose real bodies ran, or were about to.
    real: BTreeSet<IdempotencyKey>,
}

impl State {
    fn note_real(&mut self, key: IdempotencyKey, is_real: bool) {
        if is_real {
            self.real.insert(key);
        } else {
            self.real.remove(&key);
        }
    }

    fn take_back(&mut self, path: &str, key: &IdempotencyKey) {
        self.world.remove(key);
        self.turns.put_back(path, &key.to_string());
    }
}

impl StubDispatcher {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            scripts: Arc::clone(&settings.scripts),
            tape: settings.tape.clone(),
            draws: settings.draws.clone().unwrap_or_default(),
            root: settings.id.clone(),
            scheduler: settings.scheduler.clone(),
            pace: settings.pace.clone(),
            state: Arc::default(),
            reports: Arc::default(),
            trouble: Latch::new(),
        }
    }

    /// Begins to answer the next process.
    pub(crate) fn begin_process(&self, store: &Arc<CrashStore>) {
        let mut state = self.state();
        state.turns.begin_process();
        state.store = Some(Arc::clone(store));
    }

    /// Every call so far, in order.
    pub(crate) fn calls(&self) -> Vec<CallRecord> {
        self.state().calls.clone()
    }

    /// Ends the simulation.
    pub(crate) fn give_up(&self, error: SimError) {
        self.trouble.set(error);
    }

    /// What a model answers. Bodies of calls of one name may be under way side by side: it is the question of the one that
    /// is polled.
    pub(super) fn model_reply(&self, request: &ChatRequest) -> Result<Reply, SimError> {
        let models = &self.scripts.models;
        let mut state = self.state();
        let (turn, place) = match state.asked.get(&request.call).cloned() {
            Some((turn, asking)) => {
                let replies = models.conversations.get(&request.call).map_or(&[][..], Vec::as_slice);
                (turn, state.conversations.place(&asking, request, replies))
            }
            None => (0, 0),
        };
        drop(state);
        models.answer(request, turn, place)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn draws(&self) -> MutexGuard<'_, BTreeMap<(RunId, CommandId), RecordedResult>> {
        self.draws.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this process is dead and only does not know it yet.
    fn is_dead(&self) -> bool {
        self.state().store.as_ref().is_some_and(|store| store.is_frozen())
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

    /// What the script says about this call. The order is that of precedence: the step's own script, the real body of a
    /// `pure` step, a model's script, a server's, the recording, and the
    /// configuration that the test provides.
    fn behaviour(&self, call: &BodyCall<'_>, cx: &StepCx) -> Result<Behaviour, SimError> {
        let key = cx.idempotency_key().to_string();
        if let Some(script) = self.scripts.get(call.path).filter(|script| !script.is_empty()) {
            return self.scripted(script, call, &key);
        }
        if call.options.class == EffectClass::Pure {
            return Ok(Behaviour::Real);
        }
        if self.scripts.models.answered_call(call.path).is_some() {
            self.ask_model(call.path, &key);
            return Ok(Behaviour::Real);
        }
        let servers = http::answers(&self.scripts.http, call);
        if !servers.is_empty() {
            let answers = servers.iter().map(|(_, answers)| answers.first.len()).sum();
            let used_up =
                || SimError::StubUsedUp { asked: call.path.into(), command: call.command.clone(), answers };
            return self.pick(HTTP, &key, &servers).ok_or_else(used_up);
        }
        if let Some(recorded) = &self.scripts.recorded {
            return recorded.answer(call);
        }
        // What the test provides is its script.
        if call.path == CONFIG_PATH {
            return Ok(Behaviour::Real);
        }
        Err(SimError::MissingStub {
            asked: call.path.into(),
            command: call.command.clone(),
            args: call.args.clone(),
            stubs: self.scripts.names(),
        })
    }

    /// Counts a question to a model; the scripted client answers it.
    fn ask_model(&self, path: &str, key: &str) {
        let mut state = self.state();
        if state.turns.given_before(path, key).is_none() {
            state.turns.give(path, key, 0);
        }
    }

    /// A body that asks a model, if this is one: whenever it is polled, the question is its own.
    fn asking(
        &self,
        call: &BodyCall<'_>,
        mut body: BoxFuture<'static, BodyResult>,
    ) -> BoxFuture<'static, BodyResult> {
        let Some(name) = self.scripts.models.answered_call(call.path).map(str::to_owned) else { return body };
        let (path, state) = (call.path.to_owned(), Arc::clone(&self.state));
        let key = IdempotencyKey::new(call.run, call.command, call.attempt).to_string();
        let own = Asking { run: call.run.clone(), command: call.command.clone(), attempt: call.attempt };
        Box::pin(poll_fn(move |cx| {
            let mut asking = state.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(turn) = asking.turns.turn_of(&path, &key) {
                asking.asked.insert(name.clone(), (turn, own.clone()));
            }
            drop(asking);
            body.as_mut().poll(cx)
        }))
    }

    /// The answer of the first matcher that fits and is not used up, or the answer for all other calls.
    fn scripted(&self, script: &Script, call: &BodyCall<'_>, key: &str) -> Result<Behaviour, SimError> {
        let fitting = script.matchers.iter().enumerate().filter(|(_, matcher)| self.fits(matcher, call));
        let mut answers: Vec<_> = fitting.map(|(number, matcher)| (number, &matcher.answers)).collect();
        answers.push((script.matchers.len(), &script.rest));
        if let Some(behaviour) = self.pick(call.path, key, &answers) {
            return Ok(behaviour);
        }
        let (asked, command) = (call.path.into(), call.command.clone());
        if script.matchers.is_empty() {
            return Err(SimError::StubUsedUp { asked, command, answers: script.rest.first.len() });
        }
        let why = |(number, matcher): (usize, &Matcher)| match answers.iter().any(|(fits, _)| *fits == number)
        {
            true => format!("{}, used up after {} answers", matcher.at, matcher.answers.first.len()),
            false => format!("{}, for other arguments", matcher.at),
        };
        let matchers = script.matchers.iter().enumerate().map(why).collect();
        Err(SimError::NoMatch { asked, command, args: call.args.clone(), matchers })
    }

    /// The first answer that is not used up by calls of `path`. A call whose answer a crash took along gets the same one
    /// again.
    fn pick(&self, path: &str, key: &str, answers: &[(usize, &Answers)]) -> Option<Behaviour> {
        let mut state = self.state();
        if let Some(Given { matcher, turn, .. }) = state.turns.given_before(path, key)
            && let Some((_, answers)) = answers.iter().find(|(number, _)| *number == matcher)
            && let Some(behaviour) = answers.get(turn)
        {
            return Some(behaviour.clone());
        }
        answers.iter().find_map(|(matcher, answers)| {
            let behaviour = answers.get(state.turns.next(path, *matcher))?;
            state.turns.give(path, key, *matcher);
            Some(behaviour.clone())
        })
    }

    /// Whether a matcher is for this call. One that panics ends the simulation.
    fn fits(&self, matcher: &Matcher, call: &BodyCall<'_>) -> bool {
        match std::panic::catch_unwind(AssertUnwindSafe(|| (matcher.fits)(call.args))) {
            Ok(Ok(fits)) => fits,
            Ok(Err(error)) => {
                self.give_up(SimError::Broken(format!("`.when` at {}: {error}", matcher.at)));
                false
            }
            Err(_) => {
                self.give_up(SimError::Broken(format!("the matcher of `.when` at {} panicked", matcher.at)));
                false
            }
        }
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

    /// A stub with what it sends to streams first.
    fn sending(
        &self,
        call: &BodyCall<'_>,
        cx: &StepCx,
        answer: BoxFuture<'static, BodyResult>,
    ) -> BoxFuture<'static, BodyResult> {
        match self.scripts.get(call.path) {
            Some(script) if !script.sends.is_empty() => {
                sending(script.sends.clone(), cx.clone(), call.args.clone(), answer)
            }
            _ => answer,
        }
    }

    /// A call that died before it did anything: its answer is still to be given, and the world is as it was.
    fn take_back(&self, call: &BodyCall<'_>) {
        let key = IdempotencyKey::new(call.run, call.command, call.attempt);
        self.state().take_back(call.path, &key);
    }

    /// Begins a body when the schedule lets it. Does not return where the process died before.
    fn begin_when_due(
        &self,
        call: &BodyCall<'_>,
        store: &Arc<CrashStore>,
        body: BoxFuture<'static, BodyResult>,
    ) -> BoxFuture<'static, BodyResult> {
        let Some(pace) = self.pace.clone() else { return body };
        let key = IdempotencyKey::new(call.run, call.command, call.attempt);
        let (path, command, store) = (call.path.to_owned(), call.command.clone(), Arc::clone(store));
        let state = Arc::clone(&self.state);
        Box::pin(async move {
            pace.pass(PointKind::Body, || format!("the body of {command}")).await;
            if store.is_frozen() {
                state.lock().unwrap_or_else(PoisonError::into_inner).take_back(&path, &key);
                return pending().await;
            }
            let answer = body.await;
            pace.pass(PointKind::Return, || format!("what the body of {command} returned")).await;
            answer
        })
    }
}

impl Interceptor for StubDispatcher {
    fn draw(&self, run: &RunId, command: &CommandId) -> Option<RecordedResult> {
        let recorded = self.scripts.recorded.as_ref().and_then(|answers| answers.draw(run, command));
        recorded.or_else(|| self.draws().get(&(run.clone(), command.clone())).cloned())
    }

    fn drawn(&self, run: &RunId, command: &CommandId, answer: &RecordedResult) {
        self.draws().entry((run.clone(), command.clone())).or_insert_with(|| answer.clone());
    }

    fn version(&self, run: &RunId, mark: &CommandId, range: (u32, u32)) -> Option<u32> {
        let recorded = || Some(self.scripts.recorded.as_ref()?.version(run, mark, range.0));
        self.scripts.marks.get(mark.name()).copied().or_else(recorded)
    }

    fn workflow(
        &self,
        run: &RunId,
        def: &'static WorkflowDef,
        input: &Payload,
    ) -> Option<BoxFuture<'static, BodyResult>> {
        let stub = self.scripts.children.get(def).filter(|_| run.as_str() != self.root)?;
        let (stub, input) = (Arc::clone(stub), input.clone());
        // Called by the run, so that its panic is that of the workflow.
        Some(Box::pin(async move { stub(&input) }))
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
        let body = self.begin_when_due(call, &store, self.asking(call, body));
        let pure = call.options.class == EffectClass::Pure;
        let scheduler = self.scheduler.clone().filter(|_| !pure);
        let (name, command) =
            (format!("{} {}#{}", call.run, call.command, call.attempt), call.command.clone());
        Box::pin(async move {
            let answer = body.await;
            store.body_returns(number, command.as_str());
            if store.is_frozen() {
                return pending().await;
            }
            if let Some(scheduler) = scheduler {
                scheduler.hold(name).await;
            }
            answer
        })
    }

    fn intercept(&self, call: &BodyCall<'_>, cx: &StepCx) -> Option<BoxFuture<'static, BodyResult>> {
        if caught() || self.is_dead() {
            // The simulation, or this process, has ended; no body runs any more.
            return Some(Box::pin(pending()));
        }
        self.note(call, cx);
        if call.options.class.changes_world() {
            self.state().world.insert(cx.idempotency_key(), Probe::Unknown);
        }
        let behaviour = self.behaviour(call, cx);
        self.state().note_real(cx.idempotency_key(), matches!(behaviour, Ok(Behaviour::Real)));
        match behaviour {
            Ok(Behaviour::Stub(answer)) => {
                let answer = answer(cx.clone(), call.args.clone());
                Some(self.play(call, cx, self.sending(call, cx, answer)))
            }
            Ok(Behaviour::HandOver(after, report)) => {
                let (reports, own, args) = (Arc::clone(&self.reports), cx.clone(), call.args.clone());
                let answer = Box::pin(async move { reports.hand_over(&own, after, report(&args)) });
                Some(self.sending(call, cx, answer))
            }
            Ok(Behaviour::Real) => None,
            Ok(Behaviour::Never) => Some(self.sending(call, cx, Box::pin(pending()))),
            Err(error) => {
                self.give_up(error);
                Some(Box::pin(pending()))
            }
        }
    }

    fn probe(&self, call: &BodyCall<'_>, cx: &StepCx) -> Option<BoxFuture<'static, ProbeResult>> {
        let (key, stub) = (cx.idempotency_key(), self.scripts.probes.get(call.path));
        match stub {
            Some(ProbeStub::Real) => None,
            Some(ProbeStub::Answer(look)) => Some(Box::pin(ready(look(call.args)))),
            Some(ProbeStub::OfRealBodies) if self.state().real.contains(&key) => None,
            Some(ProbeStub::OfRealBodies) | None => {
                let found = self.state().world.get(&key).cloned();
                Some(Box::pin(ready(Ok(Ok(found.unwrap_or(Probe::DidNotHappen))))))
            }
        }
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
