//! The context of a step's body: its key, its clock and draws, what the program provided, and what it reports.
//!
//! Promise: every value drawn here is the same in each physical execution of one logical attempt, so a body that is
//! sent again after a crash sends the same payment id.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::definition::def::StepOptions;
use crate::journal::event::{Event, HttpRecorded, StateChanged};
use crate::step::cancellation::Cancellation;
use crate::step::heartbeat::Heartbeats;
use crate::store::intent::DurableIntent;
use crate::vocabulary::contract::Contract;
use crate::vocabulary::deps::{Deps, MissingDep};
use crate::vocabulary::id::{CommandId, IdempotencyKey, InvocationId, RunId};
use crate::vocabulary::outcome::EffectClass;
use crate::vocabulary::payload::Payload;

/// The context of a step's body.
#[derive(Clone)]
pub struct StepCx {
    scope: Arc<StepScope>,
}

/// What a body's context is made of.
pub(crate) struct Given {
    pub(crate) deps: Arc<Deps>,
    /// Most bytes of JSON that a heartbeat's progress may have.
    pub(crate) payload_limit: usize,
    pub(crate) run: RunId,
    pub(crate) command: CommandId,
    pub(crate) options: StepOptions,
    pub(crate) attempt: u32,
    /// The run's recorded seed, from which draws are derived.
    pub(crate) seed: String,
    pub(crate) started_at: Timestamp,
    pub(crate) intent: Option<DurableIntent>,
    pub(crate) cancellation: Arc<Cancellation>,
}

struct StepScope {
    given: Given,
    draws: AtomicU32,
    exchanges: AtomicU32,
    requests: AtomicU32,
    notes: Mutex<Vec<Event>>,
    missing: OnceLock<MissingDep>,
    handed_over: OnceLock<Option<Duration>>,
    heartbeats: Heartbeats,
}

impl StepCx {
    pub(crate) fn new(given: Given) -> Self {
        Self {
            scope: Arc::new(StepScope {
                given,
                draws: AtomicU32::new(0),
                exchanges: AtomicU32::new(0),
                requests: AtomicU32::new(0),
                notes: Mutex::default(),
                missing: OnceLock::new(),
                handed_over: OnceLock::new(),
                heartbeats: Heartbeats::default(),
            }),
        }
    }

    /// The run this call belongs to.
    pub fn run_id(&self) -> &RunId {
        &self.scope.given.run
    }

    /// The command this call answers.
    pub fn command_id(&self) -> &CommandId {
        &self.scope.given.command
    }

    /// What kind of contact with the world this body was declared to be.
    pub fn class(&self) -> EffectClass {
        self.scope.given.options.class
    }

    /// Logical attempt, from 0. It rises only after a definite failure, never because the process crashed.
    pub fn attempt(&self) -> u32 {
        self.scope.given.attempt
    }

    /// The stable name of this attempt: give it to the receiver, so that it can spot repeats.
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

    /// The key for the next request of this body that changes the world: that of the attempt for the first request,
    /// and with the request's number behind it for each later one, so that a receiver does not take two different
    /// requests of one step for repeats. For effect crates.
    pub fn next_request_key(&self) -> String {
        let key = self.idempotency_key();
        match self.scope.requests.fetch_add(1, Ordering::Relaxed) {
            0 => key.to_string(),
            number => format!("{key}:{number}"),
        }
    }

    /// What this execution is, and what it may do. It can be read and not changed.
    pub fn contract(&self) -> Contract {
        let Given { command, attempt, options, .. } = &self.scope.given;
        let (execution, key) = (InvocationId::new(command, *attempt), self.idempotency_key());
        Contract::new(execution, key, options.class, options.irreversible, options.timeout)
    }

    /// What the program provided with `.provide(..)`.
    ///
    /// # Errors
    /// [`MissingDep`] naming the type when it was not provided. A body that ends with an error after it saw this one
    /// stops its run with a fault; nothing is lost, and the run goes on in a program that provides the value.
    pub fn dep<T: Send + Sync + 'static>(&self) -> Result<Arc<T>, MissingDep> {
        self.scope.given.deps.get().inspect_err(|missing| {
            let _first = self.scope.missing.set(missing.clone());
        })
    }

    /// What the program provided, if it did: for bodies that can do without.
    pub fn provided<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.scope.given.deps.get().ok()
    }

    /// What the body asked for and did not get.
    pub(crate) fn missing(&self) -> Option<MissingDep> {
        self.scope.missing.get().cloned()
    }

    /// From which this run's values are derived.
    pub(crate) fn seed(&self) -> &str {
        &self.scope.given.seed
    }

    /// The outcome will be reported by a callback, within the limit if there is one.
    pub(crate) fn hand_over(&self, limit: Option<Duration>) {
        let _first = self.scope.handed_over.set(limit);
    }

    /// Whether the body handed its completion over.
    pub(crate) fn handed_over(&self) -> Option<Option<Duration>> {
        self.scope.handed_over.get().copied()
    }

    /// The time at which this attempt began. Constant during the attempt, and the same when a world-changing attempt
    /// is sent again after a crash.
    pub fn now(&self) -> Timestamp {
        self.scope.given.started_at
    }

    /// Whether the run is being cancelled. What the body returns within the engine's cancel grace (5 s unless set
    /// otherwise) is recorded as ever; a body that changes the world and is still running then is left in doubt.
    pub fn is_cancelled(&self) -> bool {
        self.scope.given.cancellation.is_cancelled()
    }

    /// Ends when the run is being cancelled: for bodies that take long. A body that changes nothing is dropped by
    /// itself; one that changes the world is told, so that it can come to an end that is known.
    ///
    /// ```
    /// # use aether_core::failure::Failure;
    /// # use aether_core::step::StepCx;
    /// # async fn next_page() -> bool { false }
    /// # async fn body(cx: &mut StepCx) -> Result<(), Failure> {
    /// while !cx.is_cancelled() {
    ///     tokio::select! {
    ///         more = next_page() => if !more { return Ok(()) },
    ///         () = cx.cancelled() => {}
    ///     }
    /// }
    /// Err(Failure::compensatable("stopped half-way"))
    /// # }
    /// ```
    pub async fn cancelled(&self) {
        self.scope.given.cancellation.cancelled().await;
    }

    /// Says that this body is alive, and how far it has come. In a step with `heartbeat = "10s"`, a longer silence
    /// counts as a lost attempt, as a timeout does. The newest progress is kept (at most a second late) for the next
    /// attempt, here or in another process: see [`StepCx::last_heartbeat`].
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
                tracing::warn!(step = %self.scope.given.command, limit, "progress over `Limits::payload` is not kept");
                None
            }
            Err(error) => {
                tracing::warn!(step = %self.scope.given.command, %error, "progress is not kept");
                None
            }
        };
        self.scope.heartbeats.beat(recorded);
    }

    /// The newest progress that an earlier attempt of this step told with [`StepCx::heartbeat`]; `None` where there
    /// was none, where the step does not declare `heartbeat`, and where it is not a `T`.
    pub fn last_heartbeat<T: serde::de::DeserializeOwned>(&self) -> Option<T> {
        self.scope.heartbeats.before()?.decode().ok()
    }

    pub(crate) fn heartbeats(&self) -> &Heartbeats {
        &self.scope.heartbeats
    }

    /// A UUID (version 8, RFC 9562) derived from run, command, attempt and the number of the draw.
    pub fn uuid(&self) -> uuid::Uuid {
        let bytes = self.draw();
        let mut head = [0; 16];
        head.copy_from_slice(&bytes[..16]);
        uuid::Builder::from_custom_bytes(head).into_uuid()
    }

    /// A number derived in the same way, evenly distributed.
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

    /// Says that this body changed a resource; recorded with its outcome. A verifier looks at it when the run is taken up
    /// again if the step declares its kind in `changes`; a kind that it does not declare is recorded only.
    pub fn changed(&self, resource: &str, id: &str, operation: &str) -> Changed<'_> {
        let declared = self.scope.given.options.changes;
        if !declared.is_empty() && !declared.contains(&resource) {
            tracing::warn!(run = %self.scope.given.run, command = %self.scope.given.command, resource, id,
                "a step changed a resource of a kind that it does not declare: nobody will look at it");
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

    fn note(&self, event: Event) {
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
