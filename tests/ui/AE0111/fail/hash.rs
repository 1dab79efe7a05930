use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = cx;
    let counts: std::collections::HashMap<u32, u32> = [(1, 2)].into_iter().collect();
    let _ = (counts, std::collections::HashSet::<u32>::new(), [1].into_iter().collect::<std::collections::HashSet<u32>>());
    Ok(())
}

fn main() {}
