//! What the tests share: workflows and steps written by hand, a real engine over a memory store, and rude peers.

#![allow(dead_code)]

pub(crate) mod files;
pub(crate) mod said;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use aether_core::engine::{Engine, EngineBuilder};
use aether_core::id::{RunId, WorkerId};
use aether_core::journal::event::Event;
use aether_core::journal::{Frame, StoredFrame, read_verified};
use aether_core::store::memory::MemoryStore;
use aether_core::store::{Ack, Append, Created, DurableWatermark, NewRun, Store};
use aether_effects::environment::SystemEnvironment;
use aether_effects::llm::{ChatRequest, ChatResponse, ModelClient, ModelError, ToolCall, Usage};
use futures_util::future::BoxFuture;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Implements `Workflow` for a unit struct, as `#[workflow]` would, without its state machine.
#[macro_export]
macro_rules! workflow {
    ($name:ident($cx:ident, $input:ident: $in:ty) -> $out:ty $body:block) => {
        struct $name;
        impl aether_core::step::Signature for $name {
            type Returned = aether_core::failure::Result<$out>;
        }
        impl aether_core::workflow::Workflow for $name {
            const DEF: &'static aether_core::definition::def::WorkflowDef =
                &aether_core::definition::def::WorkflowDef {
                    name: stringify!($name),
                    module: module_path!(),
                    doc: "",
                    version: 1,
                    fingerprint: "0000000000000000",
                    file: file!(),
                    line: line!(),
                    states: &[],
                    edges: &[],
                    changes: &[],
                    allows: &[],
                };
            type Input = $in;
            fn encode(
                input: &$in,
            ) -> Result<aether_core::payload::Payload, aether_core::payload::PayloadError> {
                aether_core::payload::Payload::encode(input)
            }
            fn decode(
                input: &aether_core::payload::Payload,
            ) -> Result<$in, aether_core::payload::PayloadError> {
                input.decode()
            }
            fn run(
                mut cx: aether_core::workflow::Cx,
                $input: $in,
            ) -> futures_util::future::BoxFuture<'static, aether_core::failure::Result<$out>> {
                Box::pin(async move {
                    let $cx = &mut cx;
                    $body
                })
            }
        }
    };
}

/// Implements `Step` for a unit struct with one argument, as `#[step]` would.
#[macro_export]
macro_rules! step {
    ($(#[doc = $doc:literal])? $name:ident($cx:ident, $arg:ident: $in:ty) -> $out:ty, $options:expr, $body:block) => {
        #[allow(non_camel_case_types)]
        struct $name;
        impl aether_core::step::Signature for $name {
            type Returned = aether_core::failure::Result<$out>;
        }
        impl aether_core::step::Step for $name {
            const DECLARED: aether_core::step::Declared<aether_core::failure::Result<$out>> =
                aether_core::step::Declared {
                    name: stringify!($name),
                    path: concat!(module_path!(), "::", stringify!($name)),
                    function: "",
                    fingerprint: "",
                    doc: concat!($($doc)?),
                    file: file!(),
                    line: line!(),
                    class: Self::OPTIONS.class,
                    classify: aether_core::step::ErrorClass::of,
                };
            const OPTIONS: aether_core::definition::def::StepOptions = $options;
            type Args = $in;
            fn encode(arg: &$in) -> Result<aether_core::payload::Payload, aether_core::payload::PayloadError> {
                aether_core::step::ArgsEncoder::new().field(stringify!($arg), arg).finish()
            }
            fn decode(args: &aether_core::payload::Payload) -> Result<$in, aether_core::payload::PayloadError> {
                aether_core::step::ArgsDecoder::new(args)?.field(stringify!($arg))
            }
            fn call(
                $cx: aether_core::step::StepCx,
                $arg: $in,
            ) -> futures_util::future::BoxFuture<'static, aether_core::failure::Result<$out>> {
                Box::pin(async move { $body })
            }
        }
    };
}

/// A builder over `store` in the real world.
pub(crate) fn builder(store: &MemoryStore) -> EngineBuilder {
    EngineBuilder::new(Arc::new(SystemEnvironment)).store(Arc::new(store.clone()))
}

/// A builder over a copy of a journal, that soon takes over what a dead process left in it.
pub(crate) fn successor(half: &MemoryStore) -> EngineBuilder {
    let short = std::time::Duration::from_millis(5);
    builder(half).lease(40 * short).poll_interval(short)
}

/// The events of a run, their hash chain checked.
pub(crate) async fn events(store: &MemoryStore, run: &RunId) -> Vec<Event> {
    read_verified(&store.load(run, 0).await.unwrap()).unwrap()
}

/// The journal and the ledger of a run as text.
pub(crate) async fn recorded_text(store: &MemoryStore, run: &RunId) -> String {
    let frames = store.load(run, 0).await.unwrap();
    let journal: String = frames.iter().map(|frame| frame.text.to_string()).collect();
    format!("{journal}{:?}", store.entries(run).await.unwrap())
}

/// Checks that a replay matches and asks for all that is recorded.
pub(crate) async fn verify(engine: &Engine, run: &RunId) {
    let verified = engine.verify(run).await.unwrap();
    assert_eq!(verified.recorded, verified.matched);
}

/// What a peer does once it has read a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Manner {
    Hangs,
    Closes,
    Says(&'static str),
}

/// A peer with bad manners; the counter says how many requests it read.
pub(crate) async fn peer(manner: Manner) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&requests);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(behave(stream, manner, Arc::clone(&counter)));
        }
    });
    (url, requests)
}

async fn behave(mut stream: TcpStream, manner: Manner, counter: Arc<AtomicUsize>) {
    let mut bytes = [0; 64 << 10];
    if stream.read(&mut bytes).await.is_ok_and(|read| read > 0) {
        counter.fetch_add(1, Ordering::SeqCst);
    }
    match manner {
        Manner::Hangs => std::future::pending().await,
        Manner::Closes => {}
        Manner::Says(text) => {
            let _ = stream.write_all(text.as_bytes()).await;
            let _ = stream.flush().await;
        }
    }
}

/// The URL of a port where nobody listens.
pub(crate) async fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

/// A model that says what it is told to say, and remembers what it was asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script(Arc<Mutex<(VecDeque<ChatResponse>, Vec<ChatRequest>)>>);

impl Script {
    pub(crate) fn new(answers: impl IntoIterator<Item = ChatResponse>) -> Self {
        Self(Arc::new(Mutex::new((answers.into_iter().collect(), Vec::new()))))
    }

    pub(crate) fn asked(&self) -> Vec<ChatRequest> {
        self.0.lock().unwrap().1.clone()
    }
}

impl ModelClient for Script {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'_, Result<ChatResponse, ModelError>> {
        let mut script = self.0.lock().unwrap();
        script.1.push(request);
        let answer = script.0.pop_front().ok_or_else(|| ModelError::Setup("the script is at its end".into()));
        Box::pin(std::future::ready(answer))
    }
}

/// A model whose answer follows from what it is asked, and which remembers that.
#[derive(Clone, Debug)]
pub(crate) struct ByQuestion {
    answer: fn(&ChatRequest) -> ChatResponse,
    asked: Arc<Mutex<Vec<ChatRequest>>>,
}

impl ByQuestion {
    pub(crate) fn new(answer: fn(&ChatRequest) -> ChatResponse) -> Self {
        Self { answer, asked: Arc::default() }
    }

    pub(crate) fn asked(&self) -> Vec<ChatRequest> {
        self.asked.lock().unwrap().clone()
    }
}

impl ModelClient for ByQuestion {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'_, Result<ChatResponse, ModelError>> {
        let answer = (self.answer)(&request);
        self.asked.lock().unwrap().push(request);
        Box::pin(std::future::ready(Ok(answer)))
    }
}

/// An answer in text.
pub(crate) fn says(text: &str) -> ChatResponse {
    let usage = Usage::of(10, 1);
    ChatResponse { model: "script-1".into(), content: Some(text.into()), usage, ..ChatResponse::default() }
}

/// An answer that asks for tools: name and arguments.
pub(crate) fn calls(calls: &[(&str, &str)]) -> ChatResponse {
    let call = |(number, (name, arguments)): (usize, &(&str, &str))| ToolCall {
        id: format!("c{number}"),
        name: (*name).into(),
        arguments: (*arguments).into(),
    };
    let tool_calls = calls.iter().enumerate().map(call).collect();
    ChatResponse { content: None, tool_calls, ..says("") }
}

/// Copies a run's journal up to the outcome of the step at `last`, as a crash right behind it would have left it.
pub(crate) async fn copy_until(to: &MemoryStore, from: &MemoryStore, run: &RunId, last: &str) {
    let is_last = |event: &Event| matches!(event, Event::StepCommitted(e) if e.command.as_str() == last);
    let frames = from.load(run, 0).await.unwrap();
    let end = frames.iter().position(|frame| frame.events().unwrap().iter().any(is_last));
    copy(to, from, run, &frames[..=end.unwrap()]).await;
}

/// Copies a run's journal up to the append before the one in which the step at `first` began.
pub(crate) async fn copy_before(to: &MemoryStore, from: &MemoryStore, run: &RunId, first: &str) {
    let is_first = |event: &Event| matches!(event, Event::NodeStarted(e) if e.command.as_str() == first);
    let frames = from.load(run, 0).await.unwrap();
    let end = frames.iter().position(|frame| frame.events().unwrap().iter().any(is_first));
    copy(to, from, run, &frames[..end.unwrap()]).await;
}

/// The ids of the commands of a run that have an outcome, in the order of their outcomes.
pub(crate) fn committed(events: &[Event]) -> Vec<String> {
    let ids = events.iter().filter_map(|event| match event {
        Event::StepCommitted(e) => Some(e.command.to_string()),
        _ => None,
    });
    ids.collect()
}

/// Copies the first `frames` frames of a run's journal, as a crash behind the last of them would have left it.
pub(crate) async fn copy_first(to: &MemoryStore, from: &MemoryStore, run: &RunId, frames: usize) {
    copy(to, from, run, &from.load(run, 0).await.unwrap()[..frames]).await;
}

/// As [`copy_until`], with texts of the recorded events replaced by others: as if another build had written them.
pub(crate) async fn copy_rewritten(
    to: &MemoryStore,
    from: &MemoryStore,
    run: &RunId,
    last: &str,
    rewrites: &[(&str, &str)],
) {
    let is_last = |event: &Event| matches!(event, Event::StepCommitted(e) if e.command.as_str() == last);
    let frames = from.load(run, 0).await.unwrap();
    let end = frames.iter().position(|frame| frame.events().unwrap().iter().any(is_last));
    let rewritten = |event: &Event| {
        let text = serde_json::to_string(event).unwrap();
        let text = rewrites.iter().fold(text, |text, (old, new)| text.replace(old, new));
        serde_json::from_str(&text).unwrap()
    };
    copy_as(to, from, run, &frames[..=end.unwrap()], rewritten).await;
}

/// Copies the first frames of a run's journal.
async fn copy(to: &MemoryStore, from: &MemoryStore, run: &RunId, kept: &[StoredFrame]) {
    copy_as(to, from, run, kept, Event::clone).await;
}

async fn copy_as(
    to: &MemoryStore,
    from: &MemoryStore,
    run: &RunId,
    kept: &[StoredFrame],
    written: impl Fn(&Event) -> Event,
) {
    let record = from.run(run).await.unwrap().unwrap();
    assert!(kept.len() < from.load(run, 0).await.unwrap().len());
    let frame = |stored: &StoredFrame| {
        let events: Vec<_> = stored.events().unwrap().iter().map(&written).collect();
        Frame::encode(&events).unwrap()
    };
    let new = NewRun {
        id: run.clone(),
        workflow: record.workflow,
        version: record.version,
        code: record.code,
        digest: record.digest,
        parent: None,
        labels: Default::default(),
        traceparent: None,
        frame: frame(&kept[0]),
        at: kept[0].at,
        owner: Some(WorkerId::from("worker-dead".to_owned())),
        parent_epoch: None,
        terms: Default::default(),
    };
    assert_eq!(to.create(new).await.unwrap(), Created::New);
    for stored in &kept[1..] {
        let (ack, reply) = Ack::awaited(run.clone(), 0, Arc::new(DurableWatermark::default()));
        to.append(Append {
            run: run.clone(),
            epoch: 1,
            expected: stored.position,
            at: stored.at,
            frame: frame(stored),
            work: None,
            acquire: None,
            ledger: Vec::new(),
            status: None,
            consumed: Vec::new(),
            waits: Vec::new(),
            code: None,
            unless_asked_to_end: false,
            renews: None,
            streams: Vec::new(),
            ack,
        });
        let _acquired = reply.await.unwrap();
    }
}
