#![deny(warnings)]

use aether::prelude::*;

const N: u64 = 3;

struct Ledger(Vec<u64>);

struct Wheel;

impl Wheel {
    fn read(&self) -> u64 {
        3
    }
}

impl Ledger {
    fn store(&mut self, at: usize, value: u64) {
        self.0[at] = value;
    }
    fn load(&self, at: usize) -> u64 {
        self.0[at]
    }
    fn lock(&self) -> u64 {
        N
    }
}

#[workflow]
async fn flow<const K: usize>(cx: &mut Cx, sizes: [u64; K]) -> Result<u64>
where
    [u64; K]: aether::definition::Recordable,
{
    let mut ledger = Ledger(vec![0; 2]);
    ledger.store(0, N.pow(2));
    let (mut total, key) = (ledger.load(0) + ledger.lock() + Wheel.read(), K.min(3));
    for size in sizes {
        total += size.max(N);
    }
    cx.now().await;
    Ok(total + key as u64)
}

fn main() {}
