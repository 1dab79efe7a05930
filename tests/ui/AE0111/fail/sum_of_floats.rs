#![deny(warnings)]

use std::collections::HashMap;

use aether::prelude::*;

#[derive(serde::Serialize, serde::Deserialize)]
struct Bill {
    shares: HashMap<String, f64>,
}

#[workflow]
async fn flow(cx: &mut Cx, bill: Bill) -> Result<f64> {
    let _ = cx;
    let total: f64 = bill.shares.values().sum();
    Ok(total + bill.shares.values().map(|share| share * 0.5).sum::<f64>())
}

fn main() {}
