use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Old {
    euros: u64,
}

#[aether::accepts(Old)]
#[derive(Serialize, Deserialize)]
struct WithoutConversion {
    cents: u64,
}

fn main() {}
