//! The body on the stage: what it and its probe do is written beforehand.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, pending, ready};

use crate::run::claim::Run;
use crate::sched::Mutex;
use crate::step::body::{Admission, Body, BodyError, BodyResult, ProbeResult};
use crate::step::context::StepCx;
use crate::store::api::Store;
use crate::store::memory::MemoryStore;
use crate::store::records::Message;
use crate::vocabulary::deps::Deps;
use crate::vocabulary::id::{IdempotencyKey, RunId};
use crate::vocabulary::outcome::FailureClass;
use crate::vocabulary::payload::{Payload, PayloadError};

/// What the body does in one call.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Returns this JSON.
    Returns(&'static str),
    /// Has this HTTP answer, and returns this JSON.
    Fetches(&'static str, &'static str),
    /// Says that it changed this file, and returns `true`.
    Writes(&'static str),
    /// Fails with this class.
    Fails(FailureClass),
    /// Fails with this class, and asks to be left alone for so long.
    FailsFor(FailureClass, Duration),
    /// Fails with this class, and an error of so many bytes.
    FailsAtLength(FailureClass, usize),
    /// Fails with this class, and an error that does not serialize.
    FailsUnsaid(FailureClass),
    /// Returns a value that does not serialize.
    ReturnsUnsaid,
    /// Asks for a value that is not provided, says that it changed this file, and returns what it has drawn.
    Draws(&'static str),
    /// Panics.
    Panics,
    /// Says that a callback will report the outcome.
    Awaits,
    /// Takes a callback, and fails with this class.
    PassesOn(FailureClass),
    /// Takes a callback, and panics.
    PassesOnAndPanics,
    /// Has this HTTP answer, and says that a callback will report the outcome.
    HandsOver(&'static str),
    /// Asks for a value that is not provided, and fails for it.
    Lacks,
    /// Does without a value that is not provided, and fails with this class.
    DoesWithout(FailureClass),
    /// Has this HTTP answer, and fails for a value that is not provided.
    LacksAfter(&'static str),
    /// Says that it changed this file, and fails for a value that is not provided.
    LacksAfterChange(&'static str),
    /// Waits for something, and fails for a value that is not provided.
    LacksAfterWait,
    /// Takes a callback, and fails for a value that is not provided.
    LacksAfterToken,
    /// Takes a value that is provided, and fails for one that is not.
    LacksAfterAnother,
    /// Does without a value that is not provided, and says that a callback will report the outcome.
    AwaitsWithout,
    /// Never returns.
    Hangs,
}

/// What the program provides.
#[derive(Debug)]
pub(super) struct Provided;

/// An error of the body.
fn refusal(class: FailureClass) -> BodyError {
    BodyError { error: json("\"no\""), message: "no".into(), class, retry_after: None }
}

/// The error of a body that asks for a value that is not provided.
fn lack(cx: &StepCx) -> BodyError {
    let missing = cx.dep::<Script>().unwrap_err();
    BodyError { message: format!("not sent: {missing}"), ..refusal(FailureClass::Permanent) }
}

/// The body and its probe, by what they are to do next; what is used up hangs.
#[derive(Debug, Default)]
pub(crate) struct Script {
    pub(super) acts: Mutex<VecDeque<Act>>,
    pub(super) found: Mutex<VecDeque<ProbeResult>>,
    /// The probe never answers.
    pub(super) is_mute: Mutex<bool>,
    pub(super) calls: Mutex<Vec<IdempotencyKey>>,
    /// The run, and at which of the next admissions of its body it is cancelled.
    pub(super) cancelled: Mutex<(usize, std::sync::Weak<Run>)>,
    /// What is sent to the run while the probe looks.
    pub(super) meanwhile: Mutex<Option<(Arc<MemoryStore>, Message)>>,
}

impl Body for Script {
    fn call(&self, cx: StepCx, _: &Payload) -> BoxFuture<'static, BodyResult> {
        self.calls.lock().unwrap().push(cx.idempotency_key());
        let act = self.acts.lock().unwrap().pop_front().unwrap_or(Act::Hangs);
        let result = match act {
            Act::Returns(value) => Ok(json(value)),
            Act::Fetches(answer, value) => {
                cx.note_http(json("{}"), json(answer));
                Ok(json(value))
            }
            Act::Writes(file) => {
                cx.changed("file", file, "write");
                Ok(json("true"))
            }
            Act::Fails(class) => Err(refusal(class)),
            Act::FailsFor(class, time) => Err(BodyError { retry_after: Some(time), ..refusal(class) }),
            Act::Draws(file) => {
                cx.dep::<Script>().unwrap_err();
                cx.changed("file", file, "write");
                Ok(Payload::encode(&(cx.uuid(), cx.random())).unwrap())
            }
            Act::FailsAtLength(class, bytes) => {
                let message = "x".repeat(bytes);
                Err(BodyError { error: Payload::encode(&message).unwrap(), message, ..refusal(class) })
            }
            Act::FailsUnsaid(class) => {
                let error = PayloadError::Error { class, retry_after: None, reason: "not JSON".into() };
                return Box::pin(ready(Err(error)));
            }
            Act::ReturnsUnsaid => {
                let error = PayloadError::Encode { ty: "a receipt", reason: "not JSON".into() };
                return Box::pin(ready(Err(error)));
            }
            // Like a panic, without the noise.
            Act::Panics => std::panic::resume_unwind(Box::new("bang")),
            Act::HandsOver(answer) => {
                cx.note_http(json("{}"), json(answer));
                let _pending = cx.callback().unwrap().pending();
                Err(refusal(FailureClass::Permanent))
            }
            Act::Awaits => {
                let _pending = cx.callback().unwrap().pending();
                Err(refusal(FailureClass::Permanent))
            }
            Act::PassesOn(class) => {
                let _token = cx.callback().unwrap().token().to_owned();
                Err(refusal(class))
            }
            Act::PassesOnAndPanics => {
                let _token = cx.callback().unwrap().token().to_owned();
                std::panic::resume_unwind(Box::new("bang"))
            }
            Act::Lacks => Err(lack(&cx)),
            Act::DoesWithout(class) => {
                cx.dep::<Script>().unwrap_err();
                Err(refusal(class))
            }
            Act::LacksAfter(answer) => {
                cx.note_http(json("{}"), json(answer));
                Err(lack(&cx))
            }
            Act::LacksAfterChange(file) => {
                cx.changed("file", file, "write");
                Err(lack(&cx))
            }
            Act::LacksAfterWait => {
                let mut waited = false;
                return Box::pin(std::future::poll_fn(move |_| {
                    if !std::mem::replace(&mut waited, true) {
                        return Poll::Pending;
                    }
                    Poll::Ready(Ok(Err(lack(&cx))))
                }));
            }
            Act::LacksAfterToken => {
                let _token = cx.callback().unwrap().token().to_owned();
                Err(lack(&cx))
            }
            Act::LacksAfterAnother => {
                cx.dep::<Provided>().unwrap();
                Err(lack(&cx))
            }
            Act::AwaitsWithout => {
                cx.dep::<Script>().unwrap_err();
                let _pending = cx.callback().unwrap().pending();
                Err(refusal(FailureClass::Permanent))
            }
            Act::Hangs => return Box::pin(pending()),
        };
        Box::pin(ready(Ok(result)))
    }

    fn accepts(&self, value: &Payload) -> Result<(), PayloadError> {
        value
            .decode::<serde_json::Value>()?
            .is_string()
            .then_some(())
            .ok_or(PayloadError::Encode { ty: "a receipt", reason: "not a string".into() })
    }

    fn admit(&self, _: &Deps) -> Option<BoxFuture<'static, Admission>> {
        let mut cancelled = self.cancelled.lock().unwrap();
        cancelled.0 = cancelled.0.checked_sub(1)?;
        if cancelled.0 == 0 {
            cancelled.1.upgrade()?.begin_cancelling();
        }
        None
    }

    fn probe(&self, _: StepCx, _: &Payload) -> Option<BoxFuture<'static, ProbeResult>> {
        if *self.is_mute.lock().unwrap() {
            return Some(Box::pin(pending()));
        }
        let found = self.found.lock().unwrap().pop_front()?;
        if let Some((store, message)) = self.meanwhile.lock().unwrap().take() {
            now(store.send(&run_id(), message)).unwrap();
        }
        Some(Box::pin(ready(found)))
    }
}

pub(crate) fn run_id() -> RunId {
    RunId::new("ticket-42").unwrap()
}

pub(crate) fn json(text: &str) -> Payload {
    Payload::from_text(text.to_owned()).unwrap()
}

/// What a store that answers at once says.
pub(crate) fn now<T>(answer: impl Future<Output = T>) -> T {
    answer.now_or_never().expect("the memory store answers at once")
}
