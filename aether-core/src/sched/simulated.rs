//! The same names for the exploration of schedules: each call announces itself to the scheduler first.
//!
//! Promise: without an installed scheduler everything works as in a normal build, on tokio. Memory is sequentially
//! consistent: what weaker orders allow is not explored.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "it wraps what the rest may not name"
)]

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{
    Arc, LockResult, MutexGuard, RwLockReadGuard, RwLockWriteGuard, TryLockError, TryLockResult,
};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{AbortHandle, Abortable, BoxFuture};
use tokio::sync::futures::Notified;
use tokio::sync::{OwnedRwLockReadGuard, RwLockWriteGuard as SharedWriteGuard, oneshot};

/// The scheduler of an exploration.
pub trait Hooks: Send + Sync {
    /// The calling task is about to do `what` with something that other tasks see.
    fn point(&self, what: &'static str);
    /// The calling task cannot continue until another one has run.
    fn blocked(&self);
    /// Begins a task; returns it if no exploration is under way on this thread.
    fn spawn(&self, name: &'static str, task: BoxFuture<'static, ()>) -> Option<BoxFuture<'static, ()>>;
    /// Leaves the calling task until it is woken, or until a time is there.
    fn park(&self, until: Option<Duration>);
    /// Wakes the calling task.
    fn waker(&self) -> Option<Waker>;
    /// Time since the beginning of the schedule.
    fn now(&self) -> Duration;
    /// The schedule is over, and what is left is being dropped.
    fn is_over(&self) -> bool;
    /// Whether this known fault is put back.
    fn mutated(&self, fault: &str) -> bool;
}

static HOOKS: std::sync::OnceLock<&'static dyn Hooks> = std::sync::OnceLock::new();

/// Installs the scheduler, once a process.
pub fn install(hooks: &'static dyn Hooks) {
    let _the_first_stays = HOOKS.set(hooks);
}

/// The scheduler, if there is one.
pub fn hooks() -> Option<&'static dyn Hooks> {
    HOOKS.get().copied()
}

/// Announces that the calling task is about to do `what`.
pub fn point(what: &'static str) {
    // A task that unwinds must not be left: a second panic meanwhile would end the process.
    if let Some(hooks) = HOOKS.get()
        && !std::thread::panicking()
    {
        hooks.point(what);
    }
}

/// Whether the exploration has put this known fault back, to see that it is found.
pub fn mutated(fault: &str) -> bool {
    HOOKS.get().is_some_and(|hooks| hooks.mutated(fault))
}

fn blocked() {
    match HOOKS.get() {
        Some(hooks) => hooks.blocked(),
        None => std::thread::yield_now(),
    }
}

/// Tries until the lock is free.
fn locked<G>(mut attempt: impl FnMut() -> TryLockResult<G>) -> LockResult<G> {
    loop {
        match attempt() {
            Ok(guard) => return Ok(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Err(poisoned),
            Err(TryLockError::WouldBlock) => blocked(),
        }
    }
}

/// A map whose order follows from its keys, so that a schedule can be repeated.
pub type HashMap<K, V> = std::collections::BTreeMap<K, V>;

/// As [`HashMap`], without values.
pub type HashSet<T> = std::collections::BTreeSet<T>;

/// As [`std::sync::Mutex`].
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// As [`std::sync::Mutex::new`], but not for a static: several threads explore, and a static would join their schedules.
    pub fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    /// As [`std::sync::Mutex::lock`].
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        point("lock");
        locked(|| self.0.try_lock())
    }

    /// As [`std::sync::Mutex::into_inner`].
    pub fn into_inner(self) -> LockResult<T> {
        self.0.into_inner()
    }
}

/// As [`std::sync::RwLock`].
#[derive(Debug, Default)]
pub struct RwLock<T>(std::sync::RwLock<T>);

impl<T> RwLock<T> {
    /// As [`std::sync::RwLock::new`], but not for a static: several threads explore, and a static would join their schedules.
    pub fn new(value: T) -> Self {
        Self(std::sync::RwLock::new(value))
    }

    /// As [`std::sync::RwLock::read`].
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        point("read lock");
        locked(|| self.0.try_read())
    }

    /// As [`std::sync::RwLock::write`].
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        point("write lock");
        locked(|| self.0.try_write())
    }
}

macro_rules! atomics {
    ($($name:ident: $value:ty;)*) => {$(
        /// As the atomic of this name.
        #[derive(Debug, Default)]
        pub struct $name(std::sync::atomic::$name);

        impl $name {
            /// As the atomic's own.
            pub const fn new(value: $value) -> Self {
                Self(std::sync::atomic::$name::new(value))
            }
            /// As the atomic's own.
            pub fn load(&self, order: Ordering) -> $value {
                point("load");
                self.0.load(order)
            }
            /// As the atomic's own.
            pub fn store(&self, value: $value, order: Ordering) {
                point("store");
                self.0.store(value, order);
            }
            /// As the atomic's own.
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                point("swap");
                self.0.swap(value, order)
            }
        }

        impl From<$value> for $name {
            fn from(value: $value) -> Self {
                Self::new(value)
            }
        }
    )*};
}

macro_rules! numbers {
    ($($name:ident: $value:ty;)*) => {
        atomics! { $($name: $value;)* }
        $(impl $name {
            /// As the atomic's own.
            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                point("fetch_add");
                self.0.fetch_add(value, order)
            }
            /// As the atomic's own.
            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                point("fetch_sub");
                self.0.fetch_sub(value, order)
            }
            /// As the atomic's own.
            pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                point("fetch_max");
                self.0.fetch_max(value, order)
            }
        })*
    };
}

atomics! { AtomicBool: bool; }
numbers! { AtomicI64: i64; AtomicU32: u32; AtomicU64: u64; AtomicUsize: usize; }

/// As [`std::sync::OnceLock`].
#[derive(Debug)]
pub struct OnceLock<T>(std::sync::OnceLock<T>);

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> OnceLock<T> {
    /// As [`std::sync::OnceLock::new`], but not for a static.
    pub fn new() -> Self {
        Self(std::sync::OnceLock::new())
    }

    /// As [`std::sync::OnceLock::get`].
    pub fn get(&self) -> Option<&T> {
        point("get");
        self.0.get()
    }

    /// As [`std::sync::OnceLock::get_or_init`].
    pub fn get_or_init(&self, init: impl FnOnce() -> T) -> &T {
        point("get_or_init");
        self.0.get_or_init(init)
    }

    /// As [`std::sync::OnceLock::set`].
    ///
    /// # Errors
    /// The value, if there is one already.
    pub fn set(&self, value: T) -> Result<(), T> {
        point("set");
        self.0.set(value)
    }
}

/// As [`tokio::sync::OnceCell`].
#[derive(Debug, Default)]
pub struct OnceCell<T>(tokio::sync::OnceCell<T>);

impl<T> OnceCell<T> {
    /// As [`tokio::sync::OnceCell::new`], but not for a static.
    pub fn new() -> Self {
        Self(tokio::sync::OnceCell::const_new())
    }

    /// As [`tokio::sync::OnceCell::get_or_init`].
    pub async fn get_or_init<F: Future<Output = T>>(&self, value: impl FnOnce() -> F) -> &T {
        point("get or init");
        self.0.get_or_init(value).await
    }

    /// As [`tokio::sync::OnceCell::initialized`].
    pub fn initialized(&self) -> bool {
        point("initialized");
        self.0.initialized()
    }
}

/// As [`tokio::sync::RwLock`].
#[derive(Debug, Default)]
pub struct SharedLock<T>(Arc<tokio::sync::RwLock<T>>);

impl<T> SharedLock<T> {
    /// As [`tokio::sync::RwLock::read_owned`].
    pub async fn read_owned(self: Arc<Self>) -> OwnedRwLockReadGuard<T> {
        point("read lock");
        Arc::clone(&self.0).read_owned().await
    }

    /// As [`tokio::sync::RwLock::write`].
    pub async fn write(&self) -> SharedWriteGuard<'_, T> {
        point("write lock");
        self.0.write().await
    }
}

/// As [`tokio::sync::Semaphore`].
#[derive(Debug)]
pub struct Semaphore(tokio::sync::Semaphore);

impl Semaphore {
    /// As [`tokio::sync::Semaphore::new`].
    pub fn new(permits: usize) -> Self {
        Self(tokio::sync::Semaphore::new(permits))
    }

    /// As [`tokio::sync::Semaphore::acquire`].
    ///
    /// # Errors
    /// As that.
    pub async fn acquire(&self) -> Result<tokio::sync::SemaphorePermit<'_>, tokio::sync::AcquireError> {
        point("acquire");
        self.0.acquire().await
    }
}

/// As [`tokio::sync::Notify`].
#[derive(Debug, Default)]
pub struct Notify(tokio::sync::Notify);

impl Notify {
    /// As [`tokio::sync::Notify::new`].
    pub fn new() -> Self {
        Self::default()
    }

    /// As [`tokio::sync::Notify::notified`].
    pub fn notified(&self) -> Notified<'_> {
        point("notified");
        self.0.notified()
    }

    /// As [`tokio::sync::Notify::notify_one`].
    pub fn notify_one(&self) {
        point("notify one");
        self.0.notify_one();
    }

    /// As [`tokio::sync::Notify::notify_waiters`].
    pub fn notify_waiters(&self) {
        point("notify waiters");
        self.0.notify_waiters();
    }
}

/// As [`futures_util::task::AtomicWaker`].
#[derive(Debug, Default)]
pub struct AtomicWaker(futures_util::task::AtomicWaker);

impl AtomicWaker {
    /// As [`futures_util::task::AtomicWaker::register`].
    pub fn register(&self, waker: &Waker) {
        point("register");
        self.0.register(waker);
    }

    /// As [`futures_util::task::AtomicWaker::wake`].
    pub fn wake(&self) {
        point("wake");
        self.0.wake();
    }
}

/// As [`oneshot::Sender`].
#[derive(Debug)]
pub struct OneshotSender<T>(oneshot::Sender<T>);

impl<T> OneshotSender<T> {
    /// As [`oneshot::Sender::send`].
    ///
    /// # Errors
    /// The value, if nobody receives it any more.
    pub fn send(self, value: T) -> Result<(), T> {
        point("answer");
        self.0.send(value)
    }
}

/// As [`oneshot::channel`].
pub fn oneshot<T>() -> (OneshotSender<T>, oneshot::Receiver<T>) {
    let (sender, receiver) = oneshot::channel();
    (OneshotSender(sender), receiver)
}

/// As [`tokio::runtime::Handle`]. There is one.
#[derive(Clone, Debug)]
pub struct Runtime(());

impl Runtime {
    /// As [`tokio::runtime::Handle::try_current`].
    ///
    /// # Errors
    /// There is no runtime.
    pub fn try_current() -> Result<Self, tokio::runtime::TryCurrentError> {
        match HOOKS.get() {
            Some(_) => Ok(Self(())),
            None => tokio::runtime::Handle::try_current().map(|_| Self(())),
        }
    }

    /// As [`tokio::runtime::Handle::id`].
    pub const fn id(&self) -> u64 {
        0
    }

    /// As [`tokio::runtime::Handle::spawn`].
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        spawn(future)
    }
}

/// As [`tokio::spawn`]: a task that panics or is aborted has ended, and its future is dropped by the task itself.
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    point("spawn");
    let (abort, registration) = AbortHandle::new_pair();
    let (answer, reply) = oneshot::channel();
    let task = async move {
        let work = Abortable::new(AssertUnwindSafe(future).catch_unwind(), registration).await;
        let ended = match work {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(_panic)) => Err(JoinError("the task panicked")),
            Err(_aborted) => Err(JoinError("the task was aborted")),
        };
        let _not_awaited = answer.send(ended);
    };
    let left = match HOOKS.get() {
        Some(hooks) => hooks.spawn(std::any::type_name::<F>(), task.boxed()),
        None => Some(task.boxed()),
    };
    if let Some(task) = left {
        tokio::spawn(task);
    }
    JoinHandle { abort, reply }
}

/// As [`tokio::task::JoinHandle`].
#[derive(Debug)]
pub struct JoinHandle<T> {
    abort: AbortHandle,
    reply: oneshot::Receiver<Result<T, JoinError>>,
}

impl<T> JoinHandle<T> {
    /// As [`tokio::task::JoinHandle::abort`].
    pub fn abort(&self) {
        point("abort");
        self.abort.abort();
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let gone = |_| Err(JoinError("the task is gone"));
        Pin::new(&mut self.reply).poll(cx).map(|reply| reply.unwrap_or_else(gone))
    }
}

/// Why a task has no result.
#[derive(Debug)]
pub struct JoinError(&'static str);

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}
