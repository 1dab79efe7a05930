//! The targets: what is tried on bytes that pretend to be journals, recordings and values.
//!
//! Promise: a target panics when a rule is broken, and never otherwise.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aether_core::engine::EngineBuilder;
use aether_core::environment::Environment;
use aether_core::id::RunId;
use aether_core::journal::event::Event;
use aether_core::journal::history::History;
use aether_core::journal::{CHAIN_START, Frame, StoredFrame, chain};
use aether_core::outcome::EffectClass;
use aether_core::payload::{Digest, Payload};
use aether_core::recording::{Masking, Recording};
use aether_core::step::BodyResult;
use aether_core::step::StepCx;
use aether_core::step::{BodyCall, Interceptor};
use aether_core::store::memory::MemoryStore;
use aether_core::view::RunView;
use futures_util::future::BoxFuture;
use jiff::Timestamp;

use crate::sim::processes::engine::trusting;

/// Virtual time after which a replay counts as hanging; a replay waits for nothing.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Decodes a frame of events from any text; what decodes must encode, and decode again to the same.
///
/// # Panics
/// When it does not.
pub fn decode_events(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let at = Timestamp::UNIX_EPOCH;
    let chain = chain(&CHAIN_START, 0, at, text);
    let frame = StoredFrame { position: 0, at, epoch: 1, text: text.into(), chain, decoded: None };
    let Ok(events) = frame.events() else { return };
    let known = |event: &Event| !matches!(event, Event::Unknown { .. });
    let known: Vec<_> = events.iter().filter(|event| known(event)).cloned().collect();
    let again = match Frame::encode(&known) {
        Ok(again) => StoredFrame { text: again.text, ..frame }.events(),
        Err(error) => panic!("decoded events do not encode: {error}"),
    };
    assert_eq!(again.as_ref(), Ok(&known), "events change when they are written again");
    let run = RunId::from(uuid::Uuid::nil());
    assert_eq!(RunView::fold(run, events.clone()).position, events.len() as u64);
    let (delivered, recorded) = History::fold(events).progress();
    assert!(delivered == 0 && recorded <= known.len(), "more answers than events");
}

/// Takes the digest of any JSON: equal for the same value in another spelling, and never a panic. Masking it twice is
/// masking it once, and leaves JSON.
///
/// # Panics
/// When that does not hold.
pub fn digest(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let masking = Masking::standard();
    let once = masking.redact(text);
    assert_eq!(masking.redact(&once), once, "masking twice is not masking once");
    let Ok(payload) = Payload::from_text(text.to_owned()) else { return };
    assert!(Payload::from_text(once).is_ok(), "masked JSON is no JSON");
    let (Ok(digest), Ok(value)) = (Digest::of(&payload), payload.decode::<serde_json::Value>()) else {
        return;
    };
    match Payload::encode(&value) {
        // A value without integers of more than 64 bits, which became doubles in it.
        Ok(_) if !is_narrow(&value) => {}
        Ok(again) => assert_eq!(Digest::of(&again).ok(), Some(digest), "another spelling, another digest"),
        Err(error) => panic!("a decoded value does not encode: {error}"),
    }
}

/// Whether no number is a double that may have been an integer of more than 64 bits.
fn is_narrow(value: &serde_json::Value) -> bool {
    use serde_json::Value;
    match value {
        Value::Number(number) => {
            !number.is_f64() || number.as_f64().is_some_and(|number| number.abs() < 9_007_199_254_740_992.0)
        }
        Value::Array(items) => items.iter().all(is_narrow),
        Value::Object(members) => members.values().all(is_narrow),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}

/// Reads a recording from any text; what can be read must be read back as it was. Then loads it, and replays its runs
/// in verify mode against the workflows of this program, with bodies, clock and randomness that must not be asked.
///
/// # Panics
/// When one of them is asked, the replay hangs, or a recording changes.
pub fn replay(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(recording) = Recording::parse(text) else { return };
    let again = Recording::parse(&recording.to_text());
    assert_eq!(again.as_ref(), Ok(&recording), "a recording changes when it is written");
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = match builder.enable_time().start_paused(true).build() {
        Ok(runtime) => runtime,
        Err(error) => panic!("no runtime: {error}"),
    };
    runtime.block_on(verify_all(&recording));
}

async fn verify_all(recording: &Recording) {
    let store = Arc::new(MemoryStore::new());
    let Ok(runs) = recording.import(&*store).await else { return };
    let bodies = Arc::new(BodyCounter::default());
    let engine =
        EngineBuilder::new(Arc::new(Still)).store(store).allow_missing_deps().interceptor(bodies.clone());
    let engine = trusting(engine).start().await;
    let engine = match engine {
        Ok(engine) => engine,
        Err(error) => panic!("the engine does not start: {error}"),
    };
    for run in runs {
        let before = engine.store().load(&run, 0).await;
        let verified = tokio::time::timeout(PATIENCE, engine.verify(&run)).await;
        assert!(verified.is_ok(), "the verification of run `{run}` hangs");
        assert_eq!(bodies.0.load(Ordering::Relaxed), 0, "the verification of run `{run}` called a body");
        assert_eq!(engine.store().load(&run, 0).await, before, "the verification of run `{run}` wrote");
    }
}

/// Counts calls of bodies, and lets none through but those of `pure` steps, which any replay computes.
#[derive(Debug, Default)]
struct BodyCounter(AtomicUsize);

impl Interceptor for BodyCounter {
    fn intercept(&self, call: &BodyCall<'_>, _cx: &StepCx) -> Option<BoxFuture<'static, BodyResult>> {
        if call.options.class == EffectClass::Pure {
            return None;
        }
        self.0.fetch_add(1, Ordering::Relaxed);
        Some(Box::pin(std::future::pending()))
    }
}

/// A world in which it is always the same time, and nothing is random.
#[derive(Debug)]
struct Still;

impl Environment for Still {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        bytes.fill(0);
    }

    fn sleep_until(&self, _until: Timestamp) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}
