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
    told.extend(claim.tags.keys().map(|tag| tag.to_owned()).collect::<BTreeSet<_>>());
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

struct Sorted(Vec<String>);

impl Extend<String> for Sorted {
    fn extend<I: IntoIterator<Item = String>>(&mut self, names: I) {
        self.0.extend(names);
        self.0.sort();
    }
}

#[derive(Default)]
struct Totals(u32);

impl Totals {
    fn extend(&mut self, other: Totals) {
        self.0 += other.0;
    }
}

impl From<u32> for Totals {
    fn from(count: u32) -> Self {
        Self(count)
    }
}

#[step(effect = "tool")]
async fn settle(_cx: &mut StepCx, names: Vec<String>) -> Result<()> {
    drop(names);
    Ok(())
}

fn to_vec(given: &mut Vec<String>, name: String) -> usize {
    given.push(name);
    given.len()
}

/// Types that follow from what comes later, attributes, and collections of one's own.
#[workflow]
async fn inferred(cx: &mut Cx, mut claim: Claim) -> Result<String> {
    let answer = cx.signal("names").await?;
    let mut told = vec![format!("{answer:?}")];
    settle(cx, answer).await?;
    let show = |value| serde_json::to_string(&value).unwrap_or_default();
    told.push(show(claim.notes.clone()));
    let mut take = |names| told.extend(names);
    take(claim.notes.clone());
    let pair = (cx.signal("one").await?, 1);
    told.push(format!("{:?}", pair.0));
    settle(cx, pair.0).await?;
    let extra = cx.signal("extra").await?;
    if told.len() > 3 {
        told.extend(extra);
    } else {
        settle(cx, extra).await?;
    }
    let inferred = |value: &_| serde_json::to_string(value).unwrap_or_default();
    told.push(inferred(&claim.notes));
    let mut first = |pair| {
        let (names, _) = pair;
        told.extend(names);
    };
    first((claim.notes.clone(), 1));
    let mut each = |names| {
        for name in names {
            told.push(name);
        }
    };
    each(claim.notes.clone());
    let lists = [vec![1_u32, 2], vec![3]];
    let most: Vec<u32> =
        lists.iter().flat_map(|list| (1..3).map(|n| list.iter().copied().fold(n, u32::max))).collect();
    told.push(format!("{most:?}"));
    let mut totals = Totals::default();
    totals.extend(3.into());
    totals.extend(Default::default());
    #[cfg(any())]
    told.extend(missing());
    #[cfg(any())]
    claim.tags.drain();
    let mut sorted = Sorted(Vec::new());
    sorted.extend(claim.names.clone());
    let mut boxed = Box::new(BTreeSet::new());
    boxed.extend(claim.names.clone());
    claim.tags.retain(|_, count| {
        let less = *count / 2;
        *count -= less;
        *count > 1
    });
    assert!(claim.notes.iter().next().is_some(), "{:?} is empty", claim.notes);
    let count = to_vec(&mut told, format!("{} {:?} {:?} {:>width$}", totals.0, sorted.0, boxed, 7, width = 3));
    Ok(format!("{count} {0:?} {0}", told.len()))
}

fn main() {}
