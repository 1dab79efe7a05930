//! The process's id by a system call without libc
//! how: foreign

use aether::prelude::*;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn own_id() -> u64 {
    let id: u64;
    // SAFETY: the call takes nothing and changes nothing.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") 39_u64 => id,
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
    id
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn own_id() -> u64 {
    u64::from(std::process::id())
}

#[workflow]
pub async fn system_call_in_assembly(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(own_id().to_string())
}
