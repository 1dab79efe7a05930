//! The shortest way through a graph whose edges are in a hash map
//! how: clean

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use aether::prelude::*;

type Graph = HashMap<&'static str, Vec<(&'static str, u64)>>;

fn way(graph: &Graph, from: &'static str, to: &'static str) -> Option<(u64, Vec<&'static str>)> {
    let mut before: HashMap<&str, &'static str> = HashMap::new();
    let mut done = HashSet::new();
    let mut queue = BinaryHeap::from([(Reverse(0), from, from)]);
    while let Some((Reverse(length), at, came)) = queue.pop() {
        if !done.insert(at) {
            continue;
        }
        before.insert(at, came);
        if at == to {
            let mut stops = vec![to];
            while let Some(last) =
                stops.last().filter(|last| **last != from).and_then(|last| before.get(last))
            {
                stops.push(last);
            }
            stops.reverse();
            return Some((length, stops));
        }
        for (next, weight) in graph.get(at).into_iter().flatten() {
            if !done.contains(next) {
                queue.push((Reverse(length + weight), next, at));
            }
        }
    }
    None
}

fn roads(toll: u64) -> Graph {
    HashMap::from([
        ("port", vec![("hill", 4), ("lake", toll)]),
        ("hill", vec![("mill", 9), ("lake", 2)]),
        ("lake", vec![("mill", 5), ("fort", 30)]),
        ("mill", vec![("fort", 1)]),
    ])
}

#[workflow]
pub async fn shortest_way(cx: &mut Cx, _input: u64) -> Result<String> {
    let toll = cx.random().await % 20;
    let graph = roads(toll);
    Ok(format!("{:?} {:?}", way(&graph, "port", "fort"), way(&graph, "fort", "port")))
}
