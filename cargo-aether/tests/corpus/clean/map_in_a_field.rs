//! A hash map in a field of what a step is given, whose members are compared by their names
//! how: clean

use std::collections::{BTreeSet, HashMap};

use aether::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
pub struct Line {
    count: u32,
    price: u64,
}

#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Cart {
    lines: HashMap<String, Line>,
    seen: BTreeSet<String>,
    #[serde(flatten)]
    more: HashMap<String, u64>,
}

fn cart(count: u32) -> Cart {
    let lines = ["book", "cup", "pen"].map(|name| (name.to_owned(), Line { count, price: 7 }));
    Cart { lines: lines.into(), ..Cart::default() }
}

#[step(effect = "tool", idempotent)]
pub async fn map_in_a_field_order(_cx: &mut StepCx, cart: Cart) -> Result<u64> {
    Ok(cart.lines.values().map(|line| line.price * u64::from(line.count)).sum())
}

#[workflow]
pub async fn map_in_a_field(cx: &mut Cx, _input: u64) -> Result<String> {
    let count = (cx.random().await % 5) as u32;
    let total = map_in_a_field_order(cx, cart(count)).await?;
    Ok(format!("{total}"))
}
