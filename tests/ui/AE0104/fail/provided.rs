use std::time::Duration;

use aether::prelude::*;

struct Slow(Duration);

#[workflow]
async fn waits(cx: &mut Cx) -> Result<u64> {
    Ok(cx.dep::<Slow>()?.0.as_secs())
}

fn main() {}
