//! The processor's cycle counter
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has this instruction.
    return unsafe { std::arch::x86_64::_rdtsc() }.to_string();
    #[cfg(not(target_arch = "x86_64"))]
    format!("{:?}", std::time::Instant::now())
}

#[workflow]
pub async fn helper_cycle_counter(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
