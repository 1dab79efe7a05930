//! The generator of libc, whose state is the process's
//! how: foreign

use std::ffi::c_int;

use aether::prelude::*;

unsafe extern "C" {
    fn rand() -> c_int;
}

static DICE: unsafe extern "C" fn() -> c_int = rand;

fn roll() -> c_int {
    // SAFETY: the function has no precondition.
    unsafe { DICE() % 6 + 1 }
}

#[workflow]
pub async fn generator_of_libc(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(format!("{} {} {}", roll(), roll(), roll()))
}
