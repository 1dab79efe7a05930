use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    let x = 3_u32;
    let _ = format!("{:p}", &x);
    tracing::info!("{x:#p}", x = &x);
    let _ = std::backtrace::Backtrace::capture();
    Ok(())
}

fn main() {}
