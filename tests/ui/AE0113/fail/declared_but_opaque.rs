use aether::prelude::*;

macro_rules! later {
    ($($tokens:tt)*) => {};
}

#[workflow(macros(later))]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    later!(let x = cx.random().await; x);
    Ok(())
}

fn main() {}
