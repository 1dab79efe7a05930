#![deny(warnings)]
use std::collections::{BTreeSet, HashMap, HashSet};

use aether::prelude::*;

#[step(effect = "tool")]
async fn announce(_cx: &mut StepCx, members: BTreeSet<String>, rights: HashMap<String, u32>) -> Result<BTreeSet<String>> {
    let _ = rights;
    Ok(members)
}

#[step(effect = "read", allow(hash, reason = "nothing is handed on"))]
async fn members(_cx: &mut StepCx) -> Result<HashSet<String>> {
    Ok(HashSet::new())
}

/// Nothing of it is recorded.
#[step(effect = "pure")]
async fn are_known(names: HashSet<String>) -> Result<bool> {
    Ok(!names.is_empty())
}

fn main() {}
