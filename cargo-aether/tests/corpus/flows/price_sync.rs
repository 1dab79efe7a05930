//! Prices of a supplier are fetched over HTTP and pushed to a shop where they changed
//! how: clean

use std::collections::BTreeMap;

use aether::prelude::*;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Price {
    sku: String,
    net: Decimal,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Synced {
    raised: u32,
    lowered: u32,
    refused: Vec<(String, u16)>,
}

fn by_sku(prices: Vec<Price>) -> BTreeMap<String, Decimal> {
    prices.into_iter().map(|price| (price.sku, price.net.normalize())).collect()
}

fn gross(net: Decimal, vat_percent: u32) -> Decimal {
    let factor = Decimal::ONE + Decimal::new(i64::from(vat_percent), 2);
    (net * factor).round_dp_with_strategy(2, rust_decimal::RoundingStrategy::MidpointAwayFromZero)
}

#[workflow]
pub async fn price_sync(cx: &mut Cx, shop: String, vat_percent: u32) -> Result<Synced> {
    let supplier = cx.http().get("https://supplier.example/prices").send().await?;
    let supplied: Vec<Price> = supplier.error_for_status()?.json()?;
    let own = cx.http().get(format!("https://{shop}/api/prices")).send().await?;
    let known = by_sku(own.error_for_status()?.json()?);
    let mut synced = Synced::default();
    for (sku, net) in by_sku(supplied) {
        let wanted = gross(net, vat_percent);
        let change = match known.get(&sku) {
            Some(present) if *present == wanted => continue,
            Some(present) => wanted.cmp(present),
            None => std::cmp::Ordering::Greater,
        };
        let url = format!("https://{shop}/api/prices/{sku}");
        let reply = cx.http().put(url).json(&wanted).idempotent().send().await?;
        match (reply.status, change) {
            (200..=299, std::cmp::Ordering::Less) => synced.lowered += 1,
            (200..=299, _) => synced.raised += 1,
            (status, _) => synced.refused.push((sku, status)),
        }
    }
    Ok(synced)
}
