//! What is asked of the writer: appends, calls with an answer, and the close; and how often each was tried.
//!
//! Promise: a call is answered exactly once; a refused one leaves nothing behind.

use tokio::sync::oneshot;

use aether_core::id::RunId;
use aether_core::store::{Append, BirthNotice, Created, StoreError};

use crate::batch::Batch;
use crate::error::OpError;

/// What is asked of the writer.
#[allow(clippy::large_enum_variant, reason = "nearly all of them are appends, which then cost no allocation")]
pub(crate) enum Op {
    /// An append.
    Append(Append),
    /// Anything else that writes.
    Call(Box<dyn Call>),
    /// To commit what came before, close the file and answer.
    Close(Closer),
}

impl Op {
    /// The run of an append.
    pub(crate) fn run(&self) -> Option<&RunId> {
        match self {
            Self::Append(append) => Some(&append.run),
            Self::Call(_) | Self::Close(_) => None,
        }
    }

    pub(crate) fn fail(self, error: &StoreError) {
        match self {
            Self::Append(append) => append.ack.failed(error.clone().into()),
            Self::Call(call) => call.answer(Err(error.clone())),
            Self::Close(_) => {}
        }
    }
}

/// An operation that waits in front of the queue.
pub(crate) struct Pending {
    pub(crate) op: Op,
    pub(crate) try_: Try,
}

impl Pending {
    /// One that comes from the queue.
    pub(crate) fn first(op: Op) -> Self {
        Self { op, try_: Try::First }
    }

    /// Whether it cannot join an open batch.
    pub(crate) fn needs_its_own_transaction(&self) -> bool {
        self.try_ == Try::Alone || matches!(&self.op, Op::Append(append) if append.work.is_some())
    }
}

/// How often an operation was tried.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Try {
    First,
    /// Its transaction was not committed, as far as the driver said.
    Again,
    /// As [`Try::Again`], and it gets a transaction of its own, because its batch failed for good.
    Alone,
}

/// Where the answer to a close goes: the error says what could not be written.
pub(crate) type Closer = oneshot::Sender<Result<(), StoreError>>;

/// Something that runs in the writer's transaction and is answered after its commit.
pub(crate) trait Call: Send {
    /// Whether it creates a run whose first appends are about to follow.
    fn creates(&self) -> bool;
    /// Whether it is tried again, as appends are, when it cannot be written for the moment. Any other call is answered
    /// with the error.
    fn is_kept(&self) -> bool;
    /// The run that it leaves to other workers.
    fn releases(&self) -> Option<&RunId>;
    /// Does it; an error of the driver breaks the transaction. Called once for each try.
    fn execute(&mut self, batch: &mut Batch<'_>) -> Result<(), rusqlite::Error>;
    /// Answers it.
    fn answer(self: Box<Self>, committed: Result<(), StoreError>);
}

/// A [`Call`] made of a function and where its answer goes to.
pub(crate) struct WriteRequest<F, T> {
    ask: F,
    creates: bool,
    kept: bool,
    releases: Option<RunId>,
    answer: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<F, T> WriteRequest<F, T>
where
    F: FnMut(&mut Batch<'_>) -> Result<T, OpError> + Send + 'static,
    T: Send + 'static,
{
    /// The call, and where its answer will be.
    pub(crate) fn with_reply(ask: F, creates: bool) -> (Op, oneshot::Receiver<Result<T, StoreError>>) {
        let (call, answer) = Self::new(ask);
        (Op::Call(Box::new(Self { creates, ..call })), answer)
    }

    /// As [`WriteRequest::with_reply`], for a call that is tried until it is decided.
    pub(crate) fn kept(ask: F) -> (Op, oneshot::Receiver<Result<T, StoreError>>) {
        let (call, answer) = Self::new(ask);
        (Op::Call(Box::new(Self { kept: true, ..call })), answer)
    }

    /// As [`WriteRequest::with_reply`], for a call that leaves `run` to other workers: it overtakes no append of it.
    pub(crate) fn releasing(run: RunId, ask: F) -> (Op, oneshot::Receiver<Result<T, StoreError>>) {
        let (call, answer) = Self::new(ask);
        (Op::Call(Box::new(Self { releases: Some(run), ..call })), answer)
    }

    fn new(ask: F) -> (Self, oneshot::Receiver<Result<T, StoreError>>) {
        let (reply, answer) = oneshot::channel();
        (Self { ask, creates: false, kept: false, releases: None, answer: None, reply }, answer)
    }
}

impl<F, T> Call for WriteRequest<F, T>
where
    F: FnMut(&mut Batch<'_>) -> Result<T, OpError> + Send,
    T: Send,
{
    fn creates(&self) -> bool {
        self.creates
    }

    fn is_kept(&self) -> bool {
        self.kept
    }

    fn releases(&self) -> Option<&RunId> {
        self.releases.as_ref()
    }

    fn execute(&mut self, batch: &mut Batch<'_>) -> Result<(), rusqlite::Error> {
        // A call reads the rows of runs by SQL: what the appends before it only noted in the cache must be in them.
        batch.flush()?;
        // A refused call is undone alone; without the savepoint it would take the other runs' appends with it.
        batch.statements.savepoint()?;
        let answer = match (self.ask)(batch) {
            // The savepoint stays open: the driver may have ended the transaction, and the writer rolls all of it back.
            Err(OpError::Sqlite(error)) => return Err(error),
            other => other.map_err(|error| error.into_store_error(&batch.store)),
        };
        batch.statements.end_savepoint(answer.is_ok())?;
        self.answer = Some(answer);
        Ok(())
    }

    fn answer(self: Box<Self>, committed: Result<(), StoreError>) {
        let Self { answer, reply, .. } = *self;
        if let Some(answer) = committed.map_or_else(|error| Some(Err(error)), |()| answer) {
            let _asker_gone = reply.send(answer);
        }
    }
}

/// A creation that tells early that its run is new.
pub(crate) struct Creation<F> {
    request: WriteRequest<F, Created>,
    notice: BirthNotice,
}

impl<F> Creation<F>
where
    F: FnMut(&mut Batch<'_>) -> Result<Created, OpError> + Send + 'static,
{
    /// The call, and where its answer will be.
    pub(crate) fn with_reply(
        ask: F,
        creates: bool,
        notice: BirthNotice,
    ) -> (Op, oneshot::Receiver<Result<Created, StoreError>>) {
        let (request, answer) = WriteRequest::new(ask);
        let request = WriteRequest { creates, ..request };
        (Op::Call(Box::new(Self { request, notice })), answer)
    }

    fn is_new(&self) -> bool {
        self.request.answer == Some(Ok(Created::New))
    }
}

impl<F> Call for Creation<F>
where
    F: FnMut(&mut Batch<'_>) -> Result<Created, OpError> + Send + 'static,
{
    fn creates(&self) -> bool {
        self.request.creates
    }

    fn is_kept(&self) -> bool {
        false
    }

    fn releases(&self) -> Option<&RunId> {
        None
    }

    fn execute(&mut self, batch: &mut Batch<'_>) -> Result<(), rusqlite::Error> {
        self.request.execute(batch)?;
        // Under the write lock: nobody can create it before this transaction has ended.
        if self.is_new() {
            self.notice.tell();
        }
        Ok(())
    }

    fn answer(self: Box<Self>, committed: Result<(), StoreError>) {
        let stands = committed.is_ok() && self.is_new();
        let Self { request, notice } = *self;
        // Before anything else is applied: the next append may be of the run that was begun.
        if stands {
            notice.keep();
        } else {
            drop(notice);
        }
        Box::new(request).answer(committed);
    }
}
