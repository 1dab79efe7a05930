//! The same work for many items, on several threads.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Fewer items are done in less time than a thread takes to start.
const FEW: usize = 16;

/// What `work` makes of each item, in the order of the items.
///
/// # Panics
/// Where `work` does.
pub(crate) fn map<T: Sync, R: Send>(items: &[T], jobs: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    if items.len() < FEW {
        return items.iter().map(work).collect();
    }
    try_map(items, jobs, work).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The same.
///
/// # Errors
/// Where a thread panicked: what it did is missing.
pub(crate) fn try_map<T: Sync, R: Send>(
    items: &[T],
    jobs: usize,
    work: impl Fn(&T) -> R + Sync,
) -> std::thread::Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        while let Some((at, item)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, items.get(at)?)))
        {
            done.push((at, work(item)));
        }
        done
    };
    let ended: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.clamp(1, items.len().max(1))).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().map(|worker| worker.join()).collect()
    });
    let mut done = Vec::with_capacity(items.len());
    for part in ended {
        done.extend(part?);
    }
    done.sort_by_key(|(at, _)| *at);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}
