use aether::prelude::*;

#[workflow]
async fn two_ranges(cx: &mut Cx) -> Result<u32> {
    let first = cx.version("use-baz", 1..=2).await;
    let second = cx.version("use-baz", 2..=3).await;
    Ok(first + second)
}

#[workflow]
async fn two_methods(cx: &mut Cx) -> Result<u32> {
    let first = cx.version("use-baz", 1..=2).await;
    let second = cx.version_each("use-baz", 1..=2).await;
    Ok(first + second)
}

fn main() {}
