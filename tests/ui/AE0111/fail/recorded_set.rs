use std::collections::{BTreeMap, HashSet};

use aether::prelude::*;

#[step(effect = "tool")]
async fn announce(_cx: &mut StepCx, members: HashSet<String>) -> Result<()> {
    let _ = members;
    Ok(())
}

#[step(effect = "read")]
async fn members(_cx: &mut StepCx) -> Result<Option<(u32, std::collections::HashSet<String>)>> {
    Ok(None)
}

#[workflow]
async fn flow(cx: &mut Cx, teams: &BTreeMap<String, Vec<HashSet<u32>>>) -> Result<HashSet<u32>> {
    let _ = (cx, teams);
    Err(Failure::new("nothing"))
}

fn main() {}
