use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    let x = 3_u32;
    let _ = &x as *const u32 as usize;
    let _ = "a".as_ptr() as u64;
    let _ = std::ptr::from_ref(&x) as usize;
    Ok(())
}

fn main() {}
