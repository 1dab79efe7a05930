use aether::prelude::*;

macro_rules! later {
    ($e:expr) => {
        $e
    };
}

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    debug_assert!(cx.random().await > 0);
    let _ = later!(cx.random().await);
    Ok(())
}

fn main() {}
