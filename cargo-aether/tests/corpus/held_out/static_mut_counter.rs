//! A mutable static
//! how: static

use aether::prelude::*;

static mut SERIAL: u32 = 0;

fn serial() -> u32 {
    // SAFETY: the program starts one workflow at a time.
    unsafe {
        SERIAL += 1;
        SERIAL
    }
}

#[workflow]
pub async fn static_mut_counter(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(serial().to_string())
}
