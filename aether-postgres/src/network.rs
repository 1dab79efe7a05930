//! The threads that drive the connections of this process, and the tasks of its stores: one for each writer, and one for all
//! else.
//!
//! Promise: a connection that was made works for callers of every runtime, and as long as it is used: also for the runtime
//! that renews leases, which has no sockets, and while bodies that block their threads keep all others busy. A store works on
//! when the runtime in which it was opened has ended.

use std::io::Error;
use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// So often what is left on a thread may run once more before it ends: connections say goodbye.
const LAST_TURNS: usize = 8;

/// A runtime on a thread of its own, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Thread {
    /// Nothing where no thread could be started.
    runtime: Option<Handle>,
    _lives: oneshot::Sender<()>,
}

impl Thread {
    pub(crate) fn start(name: &str) -> Self {
        let (lives, ended) = oneshot::channel::<()>();
        let (told, made) = std::sync::mpsc::channel();
        let drive = move || {
            let runtime = match Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(told.send(Err(error))),
            };
            let _asker_waits = told.send(Ok(runtime.handle().clone()));
            runtime.block_on(async {
                let _dropped = ended.await;
                for _ in 0..LAST_TURNS {
                    tokio::task::yield_now().await;
                }
            });
        };
        let started = std::thread::Builder::new().name(name.into()).spawn(drive);
        let started = started.and_then(|_| made.recv().unwrap_or_else(|_| Err(Error::other("it has ended"))));
        if let Err(error) = &started {
            tracing::warn!(%error, "connections are driven among other work: no thread of their own");
        }
        Self { runtime: started.ok(), _lives: lives }
    }

    /// Its runtime; that of the caller where no thread could be started.
    pub(crate) fn runtime(&self) -> Handle {
        self.runtime.clone().unwrap_or_else(Handle::current)
    }
}

/// The runtime that drives all connections but those of writers, and has the tasks of all stores. No body runs there, because
/// one that blocks its thread would hold up all of them.
pub(crate) fn runtime() -> Handle {
    static SHARED: OnceLock<Thread> = OnceLock::new();
    SHARED.get_or_init(|| Thread::start("aether-postgres")).runtime()
}
