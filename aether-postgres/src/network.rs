//! The thread that drives the connections of this process.
//!
//! Promise: a connection that was made works for callers of every runtime, and as long as it is used: also for the runtime
//! that renews leases, which has no sockets, and while bodies that block their threads keep all others busy.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle, Runtime};

/// The runtime on the thread; that of the caller where no thread can be started.
pub(crate) fn runtime() -> Handle {
    static OWN: OnceLock<Option<Handle>> = OnceLock::new();
    OWN.get_or_init(start).clone().unwrap_or_else(Handle::current)
}

fn start() -> Option<Handle> {
    let started = Builder::new_current_thread().enable_all().build().and_then(|runtime: Runtime| {
        let handle = runtime.handle().clone();
        let thread = std::thread::Builder::new().name("aether-postgres".into());
        thread.spawn(move || runtime.block_on(std::future::pending::<()>()))?;
        Ok(handle)
    });
    if let Err(error) = &started {
        tracing::warn!(%error, "connections are driven among other work: no thread of their own");
    }
    started.ok()
}
