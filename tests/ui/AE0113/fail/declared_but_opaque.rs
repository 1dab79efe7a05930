use aether::prelude::*;

macro_rules! later {
    ($($tokens:tt)*) => {};
}

#[workflow(macros(later))]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    later!(x <- cx.random().await => 3);
    Ok(())
}

fn main() {}
