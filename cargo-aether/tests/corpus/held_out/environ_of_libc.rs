//! The environment, read from libc's variable without a call
//! how: foreign

use std::ffi::{CStr, c_char};

use aether::prelude::*;

unsafe extern "C" {
    static environ: *const *const c_char;
}

fn variables() -> usize {
    // SAFETY: the list ends with a null pointer, and no other thread changes it meanwhile.
    unsafe { (0..).take_while(|at| !environ.is_null() && !(*environ.add(*at)).is_null()).count() }
}

fn first() -> String {
    // SAFETY: as above.
    unsafe {
        if variables() == 0 { String::new() } else { CStr::from_ptr(*environ).to_string_lossy().into() }
    }
}

#[workflow]
pub async fn environ_of_libc(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(format!("{} {}", variables(), first()))
}
