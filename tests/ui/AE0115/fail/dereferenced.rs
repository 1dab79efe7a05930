use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    let _ = format!("{}", *NAME);
    let _ = (&*super_cfg::LIMITS).len();
    let _ = (*COUNT).load(Ordering::Relaxed);
    *super_cfg::TOTAL += 1;
    Ok(())
}

fn main() {}
