//! The context of a step's body: its key, its clock and random values, what the program provides, and what it reports.
//!
//! Promise: every value drawn here is the same in each physical execution of one logical attempt, so a body that is
//! called again after a crash sends the same payment id.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::definition::def::{OnUnknown, StepOptions};
use crate::journal::event::{Event, HttpRecorded, StateChanged};
use crate::sched::{AtomicBool, AtomicU32, Mutex, OnceLock};
use crate::step::cancellation::Cancellation;
use crate::step::contents::Contents;
use crate::step::heartbeat::Heartbeats;
use crate::step::request_keys::{FirstRequest, RequestKeys};
use crate::step::store_waits::StoreWaits;
use crate::store::intent::DurableIntent;
use crate::stream::execution::Execution;
use crate::stream::hub::StreamHub;
use crate::stream::sender::StreamSender;
use crate::vocabulary::budget::Spent;
use crate::vocabulary::contract::Contract;
use crate::vocabulary::deps::{Deps, MissingDep};
use crate::vocabulary::id::{CommandId, IdempotencyKey, InvocationId, RunId};
use crate::vocabulary::opaque::Opaque;
use crate::vocabulary::outcome::EffectClass;
use crate::vocabulary::payload::Payload;
use crate::vocabulary::trace::TraceContext;

/// The context of a step's body: its first parameter.
///
/// ```
/// use aether_core::failure::Result;
/// use aether_core::step::StepCx;
/// struct Bank;
/// impl Bank {
///     async fn transfer(&self, _id: &str, _repeat_key: &str, _amount: u64) -> Result<String> { Ok("t-1".into()) }
/// }
///
/// async fn transfer(cx: &mut StepCx, amount: u64) -> Result<String> {
///     let bank = cx.dep::<Bank>()?;
///     let (id, key) = (cx.uuid().to_string(), cx.idempotency_key());
///     let receipt = bank.transfer(&id, key.as_str(), amount).await?;
///     cx.changed("transfer", &id, "create").external_ref(&receipt);
///     Ok(receipt)
/// }
/// ```
#[derive(Clone)]
pub struct StepCx {
    scope: Opaque<StepScope>,
}

/// The other side asks to be called less, and not before this time has passed if it says so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlowDown(pub(crate) Option<Duration>);

/// What a body's context is made of.
#[derive(Clone)]
pub(crate) struct Given {
    pub(crate) deps: Arc<Deps>,
    /// Largest progress of a heartbeat, in bytes of JSON.
    pub(crate) payload_limit: usize,
    pub(crate) run: RunId,
    pub(crate) command: CommandId,
    pub(crate) options: StepOptions,
    pub(crate) attempt: u32,
    /// The run's recorded seed, from which random values are derived.
    pub(crate) seed: Arc<str>,
    pub(crate) started_at: Timestamp,
    /// The span of the attempt, where trace contexts are sent on.
    pub(crate) trace: Option<TraceContext>,
    pub(crate) intent: Option<Arc<DurableIntent>>,
    pub(crate) cancellation: Arc<Cancellation>,
    /// Where what it sends to streams goes; `None` where it sends nothing.
    pub(crate) streams: Option<(Arc<StreamHub>, Arc<Execution>)>,
    /// How the body reaches the store's database; see `Store::transactions`.
    pub(crate) transactions: Option<&'static str>,
    pub(crate) contents: Arc<dyn Contents>,
    pub(crate) first_request: FirstRequest,
}

struct StepScope {
    given: Given,
    draws: AtomicU32,
    exchanges: AtomicU32,
    requests: RequestKeys,
    notes: Mutex<Vec<Event>>,
    /// The body has what the world is reached with, or has waited for something.
    may_have_acted: AtomicBool,
    /// The values that the body asked for and the program does not provide.
    missing: Mutex<Vec<MissingDep>>,
    /// The body asked for the database of another store.
    foreign: OnceLock<()>,
    /// The body took its callback's token.
    has_callback: OnceLock<()>,
    handed_over: OnceLock<Option<Duration>>,
    spent: Mutex<Option<Spent>>,
    slow_down: Mutex<Option<SlowDown>>,
    heartbeats: Heartbeats,
    over: Cancellation,
    store_waits: StoreWaits,
}

impl StepCx {
    pub(crate) fn new(given: Given) -> Self {
        Self {
            scope: Opaque::new(StepScope {
                given,
                draws: AtomicU32::new(0),
                exchanges: AtomicU32::new(0),
                requests: RequestKeys::default(),
                notes: Mutex::default(),
                may_have_acted: AtomicBool::new(false),
                missing: Mutex::default(),
                foreign: OnceLock::new(),
                has_callback: OnceLock::new(),
                handed_over: OnceLock::new(),
                spent: Mutex::default(),
                slow_down: Mutex::default(),
                heartbeats: Heartbeats::default(),
                over: Cancellation::default(),
                store_waits: StoreWaits::default(),
            }),
        }
    }

    /// The context of another call of this attempt, where nothing is left of the call before: it draws the same values.
    pub(crate) fn afresh(&self) -> Self {
        Self::new(self.scope.given.clone())
    }

    /// The run that makes this call.
    pub fn run_id(&self) -> &RunId {
        &self.scope.given.run
    }

    /// The command of this call inside its run.
    pub fn command_id(&self) -> &CommandId {
        &self.scope.given.command
    }

    /// The effect class that the step declares.
    pub fn class(&self) -> EffectClass {
        self.scope.given.options.class
    }

    /// Number of the logical attempt, from 0. It rises only after a definite failure, never because the process crashed.
    pub fn attempt(&self) -> u32 {
        self.scope.given.attempt
    }

    /// Whether the body was called under this key before, and nobody knows what came of it: the step declares
    /// `on_unknown = "retry"`. What the receiver refuses now it may have done then, so an error leaves the outcome unknown.
    pub fn is_sent_again(&self) -> bool {
        self.scope.given.intent.as_ref().is_some_and(|intent| intent.is_reissued())
    }

    /// The stable key of this attempt. Send it to the receiver, so that it can recognize repeats: a body that is called
    /// again after a crash has the same key.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::step::StepCx;
    /// # async fn post(_: &str, _: &[(&str, &str)]) -> Result<()> { Ok(()) }
    /// # async fn body(cx: &mut StepCx) -> Result<()> {
    /// let key = cx.idempotency_key();
    /// post("/payments", &[("Idempotency-Key", key.as_str())]).await
    /// # }
    /// ```
    pub fn idempotency_key(&self) -> IdempotencyKey {
        match &self.scope.given.intent {
            Some(intent) => intent.key().clone(),
            None => IdempotencyKey::new(
                &self.scope.given.run,
                &self.scope.given.command,
                self.scope.given.attempt,
            ),
        }
    }

    /// The key for a world-changing request of this body, so that a receiver does not take two different requests of one
    /// step for repeats: the attempt's key for the first request. Any other one has a digest of what it `asks` for behind
    /// that, and from the second one that asks for the same also a number. For effect crates: `asks` is the same when
    /// the body is called again, as is the method of a request with its path.
    pub fn request_key(&self, asks: &str) -> String {
        self.reaches_out();
        let Given { run, command, options, first_request, .. } = &self.scope.given;
        let key = self.scope.requests.next(first_request, &self.idempotency_key(), asks);
        if key.is_second && options.on_unknown == OnUnknown::Retry {
            tracing::warn!(target: "aether::step", run = %run, command = %command, request = asks,
                "a body that may be called again sends a second request that changes the world: if what it sends first depends \
                 on what it reads, a receiver cannot spot repeats; give each request a step of its own, or a key of its own");
        }
        key.text
    }

    /// The trace context of this attempt, to be sent on to whom the body calls: as the header `traceparent`, in its
    /// `Display` form. `None` where the engine sends none
    /// ([`EngineBuilder::trace_bodies`](crate::engine::EngineBuilder::trace_bodies)).
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::step::StepCx;
    /// # async fn body(cx: &mut StepCx) -> Result<()> {
    /// let header = cx.trace_context().map(|context| ("traceparent", context.to_string()));
    /// # Ok(()) }
    /// ```
    pub fn trace_context(&self) -> Option<TraceContext> {
        self.scope.given.trace
    }

    /// The identity and the constraints of this execution, read-only.
    pub fn contract(&self) -> Contract {
        let Given { command, attempt, options, .. } = &self.scope.given;
        let (execution, key) = (InvocationId::new(command, *attempt), self.idempotency_key());
        Contract::new(execution, key, options.class, options.irreversible, options.timeout)
    }

    /// The value of type `T` that the program provided with `.provide(..)` on the engine's builder.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::step::StepCx;
    /// struct Config { sender: String }
    /// # async fn body(cx: &mut StepCx) -> Result<String> {
    /// let config = cx.dep::<Config>()?;
    /// Ok(config.sender.clone())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`MissingDep`] naming the type when it was not provided. A body that ends with this error, or with one whose text
    /// holds that of this one, stops its run with a fault; nothing is lost, and the run resumes in a program that provides the
    /// value. A world-changing body is called again there where this was the first thing it asked its context for, but for
    /// its name, key, time and draws, and it has awaited nothing before; otherwise it may have acted, and the step's
    /// `on_unknown` decides. An error of class `Unknown` or `Compensatable` is an outcome as any other.
    pub fn dep<T: Send + Sync + 'static>(&self) -> Result<Arc<T>, MissingDep> {
        let found = self.scope.given.deps.get();
        match &found {
            Ok(_) => self.reaches_out(),
            Err(missing) => {
                let mut asked = self.scope.missing.lock().unwrap_or_else(PoisonError::into_inner);
                if !asked.contains(missing) {
                    asked.push(missing.clone());
                }
            }
        }
        found
    }

    /// As [`StepCx::dep`], for bodies that can do without the value.
    pub fn provided<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.scope.given.deps.get().ok().inspect(|_| self.reaches_out())
    }

    /// Whether the store's database is what `name` gives, such as `cx.sql`: for crates of stores. A transaction step that
    /// asks for another one and then ends with an error stops its run with
    /// [`Fault::NoTransactions`](crate::run::Fault::NoTransactions); the run resumes with an engine that has the store.
    pub fn reaches(&self, name: &str) -> bool {
        let reached = self.scope.given.transactions == Some(name);
        if !reached && self.class() == EffectClass::Transaction {
            let _once = self.scope.foreign.set(());
        }
        reached
    }

    /// Whether the body asked for the database of another store.
    pub(crate) fn is_foreign(&self) -> bool {
        self.scope.foreign.get().is_some()
    }

    /// The values that the body asked for and the program does not provide, in the order in which it asked.
    pub(crate) fn missing(&self) -> Vec<MissingDep> {
        self.scope.missing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes that the body may have acted from here on: it has what the world is reached with, or has waited for something.
    pub(crate) fn reaches_out(&self) {
        self.scope.may_have_acted.store(true, Ordering::Relaxed);
    }

    /// Whether the body may have acted.
    pub(crate) fn may_have_acted(&self) -> bool {
        self.scope.may_have_acted.load(Ordering::Relaxed)
    }

    /// The run's recorded seed, from which random values are derived.
    pub(crate) fn seed(&self) -> &str {
        &self.scope.given.seed
    }

    pub(crate) fn all_contents(&self) -> &dyn Contents {
        &*self.scope.given.contents
    }

    /// Notes that the body took its callback's token.
    pub(crate) fn take_callback(&self) {
        self.reaches_out();
        let _once = self.scope.has_callback.set(());
    }

    /// Whether the body took its callback's token.
    pub(crate) fn has_callback(&self) -> bool {
        self.scope.has_callback.get().is_some()
    }

    /// Notes that the outcome will be reported by a callback, within the limit if there is one.
    pub(crate) fn hand_over(&self, limit: Option<Duration>) {
        let _first = self.scope.handed_over.set(limit);
    }

    /// Whether the body handed its completion over to a callback, and its limit.
    pub(crate) fn handed_over(&self) -> Option<Option<Duration>> {
        self.scope.handed_over.get().copied()
    }

    /// The time at which this attempt began. Constant during the attempt, and the same when a world-changing body is
    /// called again after a crash.
    pub fn now(&self) -> Timestamp {
        self.scope.given.started_at
    }

    /// Set when the run is being cancelled.
    pub(crate) fn cancellation(&self) -> &Cancellation {
        &self.scope.given.cancellation
    }

    /// Set when this execution is over.
    pub(crate) fn over(&self) -> &Cancellation {
        &self.scope.over
    }

    /// Sends a heartbeat with the body's progress. In a step with `heartbeat = "10s"`, a body without a heartbeat for
    /// longer counts as lost, as after a timeout. The newest progress is saved (at most a second late) for the next
    /// attempt, in this process or another: see [`StepCx::last_heartbeat`].
    ///
    /// ```
    /// # use aether_core::failure::Failure;
    /// # use aether_core::step::StepCx;
    /// # async fn copy(page: u32) -> Result<(), Failure> { Ok(()) }
    /// # async fn body(cx: &mut StepCx) -> Result<(), Failure> {
    /// for page in cx.last_heartbeat::<u32>().map_or(0, |done| done + 1)..100 {
    ///     copy(page).await?;
    ///     cx.heartbeat(page);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn heartbeat<T: serde::Serialize>(&self, progress: T) {
        let limit = self.scope.given.payload_limit;
        let recorded = match Payload::encode(&progress) {
            Ok(progress) if progress.as_str().len() <= limit => Some(progress),
            Ok(_) => {
                tracing::warn!(target: "aether::step", step = %self.scope.given.command, limit, "progress over `Limits::payload` is not kept");
                None
            }
            Err(error) => {
                tracing::warn!(target: "aether::step", step = %self.scope.given.command, %error, "progress is not kept");
                None
            }
        };
        self.scope.heartbeats.beat(recorded);
    }

    /// The newest progress that an earlier attempt at this step reported with [`StepCx::heartbeat`]; `None` where there
    /// was none, where the step does not declare `heartbeat`, and where it is not a `T`.
    pub fn last_heartbeat<T: serde::de::DeserializeOwned>(&self) -> Option<T> {
        self.scope.heartbeats.before()?.decode().ok()
    }

    /// The times in which the body waits for the store.
    pub(crate) fn store_waits(&self) -> &StoreWaits {
        &self.scope.store_waits
    }

    pub(crate) fn heartbeats(&self) -> &Heartbeats {
        &self.scope.heartbeats
    }

    /// A stream of the run, to send what the body has to tell while it runs: see [`RunHandle::stream`]. What is sent is
    /// a view and never the outcome, which is what the body returns. What an execution sent that was cut off or failed does
    /// not count any more when the next one sends something, or when the step has failed for good. Bodies of pure steps send
    /// nothing. A name has 1 to 200 bytes, and no NUL: nothing is sent to a stream of another one, which is logged.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::step::StepCx;
    /// # async fn next_word() -> Option<String> { None }
    /// # async fn body(cx: &mut StepCx) -> Result<String> {
    /// let reply = cx.stream("reply");
    /// let mut whole = String::new();
    /// while let Some(word) = next_word().await {
    ///     reply.send(&word);
    ///     whole.push_str(&word);
    /// }
    /// Ok(whole)
    /// # }
    /// ```
    ///
    /// [`RunHandle::stream`]: crate::engine::RunHandle::stream
    pub fn stream(&self, name: &str) -> StreamSender {
        self.reaches_out();
        StreamSender::new(self.scope.given.streams.clone(), name)
    }

    /// A UUID (version 8, RFC 9562) derived from run, command, attempt and the number of the draw: the same one when the
    /// body is called again after a crash, so it can serve as the id of what the body creates.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::step::StepCx;
    /// # async fn create(_: uuid::Uuid) -> Result<()> { Ok(()) }
    /// # async fn body(cx: &mut StepCx) -> Result<()> {
    /// create(cx.uuid()).await
    /// # }
    /// ```
    pub fn uuid(&self) -> uuid::Uuid {
        let bytes = self.draw();
        let mut head = [0; 16];
        head.copy_from_slice(&bytes[..16]);
        uuid::Builder::from_custom_bytes(head).into_uuid()
    }

    /// A number derived in the same way as [`StepCx::uuid`], uniformly distributed.
    pub fn random(&self) -> u64 {
        let bytes = self.draw();
        let mut head = [0; 8];
        head.copy_from_slice(&bytes[..8]);
        u64::from_be_bytes(head)
    }

    fn draw(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(self.scope.given.seed.as_bytes());
        hash.update(self.scope.given.command.as_str().as_bytes());
        hash.update(self.scope.given.attempt.to_be_bytes());
        hash.update(self.scope.draws.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        hash.finalize().into()
    }

    /// Reports that this body changed a resource; recorded with its outcome. If the step declares the kind `resource` in
    /// `changes`, a verifier inspects the resource when the run is resumed. Other kinds are only recorded.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::step::StepCx;
    /// # async fn open_issue() -> Result<(String, u64)> { Ok(("7".into(), 1)) }
    /// # async fn body(cx: &mut StepCx) -> Result<()> {
    /// let (id, version) = open_issue().await?;
    /// cx.changed("issue", &id, "create").version(version.to_string());
    /// # Ok(()) }
    /// ```
    pub fn changed(&self, resource: &str, id: &str, operation: &str) -> Changed<'_> {
        let declared = self.scope.given.options.changes;
        if !declared.is_empty() && !declared.contains(&resource) {
            tracing::warn!(target: "aether::step", run = %self.scope.given.run, command = %self.scope.given.command, resource, id,
                "a step changed a resource of a kind that it does not declare: no verifier will inspect it");
        }
        Changed {
            cx: self,
            event: Some(StateChanged {
                command: self.scope.given.command.clone(),
                resource: resource.into(),
                id: id.into(),
                operation: operation.into(),
                version: None,
                etag: None,
                external_ref: None,
            }),
        }
    }

    /// Records an HTTP exchange with this body's outcome. For effect crates.
    pub fn note_http(&self, request: Payload, response: Payload) {
        let exchange = self.scope.exchanges.fetch_add(1, Ordering::Relaxed);
        let command = self.scope.given.command.clone();
        self.note(HttpRecorded { command, exchange, request, response }.into());
    }

    /// Says what this attempt took of budgets, in place of what was reserved for it: for bodies that call what costs money.
    /// The newest word counts, also where the body returns an error; of a body that is cut off none does.
    ///
    /// ```
    /// # use aether_core::budget::Spent;
    /// # use aether_core::failure::Result;
    /// # use aether_core::step::StepCx;
    /// # async fn translate(_: &str) -> Result<(String, u64)> { Ok((String::new(), 7)) }
    /// # async fn body(cx: &mut StepCx, text: &str) -> Result<String> {
    /// let (translated, tokens) = translate(text).await?;
    /// cx.spent(Spent { tokens: Some(tokens), ..Spent::default() });
    /// Ok(translated)
    /// # }
    /// ```
    pub fn spent(&self, spent: Spent) {
        *self.scope.spent.lock().unwrap_or_else(PoisonError::into_inner) = Some(spent);
    }

    /// Says that the other side asks to be called less, and when it may be called again, if it says so. Where the step names
    /// a limit (`limit = "openai"`), no call that names it is made before that time, by any run of any process of the store,
    /// and fewer are made for a while after it.
    ///
    /// ```
    /// # use aether_core::failure::{Failure, Result};
    /// # use aether_core::step::StepCx;
    /// # use std::time::Duration;
    /// # async fn body(cx: &mut StepCx, status: u16) -> Result<()> {
    /// if status == 429 {
    ///     cx.slow_down(Some(Duration::from_secs(20)));
    ///     return Err(Failure::retryable("too many requests"));
    /// }
    /// # Ok(()) }
    /// ```
    pub fn slow_down(&self, retry_after: Option<Duration>) {
        *self.scope.slow_down.lock().unwrap_or_else(PoisonError::into_inner) = Some(SlowDown(retry_after));
    }

    pub(crate) fn take_slow_down(&self) -> Option<SlowDown> {
        self.scope.slow_down.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn take_spent(&self) -> Option<Spent> {
        self.scope.spent.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn note(&self, event: Event) {
        self.reaches_out();
        self.scope.notes.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    pub(crate) fn take_notes(&self) -> Vec<Event> {
        std::mem::take(&mut *self.scope.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for StepCx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepCx")
            .field("run", &self.scope.given.run)
            .field("command", &self.scope.given.command)
            .field("attempt", &self.scope.given.attempt)
            .finish_non_exhaustive()
    }
}

/// A resource change under construction; recorded when dropped.
#[derive(Debug)]
pub struct Changed<'a> {
    cx: &'a StepCx,
    event: Option<StateChanged>,
}

impl Changed<'_> {
    /// The resource's version afterwards.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        if let Some(event) = &mut self.event {
            event.version = Some(version.into());
        }
        self
    }

    /// The resource's entity tag afterwards.
    pub fn etag(mut self, etag: impl Into<String>) -> Self {
        if let Some(event) = &mut self.event {
            event.etag = Some(etag.into());
        }
        self
    }

    /// The resource's name in the other system.
    pub fn external_ref(mut self, external_ref: impl Into<String>) -> Self {
        if let Some(event) = &mut self.event {
            event.external_ref = Some(external_ref.into());
        }
        self
    }
}

impl Drop for Changed<'_> {
    fn drop(&mut self) {
        if let Some(event) = self.event.take() {
            self.cx.note(event.into());
        }
    }
}
