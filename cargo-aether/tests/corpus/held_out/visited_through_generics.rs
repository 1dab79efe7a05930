//! A graph in a map whose hasher is a default parameter, walked by a visitor in a visitor
//! how: hash

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use aether::prelude::*;

trait Visitor {
    fn node(&mut self, name: &str);
}

struct Names<'a>(&'a mut Vec<String>);

impl Visitor for Names<'_> {
    fn node(&mut self, name: &str) {
        self.0.push(name.to_owned());
    }
}

struct Except<'a, V: ?Sized> {
    name: &'static str,
    inner: &'a mut V,
}

impl<V: Visitor + ?Sized> Visitor for Except<'_, V> {
    fn node(&mut self, name: &str) {
        if name != self.name {
            self.inner.node(name);
        }
    }
}

#[derive(Default)]
struct Graph<S = RandomState> {
    edges: HashMap<String, Vec<String>, S>,
}

impl<S: BuildHasher> Graph<S> {
    fn edge(&mut self, from: &str, to: &str) {
        self.edges.entry(from.to_owned()).or_default().push(to.to_owned());
    }

    fn walk(&self, visitor: &mut dyn Visitor) {
        for (from, targets) in &self.edges {
            visitor.node(from);
            targets.iter().for_each(|to| visitor.node(to));
        }
    }
}

fn look() -> String {
    let mut graph: Graph = Graph::default();
    for pair in ["ab", "bc", "cd", "de", "ef", "fa"] {
        graph.edge(&pair[..1], &pair[1..]);
    }
    let mut names = Vec::new();
    let mut visitor = Names(&mut names);
    graph.walk(&mut Except { name: "d", inner: &mut visitor as &mut dyn Visitor });
    names.concat()
}

#[workflow]
pub async fn visited_through_generics(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
