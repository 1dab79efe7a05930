//! The simulation: what it is told, what it says, and where it fails.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod agents;
mod assertions;
mod attribute;
mod children;
mod conversations;
mod guide;
mod people;
mod queues;
mod requests;
mod streams;
mod stubs;

use aether::prelude::*;
use std::time::Duration;

pub(crate) const DAY: Duration = Duration::from_secs(24 * 3600);

pub(crate) fn not_stubbed<T>(args: impl std::fmt::Debug) -> Result<T> {
    Err(Failure::permanent(format_args!("no stub for {args:?}")))
}

/// What a future panics with, and where.
pub(crate) async fn panic_of(test: impl Future<Output = ()> + Send + 'static) -> (String, (String, u32)) {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::{Arc, Mutex, PoisonError};
    static HOOK: Mutex<()> = Mutex::new(());
    let seen: Arc<Mutex<Option<(String, u32)>>> = Arc::default();
    let noted = Arc::clone(&seen);
    std::thread::spawn(move || {
        let _one_at_a_time = HOOK.lock().unwrap_or_else(PoisonError::into_inner);
        let own = std::thread::current().id();
        let usual = Arc::new(std::panic::take_hook());
        let rest = Arc::clone(&usual);
        std::panic::set_hook(Box::new(move |info| {
            if std::thread::current().id() != own {
                return rest(info);
            }
            let at = info.location().map(|at| (at.file().to_owned(), at.line()));
            *noted.lock().unwrap() = at;
        }));
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let caught = catch_unwind(AssertUnwindSafe(|| runtime.block_on(test)));
        std::panic::set_hook(Box::new(move |info| usual(info)));
        let panic = caught.expect_err("it did not panic");
        let text = panic.downcast_ref::<String>().cloned();
        (
            text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap(),
            seen.lock().unwrap().clone().unwrap(),
        )
    })
    .join()
    .unwrap()
}
