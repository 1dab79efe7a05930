use aether::prelude::*;

macro_rules! later {
    ($($tokens:tt)*) => {};
}

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    later! { let t <- std::time::SystemTime::now(); }
    Ok(())
}

fn main() {}
