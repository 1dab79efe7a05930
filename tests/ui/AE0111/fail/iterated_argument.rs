use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx, counts: std::collections::HashMap<String, u32>, seen: std::collections::HashSet<u32>) -> Result<()> {
    let _ = &cx;
    for _ in &counts {}
    let _ = counts.keys().next();
    let _ = seen.iter().next();
    Ok(())
}

fn main() {}
