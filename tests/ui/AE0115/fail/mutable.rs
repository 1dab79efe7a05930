use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    unsafe {
        COUNTER += 1;
    }
    Ok(())
}

fn main() {}
