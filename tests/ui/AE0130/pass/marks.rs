#![deny(warnings)]

use aether::prelude::*;

#[step(effect = "read")]
async fn old(_cx: &mut StepCx) -> Result<u32> {
    Ok(1)
}

#[workflow]
async fn inner(cx: &mut Cx) -> Result<u32> {
    Ok(match cx.version("use-baz", 1..=2).await {
        1 => old(cx).await?,
        _ => 2,
    })
}

/// A method of this name on something else is nobody's business.
struct Release(u32);

impl Release {
    fn version(&self, _name: &str, _range: std::ops::RangeInclusive<u32>) -> u32 {
        self.0
    }
}

#[workflow]
async fn flow(cx: &mut Cx, newest: u32) -> Result<u32> {
    let release = Release(newest).version("any name", 1..=newest);
    for _ in 0..3 {
        if cx.version_each("loop", 1..=2).await == 1 {
            cx.now().await;
        }
    }
    let (left, right) = cx
        .join((
            async |cx: &mut Cx| cx.version("use-baz", 1..=2).await,
            async |cx: &mut Cx| cx.version("a.b/c_d-1", 2..=2).await,
        ))
        .await;
    Ok(inner(cx).await? + left + right + release)
}

fn main() {}
