//! A code for text that gives frequent letters short signs
//! how: clean

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use aether::prelude::*;

enum Tree {
    Leaf(char),
    Fork(Box<Tree>, Box<Tree>),
}

fn tree(text: &str) -> Option<Tree> {
    let mut counts: HashMap<char, usize> = HashMap::new();
    text.chars().for_each(|c| *counts.entry(c).or_insert(0) += 1);
    let mut leaves: Vec<_> = counts.into_iter().collect();
    leaves.sort_unstable_by_key(|(c, count)| (*count, *c));
    let mut heap = BinaryHeap::new();
    let mut nodes: Vec<Option<Tree>> = Vec::new();
    for (c, count) in leaves {
        heap.push(Reverse((count, nodes.len())));
        nodes.push(Some(Tree::Leaf(c)));
    }
    loop {
        let Reverse((first, a)) = heap.pop()?;
        let Some(Reverse((second, b))) = heap.pop() else {
            return nodes[a].take();
        };
        let fork = Tree::Fork(Box::new(nodes[a].take()?), Box::new(nodes[b].take()?));
        heap.push(Reverse((first + second, nodes.len())));
        nodes.push(Some(fork));
    }
}

fn signs(tree: &Tree, sign: String, out: &mut BTreeMap<char, String>) {
    match tree {
        Tree::Leaf(c) => {
            out.insert(*c, sign);
        }
        Tree::Fork(left, right) => {
            signs(left, format!("{sign}0"), out);
            signs(right, sign + "1", out);
        }
    }
}

fn code(text: &str) -> (BTreeMap<char, String>, usize) {
    let mut out = BTreeMap::new();
    if let Some(tree) = tree(text) {
        signs(&tree, String::new(), &mut out);
    }
    let length = text.chars().filter_map(|c| out.get(&c)).map(String::len).sum();
    (out, length)
}

#[workflow]
pub async fn huffman_code(cx: &mut Cx, _input: u64) -> Result<String> {
    let (signs, length) = code(&format!("abracadabra {}", cx.random().await));
    Ok(format!("{length} {signs:?}"))
}
