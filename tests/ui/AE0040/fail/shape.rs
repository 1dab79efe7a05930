use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Old {
    euros: u64,
}

#[derive(Serialize, Deserialize)]
#[aether::accepts(Old)]
struct BelowTheDerive {
    cents: u64,
}

#[aether::accepts(Old)]
#[derive(Serialize, Deserialize)]
struct Generic<T> {
    value: T,
}

#[aether::accepts(Old)]
#[derive(Serialize, Deserialize)]
#[serde(from = "Old")]
struct ByHand {
    cents: u64,
}

#[aether::accepts()]
#[derive(Serialize, Deserialize)]
struct NoFormer {
    cents: u64,
}

#[aether::accepts(Old)]
fn no_type() {}

impl From<Old> for ByHand {
    fn from(old: Old) -> Self {
        Self { cents: old.euros * 100 }
    }
}

fn main() {}
