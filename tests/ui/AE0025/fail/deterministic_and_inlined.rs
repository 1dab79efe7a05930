//! A helper that is called deterministic and always inlined would make all that calls it pass, too.

#[aether::deterministic(reason = "a cache of pure results")]
#[inline(always)]
fn cached(n: u64) -> u64 {
    n + 1
}

#[cfg_attr(all(), inline(always))]
#[aether::deterministic(reason = "a cache of pure results")]
fn also_cached(n: u64) -> u64 {
    n + 2
}

#[aether::deterministic(reason = "a cache of pure results")]
#[cfg_attr(all(), must_use, inline(always))]
fn cached_too(n: u64) -> u64 {
    n + 3
}

#[aether::deterministic(reason = "a cache of pure results")]
#[inline]
fn fine(n: u64) -> u64 {
    n + 4
}

fn main() {
    let _sum = cached(1) + also_cached(1) + cached_too(1) + fine(1);
}
