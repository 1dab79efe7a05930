//! Work that is done to its end, whoever waits for it: in the engine's runtime.
//!
//! Promise: a caller that is dropped, or whose runtime ends, leaves nothing half done. Where nobody drives the engine's
//! runtime, or bodies hold up all of its threads, a caller in another one waits for a second at most until its work begins.

use std::fmt::Display;
use std::future::ready;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::future::{BoxFuture, Either, select};

use crate::engine::inner::Inner;
use crate::sched::{Mutex, Runtime, mutated};
use crate::store::error::StoreError;

/// How long the engine's runtime may take to begin what a caller in another one asks for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Does `work` to its end, even if the caller is dropped before: a run that a worker has claimed must be advanced. It is boxed
/// at once, so that the caller's future has no room for it, which most calls of that one would not need.
pub(super) fn whole<T: Send + 'static, E: From<StoreError> + Send + 'static>(
    inner: &Inner,
    work: impl Future<Output = Result<T, E>> + Send + 'static,
) -> impl Future<Output = Result<T, E>> + Send {
    done(inner, Box::pin(work), Taker::Runtime)
}

/// As [`whole`], for work that may be dropped anywhere, because whoever asks next, or the engine itself, continues it: where a
/// caller in another runtime has to do it, it does so for as long as it waits. Its runtime may be one that nobody drives then.
pub(super) fn continued<T: Send + 'static, E: From<StoreError> + Send + 'static>(
    inner: &Inner,
    work: impl Future<Output = Result<T, E>> + Send + 'static,
) -> impl Future<Output = Result<T, E>> + Send {
    done(inner, Box::pin(work), Taker::Caller)
}

/// Who does the work that the engine's runtime does not begin.
enum Taker {
    /// The runtime of the caller, whether that waits or not.
    Runtime,
    /// The caller, as long as it waits.
    Caller,
}

async fn done<T: Send + 'static, E: From<StoreError> + Send + 'static>(
    inner: &Inner,
    work: Work<T, E>,
    taker: Taker,
) -> Result<T, E> {
    if mutated("done-in-the-callers-future") {
        return work.await;
    }
    let runtime = inner.living_runtime();
    match Runtime::try_current() {
        Ok(callers) if callers.id() != runtime.id() => {
            handed_over(inner, &runtime, &callers, work, taker).await
        }
        _ => runtime.spawn(work).await.unwrap_or_else(|error| Err(cut_off(inner, error))),
    }
}

type Work<T, E> = BoxFuture<'static, Result<T, E>>;

/// Has the engine's runtime do it. Where that does not begin, the caller's does.
async fn handed_over<T: Send + 'static, E: From<StoreError> + Send + 'static>(
    inner: &Inner,
    runtime: &Runtime,
    callers: &Runtime,
    work: Work<T, E>,
    taker: Taker,
) -> Result<T, E> {
    let (work, too_late) = (Arc::new(Mutex::new(Some(work))), cut_off(inner, "it begins too late"));
    let task = runtime.spawn({
        let work = Arc::clone(&work);
        async move {
            match taken(&work) {
                Some(work) => work.await,
                None => Err(too_late),
            }
        }
    });
    let task = match select(task, inner.shared.environment.sleep(PATIENCE)).await {
        Either::Left((ended, _)) => Either::Left(ready(ended)),
        Either::Right(((), task)) => Either::Right(task),
    };
    let done = match taken(&work) {
        Some(work) => {
            tracing::warn!(target: "aether::engine", "the runtime in which the engine was started begins nothing: it has ended, nobody drives it, or bodies block its threads");
            match taker {
                Taker::Runtime => callers.spawn(work).await,
                Taker::Caller => Ok(work.await),
            }
        }
        None => task.await,
    };
    done.unwrap_or_else(|error| Err(cut_off(inner, error)))
}

/// Whoever takes the work does it.
fn taken<T, E>(work: &Mutex<Option<Work<T, E>>>) -> Option<Work<T, E>> {
    work.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn cut_off<E: From<StoreError>>(inner: &Inner, error: impl Display) -> E {
    let reason = format!("the runtime in which the engine was started did not do it to its end: {error}");
    StoreError::Unavailable { store: inner.shared.store.describe(), reason }.into()
}
