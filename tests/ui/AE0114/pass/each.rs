#![deny(warnings)]

use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    let join = ["a", "b"].join(", ");
    let select = join.len();
    let _ = select;
    Ok(())
}

fn main() {}
