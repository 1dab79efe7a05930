use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx, stream: u8) -> Result<()> {
    let _ = &cx;
    let _ = stream.buffer_unordered(3);
    let _ = cx.random().now_or_never();
    Ok(())
}

fn main() {}
