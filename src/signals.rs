//! Stopping a service by the signals of its operating system.

use std::io;
use std::time::Duration;

use aether_core::engine::Engine;
use aether_core::store::StoreError;

/// Why [`run_until_stopped`] did not end well.
#[derive(Debug)]
#[non_exhaustive]
pub enum StopError {
    /// The system does not let this process listen to its signals.
    Signals(io::Error),
    /// The store could not be flushed or closed.
    Store(StoreError),
}

impl std::fmt::Display for StopError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Signals(error) => write!(f, "cannot listen to the signals that stop this process: {error}"),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StopError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Signals(error) => Some(error),
            Self::Store(error) => std::error::Error::source(error),
        }
    }
}

/// Waits until the process is asked to stop: by SIGTERM or SIGINT (Ctrl-C), elsewhere than on Unix by Ctrl-C.
///
/// # Errors
/// The system's error when it does not let this process listen.
pub async fn stopped() -> io::Result<()> {
    Signals::listen()?.next().await
}

/// Runs `engine` until the process is asked to stop; then gives bodies in flight `patience`, releases every run, and shuts
/// the engine down. A second signal ends the patience: what is still in flight is cut off, and a world-changing call that
/// was is in doubt. Nothing is cancelled; other workers, or the next start, resume the runs.
///
/// ```no_run
/// use std::time::Duration;
///
/// use aether::prelude::*;
///
/// # async fn example() -> aether::Result<()> {
/// let engine = Engine::builder().sqlite("agent.db").start().await?;
/// // Here the web server runs, with `engine.clone()`.
/// aether::signals::run_until_stopped(engine, Duration::from_secs(20)).await?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// [`StopError`] when the process cannot listen to signals (the engine is shut down then, too), or the store cannot be
/// closed.
pub async fn run_until_stopped(engine: Engine, patience: Duration) -> Result<(), StopError> {
    let listened = match Signals::listen() {
        Ok(mut signals) => signals.next().await.map(|()| signals),
        Err(error) => Err(error),
    };
    let hurried = engine.clone();
    let shutdown = std::pin::pin!(engine.shutdown_within(patience));
    let ended = match listened {
        Ok(mut signals) => {
            let second = std::pin::pin!(async {
                let _without_signals_patience_decides = signals.next().await;
                hurried.end_patience();
                std::future::pending::<()>().await;
            });
            match futures_util::future::select(shutdown, second).await {
                futures_util::future::Either::Left((ended, _)) => ended,
                futures_util::future::Either::Right(((), shutdown)) => shutdown.await,
            }
        }
        Err(error) => {
            let _the_first_error_counts = shutdown.await;
            return Err(StopError::Signals(error));
        }
    };
    ended.map_err(StopError::Store)
}

/// The signals by which this process is asked to stop.
#[cfg(unix)]
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> io::Result<()> {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
        Ok(())
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> io::Result<()> {
        tokio::signal::ctrl_c().await
    }
}
