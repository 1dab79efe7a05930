use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    use std::collections::HashMap as Map;
    let _ = Map::<u8, u8>::new();
    let _ = std::hash::RandomState::new();
    let _ = std::hash::DefaultHasher::new();
    let _: Vec<std::collections::HashSet<u8>> = Vec::new();
    Ok(())
}

fn main() {}
