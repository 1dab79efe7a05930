#![deny(warnings)]

use std::cell::RefCell;
use std::collections::BTreeMap;

use aether::prelude::*;

/// A type with methods of the names that collections have.
#[derive(Clone, Default)]
struct Board(Vec<u32>);

impl Board {
    fn keys(self) -> Vec<u32> {
        self.0
    }

    fn values(&self) -> &[u32] {
        &self.0
    }

    fn lines(&mut self) -> &mut Vec<u32> {
        &mut self.0
    }

    fn line(&self, at: usize) -> Option<&u32> {
        self.0.get(at)
    }

    fn union(&self, other: &Self) -> Self {
        Self(self.0.iter().chain(&other.0).copied().collect())
    }
}

fn made<T: Clone>(of: &[T]) -> impl Iterator<Item = T> {
    of.iter().cloned()
}

fn boxed<'a>(of: &'a [u32]) -> Box<dyn Iterator<Item = &'a u32> + 'a> {
    Box::new(of.iter())
}

fn pair() -> [u32; 2] {
    [1, 2]
}

#[step(effect = "read")]
async fn read(_cx: &mut StepCx) -> Result<BTreeMap<String, Vec<u32>>> {
    Ok(BTreeMap::new())
}

#[workflow]
async fn flow(cx: &mut Cx, names: Vec<String>) -> Result<u32> {
    let mut board = Board(vec![1, 2]);
    let once = Some("kept for longer than its statement").iter();
    let cell = RefCell::new(vec![1_u32]);
    for at in board.lines().iter_mut() {
        *at += 1;
    }
    let (first, rest) = (board.clone().keys(), board.clone().values().iter().sum::<u32>());
    let gone: Vec<u32> = board.lines().drain(..1).collect();
    let unioned = board.clone().union(&board.clone()).keys();
    let line: Vec<&u32> = board.line(0).into_iter().collect();
    let own: Vec<u32> = made(&pair()).into_iter().chain(pair().into_iter()).chain(pair().iter().copied()).collect();
    let dynamic: Vec<&u32> = boxed(&own).into_iter().collect();
    let borrowed: Vec<u32> = cell.borrow().iter().copied().collect();
    let read_values = read(cx).await?.into_values().flatten().collect::<Vec<_>>();
    let inner: Vec<u32> = read(cx).await?.get("a").into_iter().flatten().copied().collect();
    let closed = |names: &[String]| names.to_vec().into_iter().map(|name| name.len()).collect::<Vec<_>>();
    let parsed = "1,2".split(',').map(str::parse::<u32>).collect::<std::result::Result<Vec<_>, _>>()?.into_iter().max();
    let lengths = [first.len(), gone.len(), unioned.len(), line.len(), dynamic.len(), borrowed.len()];
    let all = lengths.iter().sum::<usize>() + closed(&names).len() + inner.len() + read_values.len() + once.count();
    Ok(rest + parsed.unwrap_or_default() + u32::try_from(all).unwrap_or(0))
}

fn main() {}
