//! Primes in a set of bits
//! how: clean

use aether::prelude::*;

#[derive(Clone, PartialEq, Eq)]
struct Bits {
    words: Box<[u64]>,
}

impl Bits {
    fn full(size: usize) -> Self {
        Self { words: vec![u64::MAX; size.div_ceil(64)].into_boxed_slice() }
    }

    fn clear(&mut self, at: usize) {
        if let Some(word) = self.words.get_mut(at / 64) {
            *word &= !(1 << (at % 64));
        }
    }

    fn has(&self, at: usize) -> bool {
        self.words.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }
}

fn primes(below: usize) -> Vec<usize> {
    let mut bits = Bits::full(below);
    for n in 2..below {
        if bits.has(n) {
            (n * n..below).step_by(n).for_each(|multiple| bits.clear(multiple));
        }
    }
    (2..below).filter(|n| bits.has(*n)).collect()
}

#[workflow]
pub async fn bit_set_sieve(cx: &mut Cx, _input: u64) -> Result<String> {
    let primes = primes(cx.random().await as usize % 200 + 2);
    Ok(format!("{} {:?}", primes.len(), primes.last()))
}
