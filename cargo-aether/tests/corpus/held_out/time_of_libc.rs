//! The time by a function of libc that is renamed here
//! how: clock

use std::ffi::c_long;

use aether::prelude::*;

unsafe extern "C" {
    #[link_name = "time"]
    fn unix_seconds(out: *mut c_long) -> c_long;
}

#[derive(Clone, Copy)]
struct Seconds(c_long);

impl Default for Seconds {
    fn default() -> Self {
        // SAFETY: the function accepts a null pointer.
        Seconds(unsafe { unix_seconds(std::ptr::null_mut()) })
    }
}

fn look() -> String {
    let Seconds(now) = Default::default();
    now.to_string()
}

#[workflow]
pub async fn time_of_libc(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
