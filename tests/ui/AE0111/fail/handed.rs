#![deny(warnings)]

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::Write as _;

use aether::prelude::*;

#[derive(serde::Serialize, serde::Deserialize)]
struct Claim {
    tags: HashMap<String, u32>,
    names: HashSet<String>,
    notes: Vec<String>,
}

type Names = HashSet<String>;

#[step(effect = "read")]
async fn counts(_cx: &mut StepCx) -> Result<HashMap<String, u32>> {
    Ok(HashMap::new())
}

#[workflow]
async fn flow(cx: &mut Cx, mut claim: Claim) -> Result<Vec<String>> {
    let mut told = vec!["first".to_owned()];
    told.extend(claim.names.clone());
    let mut pairs = Vec::new();
    pairs.extend(counts(cx).await?);
    pairs.extend(claim.tags.clone());
    let queue = VecDeque::from_iter(claim.names.clone());
    let numbered: Vec<(usize, &String)> = (0..9).zip(&claim.names).collect();
    let all: Vec<&String> = told.iter().chain(&claim.names).collect();
    let mut text = serde_json::to_string(&claim.tags).unwrap_or_default();
    let _ = write!(text, "{:?} {queue:?}", claim.names);
    let written = format!("{} {numbered:?} {:?} {all:?}", pairs.len(), claim.tags.keys().collect::<Vec<_>>());
    let mut place = 0;
    claim.tags.retain(|_, _| {
        place += 1;
        place < 3
    });
    let names: Names = claim.names.clone();
    told.push(format!("{names:?} {:?}", &claim.tags));
    told.extend(claim.notes.iter().chain(&claim.names).cloned());
    told.extend((0..3).zip(&claim.names.clone()).map(|(_, name)| name.clone()));
    let mut kept = Vec::new();
    kept.extend(claim.tags.keys().cloned());
    told.extend([text, written]);
    Ok(told)
}

fn main() {}
