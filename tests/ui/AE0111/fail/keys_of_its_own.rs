#![deny(warnings)]

use std::collections::{BTreeMap, HashMap};

use aether::prelude::*;

#[derive(serde::Serialize, serde::Deserialize)]
struct Claim {
    tags: HashMap<String, u32>,
}

#[workflow]
async fn flow(cx: &mut Cx, claim: Claim) -> Result<usize> {
    let _ = cx;
    let by_count: BTreeMap<u32, String> = claim.tags.clone().into_iter().map(|(tag, count)| (count, tag)).collect();
    let mut number = 0;
    let numbered: BTreeMap<String, u32> = claim
        .tags
        .keys()
        .map(|tag| {
            number += 1;
            (tag.clone(), number)
        })
        .collect();
    Ok(by_count.len() + numbered.len() + claim.tags.values().map(|count| (count / 2, 1)).collect::<BTreeMap<_, _>>().len())
}

fn main() {}
