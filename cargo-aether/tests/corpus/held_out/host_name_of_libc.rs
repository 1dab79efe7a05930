//! The machine's name by a function of libc
//! how: foreign

use std::ffi::{CStr, c_char, c_int};

use aether::prelude::*;

#[link(name = "c")]
unsafe extern "C" {
    fn gethostname(name: *mut c_char, size: usize) -> c_int;
}

fn host() -> String {
    let mut name = [0_u8; 256];
    // SAFETY: the size leaves room for the zero at the end.
    let failed = unsafe { gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
    if failed == 0 { name.to_string_lossy().into_owned() } else { String::new() }
}

#[workflow]
pub async fn host_name_of_libc(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(host())
}
