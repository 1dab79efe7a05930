//! A helper that is called deterministic without a reason, or with an empty one, a constant one, and a struct.

use aether::deterministic;

#[deterministic]
fn plain() -> u32 {
    1
}

#[deterministic(reason = " ")]
fn blank() -> u32 {
    1
}

#[deterministic(reason = "it is")]
const fn constant() -> u32 {
    1
}

#[deterministic(reason = "it is")]
struct Data;

#[deterministic(because = "it is")]
fn unknown() -> u32 {
    1
}

fn main() {}
