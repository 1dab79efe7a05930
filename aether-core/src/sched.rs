//! Everything by which the engine's tasks meet: locks, flags, wake-ups, one-time answers, and spawning.
//!
//! Promise: in a normal build these are names of `std`'s and `tokio`'s own types and cost nothing. Under
//! `--cfg aether_dst` every meeting is announced to the scheduler of `aether-dst` first, which may let other tasks run
//! before it, for as long as it likes; maps have the order of their keys. The core uses these and nothing else to meet:
//! `clippy.toml` of this crate forbids the rest.
#![allow(
    dead_code,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the one place that names them. The names are aliases, because the rule looks at the name that is written"
)]

pub(crate) type AtomicBool = std::sync::atomic::AtomicBool;
pub(crate) type AtomicI64 = std::sync::atomic::AtomicI64;
pub(crate) type AtomicU32 = std::sync::atomic::AtomicU32;
pub(crate) type AtomicU64 = std::sync::atomic::AtomicU64;
pub(crate) type AtomicUsize = std::sync::atomic::AtomicUsize;
pub(crate) type AtomicWaker = futures_util::task::AtomicWaker;
pub(crate) type HashMap<K, V> = std::collections::HashMap<K, V>;
pub(crate) type HashSet<T> = std::collections::HashSet<T>;
pub(crate) type JoinHandle<T> = tokio::task::JoinHandle<T>;
pub(crate) type Mutex<T> = std::sync::Mutex<T>;
pub(crate) type Notify = tokio::sync::Notify;
pub(crate) type OnceCell<T> = tokio::sync::OnceCell<T>;
pub(crate) type OnceLock<T> = std::sync::OnceLock<T>;
pub(crate) type OneshotSender<T> = tokio::sync::oneshot::Sender<T>;
pub(crate) type RwLock<T> = std::sync::RwLock<T>;
pub(crate) type Semaphore = tokio::sync::Semaphore;
pub(crate) type Runtime = tokio::runtime::Handle;
/// The lock that is awaited.
pub(crate) type SharedLock<T> = tokio::sync::RwLock<T>;

/// As `tokio::spawn`.
pub(crate) fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    tokio::spawn(future)
}

/// As `tokio::sync::oneshot::channel`.
pub(crate) fn oneshot<T>() -> (OneshotSender<T>, tokio::sync::oneshot::Receiver<T>) {
    tokio::sync::oneshot::channel()
}

/// Whether the exploration of schedules has put a known fault back, to see that it is found. Never in a normal build.
pub(crate) const fn mutated(_fault: &str) -> bool {
    false
}
