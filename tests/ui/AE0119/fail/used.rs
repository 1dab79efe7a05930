use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    DEPTH.with(|depth| depth.set(1));
    let _ = DEPTH.with_borrow(|depth| *depth);
    Ok(())
}

fn main() {}
