//! Groups of names that belong together
//! how: clean

use std::collections::{BTreeMap, HashMap};

use aether::prelude::*;

#[derive(Default)]
struct Groups<'a> {
    ids: HashMap<&'a str, usize>,
    parents: Vec<usize>,
}

impl<'a> Groups<'a> {
    fn id(&mut self, name: &'a str) -> usize {
        let parents = &mut self.parents;
        *self.ids.entry(name).or_insert_with(|| {
            parents.push(parents.len());
            parents.len() - 1
        })
    }

    fn root(&mut self, mut id: usize) -> usize {
        while self.parents[id] != id {
            self.parents[id] = self.parents[self.parents[id]];
            id = self.parents[id];
        }
        id
    }

    fn join(&mut self, a: &'a str, b: &'a str) {
        let (a, b) = (self.id(a), self.id(b));
        let (a, b) = (self.root(a), self.root(b));
        self.parents[a.max(b)] = a.min(b);
    }

    fn all(mut self) -> Vec<Vec<&'a str>> {
        let mut names: Vec<(&str, usize)> = self.ids.drain().collect();
        names.sort_unstable();
        let mut groups: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        for (name, id) in names {
            groups.entry(self.root(id)).or_default().push(name);
        }
        groups.into_values().collect()
    }
}

#[workflow]
pub async fn union_find_of_names(cx: &mut Cx, _input: u64) -> Result<String> {
    let names = ["ann", "bob", "cid", "dan", "eve", "fay", "gus"];
    let random = cx.random().await as usize;
    let mut groups = Groups::default();
    for n in 0..5 {
        groups.join(names[(random >> n) % 7], names[(random >> (2 * n + 9)) % 7]);
    }
    Ok(format!("{:?}", groups.all()))
}
