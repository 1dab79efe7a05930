//! Targets are built in waves that follow from their dependencies
//! how: clean

use std::collections::{BTreeMap, BTreeSet};

use aether::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
pub struct Built {
    waves: Vec<Vec<String>>,
    failed: BTreeMap<String, String>,
}

#[derive(Debug, thiserror::Error)]
#[error("these depend on each other: {}", .0.join(", "))]
pub struct Cycle(Vec<String>);

/// Nodes in waves: each after all that it depends on.
fn waves<N: Ord + Clone + ToString>(
    graph: &BTreeMap<N, BTreeSet<N>>,
) -> std::result::Result<Vec<Vec<N>>, Cycle> {
    let mut open: BTreeMap<&N, BTreeSet<&N>> = graph
        .iter()
        .map(|(node, needs)| (node, needs.iter().filter(|need| graph.contains_key(need)).collect()))
        .collect();
    let mut waves = Vec::new();
    while !open.is_empty() {
        let ready: Vec<&N> =
            open.iter().filter(|(_, needs)| needs.is_empty()).map(|(node, _)| *node).collect();
        if ready.is_empty() {
            return Err(Cycle(open.keys().map(|node| node.to_string()).collect()));
        }
        for node in &ready {
            open.remove(node);
        }
        for needs in open.values_mut() {
            needs.retain(|need| !ready.contains(need));
        }
        waves.push(ready.into_iter().cloned().collect());
    }
    Ok(waves)
}

#[step(effect = "external", timeout = "30m")]
pub async fn build_graph_target(_cx: &mut StepCx, target: &str) -> Result<u64> {
    Ok(target.len() as u64)
}

#[workflow]
pub async fn build_graph(cx: &mut Cx, graph: BTreeMap<String, BTreeSet<String>>) -> Result<Built> {
    let mut built = Built { waves: waves(&graph)?, failed: BTreeMap::new() };
    for wave in &built.waves {
        let mut runnable = wave.clone();
        runnable.retain(|target| !graph[target].iter().any(|need| built.failed.contains_key(need)));
        for skipped in wave.iter().filter(|target| !runnable.contains(target)) {
            built.failed.insert(skipped.clone(), "a dependency failed".to_owned());
        }
        let results =
            cx.each(runnable.clone(), async |cx: &mut Cx, t| build_graph_target(cx, &t).await).limit(8).await;
        for (target, result) in runnable.into_iter().zip(results) {
            if let Err(error) = result {
                built.failed.insert(target, error.to_string());
            }
        }
    }
    Ok(built)
}
