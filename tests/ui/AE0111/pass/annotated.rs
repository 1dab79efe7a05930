#![deny(warnings)]

use std::collections::HashMap;

use aether::prelude::*;

#[step(effect = "read")]
async fn rates(_cx: &mut StepCx) -> Result<HashMap<String, u32>> {
    Ok(HashMap::new())
}

#[workflow]
async fn flow(cx: &mut Cx) -> Result<u32> {
    let rates: HashMap<String, u32> = rates(cx).await?;
    Ok(rates.get("EUR").copied().unwrap_or_default())
}

fn main() {}
