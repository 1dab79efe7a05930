#![deny(warnings)]

use std::collections::{BTreeMap, BTreeSet, HashMap};

use aether::prelude::*;

#[derive(serde::Serialize, serde::Deserialize)]
struct Claim {
    tags: HashMap<String, u32>,
    notes: Vec<String>,
    shares: BTreeMap<String, u32>,
}

#[step(effect = "tool")]
async fn send(_cx: &mut StepCx, what: &str) -> Result<()> {
    let _ = what;
    Ok(())
}

#[workflow]
async fn flow(cx: &mut Cx, mut claim: Claim) -> Result<u32> {
    let sum: u32 = claim.tags.values().sum();
    let large = claim.tags.iter().filter(|(_, count)| **count > 3).count();
    let many = claim.tags.values().any(|count| *count > 9);
    for tag in claim.tags.keys().cloned().collect::<BTreeSet<_>>() {
        send(cx, &tag).await?;
    }
    claim.tags.retain(|_, count| *count > 0);
    for note in &mut claim.notes {
        note.push('!');
    }
    claim.notes.iter_mut().for_each(String::clear);
    for (name, share) in claim.shares.iter_mut() {
        send(cx, name).await?;
        *share += 1;
    }
    let sorted: BTreeMap<&String, u32> = claim.tags.iter().map(|(name, count)| (name, count * 2)).collect();
    for name in sorted.keys() {
        send(cx, name).await?;
    }
    let owned = claim.notes;
    for note in owned {
        send(cx, &note).await?;
    }
    Ok(sum + large as u32 + u32::from(many))
}

#[workflow(allow(hash, reason = "each entry is a step of its own, and all are sent"))]
async fn allowed(cx: &mut Cx, claim: Claim) -> Result<()> {
    for tag in claim.tags.keys() {
        send(cx, tag).await?;
    }
    Ok(())
}

#[workflow]
async fn given(cx: &mut Cx, mut tags: HashMap<String, u32>) -> Result<u32> {
    tags.retain(|_, count| *count > 0);
    let large = tags.values().filter(|count| **count > 3).count();
    let longest = tags.keys().map(String::len).max();
    let sorted: BTreeMap<String, u32> = tags.clone().into_iter().filter(|(_, count)| *count > 1).collect();
    for tag in sorted.into_keys() {
        send(cx, &tag).await?;
    }
    for tag in tags.into_keys().collect::<BTreeSet<_>>() {
        send(cx, &tag).await?;
    }
    Ok(large as u32 + u32::from(longest.is_some()))
}

#[workflow]
async fn chosen(cx: &mut Cx, tags: HashMap<String, u32>, notes: Vec<String>) -> Result<Vec<String>> {
    let _ = cx;
    let halves = tags.values().map(|count| count / 2).collect::<BTreeSet<_>>();
    let initials: BTreeSet<Option<char>> = tags.keys().map(|tag| tag.chars().next()).collect();
    let many: BTreeMap<String, u32> =
        tags.iter().filter_map(|(tag, count)| if *count > 1 { Some((tag.clone(), *count)) } else { None }).collect();
    let some = tags.iter().filter_map(|(tag, count)| (*count > 1).then(|| (tag, count))).collect::<BTreeMap<_, _>>();
    let less: BTreeMap<String, u32> =
        tags.clone().into_iter().filter_map(|(tag, count)| count.checked_sub(1).map(|count| (tag, count))).collect();
    let written = notes.clone().into_iter().chain(notes.as_slice().iter().cloned());
    let first = Some("the first").into_iter();
    let count = halves.len() + initials.len() + many.len() + some.len() + less.len();
    Ok(written.chain(first.map(str::to_owned)).chain([count.to_string()]).collect())
}

fn main() {}
