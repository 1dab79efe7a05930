use aether::prelude::*;

struct Opaque;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<Opaque> {
    let _ = cx;
    Ok(Opaque)
}

fn main() {}
