//! Panics of a test's own assertions that are caught: their messages are kept, and not printed over and over.
//!
//! Promise: panics of other threads are reported as before.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Does `work` without printing the panics of this thread.
pub(super) fn quietly<T>(work: impl FnOnce() -> T) -> T {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                usual(panic);
            }
        }));
    });
    let before = QUIET.replace(true);
    let done = work();
    QUIET.set(before);
    done
}

/// Runs assertions; the message of the one that fails.
pub(super) fn caught(assertions: impl FnOnce()) -> Result<(), String> {
    let panic = match quietly(|| catch_unwind(AssertUnwindSafe(assertions))) {
        Ok(()) => return Ok(()),
        Err(panic) => panic,
    };
    let text = panic.downcast_ref::<String>().cloned();
    Err(text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default())
}
