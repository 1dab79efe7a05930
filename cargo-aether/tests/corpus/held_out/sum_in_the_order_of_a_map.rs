//! A sum of fractions whose rounding depends on the order of a map
//! how: hash

use std::collections::HashMap;

use aether::prelude::*;

struct Portfolio {
    values: HashMap<&'static str, f64>,
}

impl Portfolio {
    fn total(&self) -> f64 {
        self.values.values().sum()
    }
}

fn portfolio() -> Portfolio {
    let values = [("a", 1e16), ("b", 1.0), ("c", -1e16), ("d", 0.1), ("e", 3.7e15), ("f", 0.3)];
    Portfolio { values: HashMap::from(values) }
}

#[workflow]
pub async fn sum_in_the_order_of_a_map(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(format!("{:e}", portfolio().total()))
}
