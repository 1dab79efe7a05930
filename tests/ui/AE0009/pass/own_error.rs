#![deny(warnings)]

use aether::prelude::*;

#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Lost;

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("lost")
    }
}

#[step(effect = "read")]
async fn fetch(cx: &mut StepCx) -> Result<u32, Lost> {
    let _ = cx;
    Err(Lost)
}

fn main() {}
