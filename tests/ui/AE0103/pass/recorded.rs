#![deny(warnings)]

use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = (cx.uuid().await, uuid::Uuid::nil());
    Ok(())
}

fn main() {}
