//! An ordered map that is given a whole one without an order
//! how: hash

use std::collections::HashMap;

use aether::prelude::*;
use indexmap::IndexMap;

fn prices(own: HashMap<String, u64>) -> IndexMap<String, u64> {
    let mut prices = IndexMap::from([("base".to_owned(), 1)]);
    prices.extend(own);
    prices
}

fn own(price: u64) -> HashMap<String, u64> {
    ["book", "cup", "pen", "pot"].iter().map(|name| ((*name).to_owned(), price)).collect()
}

#[workflow]
pub async fn index_map_extended(cx: &mut Cx, _input: u64) -> Result<String> {
    let price = cx.random().await % 9;
    let names: Vec<String> = prices(own(price)).into_keys().collect();
    Ok(names.join(", "))
}
