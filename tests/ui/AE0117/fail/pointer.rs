use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    let x = Box::new(3_u32);
    let _ = std::ptr::from_ref(&*x).addr();
    let _ = "a".as_ptr().addr();
    let _ = "a".as_ptr().expose_provenance();
    let _ = &raw const x;
    let _ = (&raw const x).addr();
    let _ = std::ptr::addr_of!(x).addr();
    let _ = std::ptr::addr_of!(x) as usize;
    let _ = (&*x as *const u32).addr();
    let _ = std::sync::Arc::as_ptr(&std::sync::Arc::new(3));
    Ok(())
}

fn main() {}
