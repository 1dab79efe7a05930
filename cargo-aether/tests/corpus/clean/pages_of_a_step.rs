//! Pages of a step that are put together and looked up by a hash map
//! how: clean

use std::collections::{BTreeMap, HashMap};

use aether::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Page {
    rows: Vec<(u64, String)>,
    next: Option<u64>,
}

#[step(effect = "read")]
pub async fn pages_of_a_step_fetch(_cx: &mut StepCx, from: u64) -> Result<Page> {
    let rows = (from..from + 3).map(|id| (id, format!("row {}", id % 4))).collect();
    Ok(Page { rows, next: (from < 9).then_some(from + 3) })
}

fn index(pages: Vec<Page>) -> (HashMap<u64, String>, BTreeMap<String, Vec<u64>>) {
    let mut by_text: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let by_id: HashMap<u64, String> = pages.into_iter().flat_map(|page| page.rows).collect();
    let mut ids: Vec<&u64> = by_id.keys().collect();
    ids.sort_unstable();
    for id in ids {
        by_text.entry(by_id[id].clone()).or_default().push(*id);
    }
    (by_id, by_text)
}

#[workflow]
pub async fn pages_of_a_step(cx: &mut Cx, _input: u64) -> Result<String> {
    let mut from = Some(cx.random().await % 9);
    let mut pages = Vec::new();
    while let Some(at) = from {
        let page = pages_of_a_step_fetch(cx, at).await?;
        from = page.next;
        pages.push(page);
    }
    let (by_id, by_text) = index(pages);
    Ok(format!("{} {by_text:?}", by_id.len()))
}
