//! The threads that drive the connections of this process: one for each writer, and one for all else.
//!
//! Promise: a connection that was made works for callers of every runtime, and as long as it is used: also for the runtime
//! that renews leases, which has no sockets, and while bodies that block their threads keep all others busy.

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
        let started = Builder::new_current_thread().enable_all().build().and_then(|runtime| {
            let handle = runtime.handle().clone();
            std::thread::Builder::new().name(name.into()).spawn(move || {
                runtime.block_on(async {
                    let _dropped = ended.await;
                    for _ in 0..LAST_TURNS {
                        tokio::task::yield_now().await;
                    }
                });
            })?;
            Ok(handle)
        });
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

/// The runtime that drives all connections but those of writers.
pub(crate) fn runtime() -> Handle {
    static SHARED: OnceLock<Thread> = OnceLock::new();
    SHARED.get_or_init(|| Thread::start("aether-postgres")).runtime()
}
