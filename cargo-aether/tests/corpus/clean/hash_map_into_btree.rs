//! A hash map that becomes a sorted map before anybody looks
//! how: clean

use std::collections::{BTreeMap, HashMap};

use aether::prelude::*;

#[derive(Debug, Default, Clone, PartialEq)]
struct Totals {
    orders: u32,
    cents: u64,
}

fn by_customer(orders: &[(&str, u64)]) -> BTreeMap<String, Totals> {
    let mut totals = HashMap::<&str, Totals>::new();
    for (customer, cents) in orders {
        let entry = totals.entry(customer).or_insert_with(Totals::default);
        entry.orders += 1;
        entry.cents += cents;
    }
    totals.into_iter().map(|(customer, totals)| (customer.to_owned(), totals)).collect()
}

#[workflow]
pub async fn hash_map_into_btree(cx: &mut Cx, _input: u64) -> Result<String> {
    let cents = cx.random().await % 10_000;
    let totals = by_customer(&[("noor", 1200), ("ida", cents), ("noor", 80), ("bo", 5), ("ida", 1)]);
    Ok(format!("{totals:?}"))
}
