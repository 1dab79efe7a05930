//! Random bytes below two decorators, each a trait object in the next
//! how: random

use aether::prelude::*;

trait Source {
    fn next(&mut self) -> u64;
}

struct Entropy;

impl Source for Entropy {
    fn next(&mut self) -> u64 {
        rand::random()
    }
}

struct Counted<S: ?Sized> {
    calls: u64,
    inner: Box<S>,
}

impl<S: Source + ?Sized> Source for Counted<S> {
    fn next(&mut self) -> u64 {
        self.calls += 1;
        self.inner.next()
    }
}

struct Bounded<'a> {
    below: u64,
    inner: &'a mut dyn Source,
}

impl Source for Bounded<'_> {
    fn next(&mut self) -> u64 {
        self.inner.next() % self.below
    }
}

fn draw(count: usize) -> Vec<u64> {
    let mut counted: Counted<dyn Source> = Counted { calls: 0, inner: Box::new(Entropy) };
    let mut bounded = Bounded { below: 1_000, inner: &mut counted };
    (0..count).map(|_| bounded.next()).collect()
}

#[workflow]
pub async fn decorated_source(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(format!("{:?}", draw(4)))
}
