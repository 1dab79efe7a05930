//! What code names so that a reader of its object files finds it: `cargo aether check`. The functions do nothing.
//!
//! Promise: a mark is never inlined, or it would be named by nobody.

macro_rules! marks {
    ($($name:ident)*) => { $(
        /// Does nothing.
        #[inline(never)]
        pub fn $name() {}
    )* };
}

marks! {
    allow_address
    allow_backtrace
    allow_blocking
    allow_clock
    allow_env
    allow_foreign
    allow_fs
    allow_hash
    allow_http
    allow_macro
    allow_net
    allow_print
    allow_process
    allow_random
    allow_spawn
    allow_static
    allow_thread
    allow_thread_local
    allow_timer
    allow_uuid
    deterministic
    replayed
}
