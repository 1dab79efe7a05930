#![deny(warnings)]

use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    let small = 3_i64 as usize;
    let text = format!("{small:>4} {{:p}} {:.1}", 2.5);
    let same = std::ptr::eq(&text, &text);
    let _ = same;
    Ok(())
}

fn main() {}
