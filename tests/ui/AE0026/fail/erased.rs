use std::error::Error;

use aether::prelude::*;

mod anyhow {
    pub type Result<T> = std::result::Result<T, Error>;
    pub struct Error;
}

#[step(effect = "read")]
async fn boxed(cx: &mut StepCx) -> Result<u32, Box<dyn Error>> {
    let _ = cx;
    Ok(1)
}

#[step(effect = "read")]
async fn thread_safe(cx: &mut StepCx) -> std::result::Result<u32, Box<dyn Error + Send + Sync>> {
    let _ = cx;
    Ok(1)
}

#[workflow]
async fn any(cx: &mut Cx) -> Result<u32, anyhow::Error> {
    let _ = cx;
    Ok(1)
}

#[workflow]
async fn any_result(cx: &mut Cx) -> anyhow::Result<u32> {
    let _ = cx;
    Ok(1)
}

fn main() {}
