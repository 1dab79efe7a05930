use aether::prelude::*;

async fn helper(cx: &mut Cx) -> u32 {
    let _ = cx;
    3
}

#[workflow]
async fn flow(cx: &mut Cx) -> Result<u32> {
    Ok(Box::pin(helper(cx)).await)
}

fn main() {}
