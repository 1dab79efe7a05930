#![deny(warnings)]

use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    let id = cx.uuid().await;
    let known = uuid::Uuid::nil();
    let parsed = uuid::Uuid::parse_str("67e55044-10b1-426f-9247-bb680e5fe0c8");
    let _ = (id, known, parsed.is_ok());
    Ok(())
}

fn main() {}
