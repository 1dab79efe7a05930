#![deny(warnings)]

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use aether::prelude::*;

#[derive(serde::Serialize, serde::Deserialize)]
struct Claim {
    tags: HashMap<String, u32>,
    names: HashSet<String>,
    notes: Vec<String>,
}

#[step(effect = "read")]
async fn counts(_cx: &mut StepCx) -> Result<HashMap<String, u32>> {
    Ok(HashMap::new())
}

#[step(effect = "read")]
async fn lines(_cx: &mut StepCx, of: usize) -> Result<Vec<String>> {
    Ok(vec!["line".to_owned(); of])
}

#[workflow]
async fn flow(cx: &mut Cx, claim: Claim) -> Result<Vec<String>> {
    let mut sorted: BTreeMap<String, u32> = BTreeMap::new();
    sorted.extend(claim.tags.clone());
    sorted.extend(counts(cx).await?);
    sorted.extend(claim.tags.iter().map(|(tag, count)| (tag.clone(), count + 1)));
    let mut names = BTreeSet::from_iter(claim.names.clone());
    names.extend(claim.tags.keys().cloned());
    let more = &mut names;
    more.extend(claim.names.clone());
    let all: BTreeSet<&String> = claim.notes.iter().chain(&claim.names).collect();
    let count = claim.notes.iter().chain(&claim.names).count();
    let mut told = lines(cx, all.len() + count).await?;
    told.extend(lines(cx, 1).await?);
    told.extend(sorted.into_keys());
    told.extend(Some("one more".to_owned()));
    told.extend(names);
    told.extend(claim.notes.clone());
    told.extend(told.clone());
    let boxed = Box::new(claim.notes);
    let numbered: Vec<(usize, &String)> = (0..9).zip(boxed.iter()).collect();
    let text = serde_json::to_string(&*boxed).unwrap_or_default();
    let mut shared = std::cell::RefCell::new(vec![format!("{text} {numbered:?} {told:?}")]);
    let mut guard = shared.borrow_mut();
    guard.extend(told.clone());
    drop(guard);
    told.append(shared.get_mut());
    Ok(told)
}

#[workflow]
async fn given(cx: &mut Cx, mut tags: HashMap<String, u32>, lists: [Vec<String>; 2]) -> Result<String> {
    let most = 3;
    tags.retain(|tag, count| *count < most && !tag.is_empty());
    let [mut first, second] = lists;
    first.extend(second);
    let list = lines(cx, first.len()).await?;
    first.extend(list.iter().map(|line| line.to_uppercase()));
    Ok(format!("{first:?} {:?} {}", list, serde_json::to_string_pretty(&first).unwrap_or_default()))
}

fn main() {}
