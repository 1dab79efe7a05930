//! Suppliers behind a trait with generic helpers restock a warehouse
//! how: clean

use std::collections::BTreeMap;

use aether::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stock {
    sku: String,
    present: u32,
    sold_per_week: u32,
    supplier: String,
}

trait Terms {
    const WEEKS: u32;
    fn lot(&self, wanted: u32) -> u32;
}

struct Wholesale {
    carton: u32,
}

struct Maker;

impl Terms for Wholesale {
    const WEEKS: u32 = 2;
    fn lot(&self, wanted: u32) -> u32 {
        wanted.div_ceil(self.carton.max(1)) * self.carton
    }
}

impl Terms for Maker {
    const WEEKS: u32 = 9;
    fn lot(&self, wanted: u32) -> u32 {
        wanted.max(500)
    }
}

fn wanted<T: Terms>(terms: &T, stock: &Stock) -> Option<u32> {
    let needed = stock.sold_per_week * T::WEEKS;
    needed.checked_sub(stock.present).filter(|missing| *missing > 0).map(|missing| terms.lot(missing))
}

fn grouped<K: Ord, T>(items: impl IntoIterator<Item = T>, key: impl Fn(&T) -> K) -> BTreeMap<K, Vec<T>> {
    let mut groups: BTreeMap<K, Vec<T>> = BTreeMap::new();
    for item in items {
        groups.entry(key(&item)).or_default().push(item);
    }
    groups
}

#[step(effect = "tool", key = |supplier, week| format!("{supplier}-{week}"), retry(max_retries = 4))]
pub async fn warehouse_restock_order(
    _cx: &mut StepCx,
    supplier: &str,
    week: u32,
    lines: Vec<(String, u32)>,
) -> Result<String> {
    Ok(format!("{supplier}: {}", lines.len()))
}

#[workflow]
pub async fn warehouse_restock(cx: &mut Cx, week: u32, stock: Vec<Stock>) -> Result<Vec<String>> {
    let mut confirmed = Vec::new();
    for (supplier, items) in grouped(stock, |item| item.supplier.clone()) {
        let lines: Vec<(String, u32)> = items
            .iter()
            .filter_map(|item| {
                let amount = match supplier.as_str() {
                    "maker" => wanted(&Maker, item),
                    _ => wanted(&Wholesale { carton: 24 }, item),
                }?;
                Some((item.sku.clone(), amount))
            })
            .collect();
        if !lines.is_empty() {
            confirmed.push(warehouse_restock_order(cx, &supplier, week, lines).await?);
        }
    }
    Ok(confirmed)
}
