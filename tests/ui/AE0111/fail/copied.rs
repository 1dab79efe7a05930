#![deny(warnings)]

use std::collections::{BTreeMap, BTreeSet, HashMap};

use aether::prelude::*;

#[derive(serde::Serialize, serde::Deserialize)]
struct Claim {
    tags: HashMap<String, u32>,
}

#[step(effect = "read")]
async fn counts(_cx: &mut StepCx) -> Result<HashMap<String, u32>> {
    Ok(HashMap::new())
}

#[workflow]
async fn flow(cx: &mut Cx, claim: Claim) -> Result<Vec<String>> {
    let mut told: Vec<String> = claim.tags.clone().into_iter().map(|(tag, _)| tag).collect();
    told.extend(counts(cx).await?.into_keys());
    let mut place = 0;
    let places = claim.tags.keys().map(|_| { place += 1; place }).collect::<BTreeSet<u32>>();
    let by_half = claim.tags.iter().filter_map(|(tag, count)| Some((count / 2, tag))).collect::<BTreeMap<_, _>>();
    let hidden: BTreeMap<u32, u32> = claim.tags.iter().map(|(tag, count)| { let tag = *count; (tag, 1) }).collect();
    told.push(format!("{} {} {}", places.len(), by_half.len(), hidden.len()));
    Ok(told)
}

fn main() {}
