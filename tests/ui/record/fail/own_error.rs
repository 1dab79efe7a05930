use std::fmt;

use aether::prelude::*;

#[derive(Debug)]
enum OrderError {
    SoldOut,
}

impl fmt::Display for OrderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sold out")
    }
}

#[step(effect = "tool")]
async fn order(cx: &mut StepCx, item: &str) -> Result<u64, OrderError> {
    let _ = (cx, item);
    Err(OrderError::SoldOut)
}

fn main() {}
