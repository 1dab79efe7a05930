#![deny(warnings)]

use std::collections::{HashMap, HashSet};

use aether::prelude::*;

#[derive(serde::Serialize, serde::Deserialize)]
struct Claim {
    tags: HashMap<String, u32>,
    parts: Parts,
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Parts {
    names: HashSet<String>,
}

#[step(effect = "read")]
async fn counts(_cx: &mut StepCx) -> Result<HashMap<String, u32>> {
    Ok(HashMap::new())
}

#[step(effect = "tool")]
async fn send(_cx: &mut StepCx, what: &str) -> Result<()> {
    let _ = what;
    Ok(())
}

#[workflow]
async fn flow(cx: &mut Cx, claim: Claim) -> Result<Vec<String>> {
    for tag in claim.tags.keys() {
        send(cx, tag).await?;
    }
    for (tag, _) in &claim.tags {
        send(cx, tag).await?;
    }
    let counted = counts(cx).await?;
    for (name, _) in counted {
        send(cx, &name).await?;
    }
    Ok(claim.parts.names.into_iter().collect())
}

#[step(effect = "pure")]
async fn listed(claim: Claim) -> Result<Vec<String>> {
    Ok(claim.tags.into_keys().collect())
}

fn main() {}
