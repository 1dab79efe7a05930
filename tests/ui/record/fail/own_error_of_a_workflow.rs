use aether::prelude::*;

#[derive(Debug)]
struct Declined;

#[workflow]
async fn buy(cx: &mut Cx) -> Result<u64, Declined> {
    cx.now().await;
    Err(Declined)
}

fn main() {}
