//! The stage of one simulation: answers bodies from their scripts and writes down every call.
//!
//! Promise: a call that no script answers stops the simulation; nothing real runs unasked, except `pure` bodies.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use aether_core::host::{BodyCall, Interceptor};
use aether_core::id::{CommandId, IdempotencyKey, RunId};
use aether_core::outcome::EffectClass;
use aether_core::payload::Payload;
use aether_core::step::BodyResult;
use aether_core::step_cx::StepCx;
use futures_util::future::{BoxFuture, pending};
use tokio::sync::Notify;

use super::SimError;
use super::script::{Behaviour, Scripts};

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
    /// What kind of contact with the world it is.
    pub class: EffectClass,
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

/// Answers bodies during one simulation, over all its crashes.
#[derive(Debug)]
pub(super) struct Stage {
    scripts: Arc<Scripts>,
    state: Mutex<State>,
    pub(super) trouble: Signal<SimError>,
}

#[derive(Debug, Default)]
struct State {
    used: BTreeMap<String, usize>,
    calls: Vec<CallRecord>,
}

impl Stage {
    pub(super) fn new(scripts: Arc<Scripts>) -> Self {
        Self { scripts, state: Mutex::default(), trouble: Signal::new() }
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
            class: cx.class(),
            args: call.args.clone(),
            key: cx.idempotency_key(),
        });
    }

    /// What the script says about the next call of `path`.
    fn next(&self, call: &BodyCall<'_>, class: EffectClass) -> Result<Behaviour, SimError> {
        let Some(script) = self.scripts.get(call.path) else {
            return match class {
                EffectClass::Pure => Ok(Behaviour::Real),
                _ => Err(SimError::MissingStub {
                    asked: call.path.into(),
                    command: call.command.clone(),
                    args: call.args.clone(),
                    stubs: self.scripts.names(),
                }),
            };
        };
        let mut state = self.state();
        let used = state.used.entry(call.path.into()).or_default();
        let behaviour = script.first.get(*used).or(script.then.as_ref());
        *used += 1;
        behaviour.cloned().ok_or_else(|| SimError::StubUsedUp {
            asked: call.path.into(),
            command: call.command.clone(),
            answers: script.first.len(),
        })
    }
}

impl Interceptor for Stage {
    fn intercept(&self, call: &BodyCall<'_>, cx: &StepCx) -> Option<BoxFuture<'static, BodyResult>> {
        self.note(call, cx);
        match self.next(call, cx.class()) {
            Ok(Behaviour::Answer(answer)) => Some(answer(cx.clone(), call.args.clone())),
            Ok(Behaviour::Real) => None,
            Ok(Behaviour::Never) => Some(Box::pin(pending())),
            Err(error) => {
                self.trouble.set(error);
                Some(Box::pin(pending()))
            }
        }
    }
}
