#![deny(warnings)]

use std::collections::HashMap;

use aether::prelude::*;

#[step(effect = "read")]
async fn rates(_cx: &mut StepCx) -> Result<HashMap<String, u32>> {
    Ok(HashMap::new())
}

#[step(effect = "tool")]
async fn send(_cx: &mut StepCx, currency: &str, rate: u32) -> Result<()> {
    let _ = (currency, rate);
    Ok(())
}

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let rates: HashMap<String, u32> = rates(cx).await?;
    for (currency, rate) in &rates {
        send(cx, currency, *rate).await?;
    }
    Ok(())
}

fn main() {}
