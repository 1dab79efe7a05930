#![deny(warnings)]

use aether::prelude::*;

mod api {
    pub(crate) use aether::*;
}

#[step(effect = "read", crate = "crate::api")]
async fn fetch(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

#[workflow(crate = "crate::api")]
async fn flow(cx: &mut Cx) -> Result<()> {
    Ok(fetch(cx).await?)
}

fn main() {}
