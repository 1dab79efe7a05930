//! Doors of crates that are well known, each named by a helper of its own. Those of the standard library and of libc are in
//! `probe.rs`.

#![allow(warnings)]

use std::collections::HashMap;
use std::hint::black_box;

use aether::prelude::*;

/// The helpers, and a workflow that calls all of them.
macro_rules! doors {
    ($kind:ident $flow:ident: $($name:ident = $body:expr;)+) => {
        pub mod $kind {
            use super::*;
            $(
                pub fn $name() {
                    // SAFETY: nothing here is ever run.
                    unsafe { black_box($body) };
                }
            )+
        }

        #[workflow]
        pub async fn $flow(cx: &mut Cx, _input: u64) -> Result<u64> {
            $($kind::$name();)+
            Ok(cx.random().await)
        }
    };
}

fn map() -> HashMap<String, u64> {
    HashMap::new()
}

fn bigger() -> hashbrown::HashMap<String, u64> {
    hashbrown::HashMap::new()
}

doors! { in_clock of_clock:
    e_chrono = chrono::Utc::now();
    f_chrono_local = chrono::Local::now();
    g_jiff = jiff::Timestamp::now();
    h_jiff_zoned = jiff::Zoned::now();
    i_time = time::OffsetDateTime::now_utc();
    j_tokio = tokio::time::Instant::now();
}

doors! { in_random of_random:
    b_fill = getrandom::fill(&mut [0; 4]);
    c_u32 = getrandom::u32();
    d_u64 = getrandom::u64();
    e_rand = rand::random::<u64>();
    f_fastrand = fastrand::u64(..);
    g_uuid = uuid::Uuid::new_v4();
    k_ahash = ahash::RandomState::new();
}

doors! { in_env of_env:
    j_num_cpus = num_cpus::get();
}

doors! { in_fs of_fs:
    w_tempdir = tempfile::tempdir();
}

doors! { in_spawn of_spawn:
    a_spawn = tokio::spawn(async { 1 });
    b_blocking = tokio::task::spawn_blocking(|| 1);
    c_handle = tokio::runtime::Handle::current();
    d_runtime = tokio::runtime::Runtime::new();
    e_builder = tokio::runtime::Builder::new_current_thread().build();
    f_id = tokio::task::id();
    g_try_current = tokio::runtime::Handle::try_current();
}

doors! { in_hash of_hash:
    t_json = serde_json::to_string(&map());
    u_hashbrown = bigger().iter().next();
    v_hashbrown_for = bigger().into_iter().next();
    w_hashbrown_shown = format!("{:?}", bigger());
    x_hashbrown_set = hashbrown::HashSet::<u8>::new().drain().next();
}

doors! { in_backtrace of_backtrace:
    c_debug = format!("{:?}", anyhow::anyhow!("a"));
}
