//! Three carriers are asked for a quote, and the first answer within a minute counts
//! how: clean

use std::time::Duration;

use aether::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quote {
    carrier: String,
    cents: u64,
    days: u8,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Parcel {
    grams: u32,
    fragile: bool,
}

impl Parcel {
    fn fallback(self) -> Quote {
        let base = 4_90 + u64::from(self.grams.div_ceil(500)) * 1_20;
        Quote { carrier: "post".into(), cents: if self.fragile { base * 3 / 2 } else { base }, days: 5 }
    }
}

#[step(effect = "read", timeout = "45s", retry(max_retries = 1))]
pub async fn fastest_quote_ask(cx: &mut StepCx, carrier: &str, parcel: Parcel) -> Result<Quote> {
    let url = format!("https://{carrier}.example/quotes");
    let grams = parcel.grams.to_string();
    let reply = cx.http().get(url).query(&[("grams", grams.as_str())]).send().await?;
    Ok(reply.error_for_status()?.json()?)
}

#[workflow]
pub async fn fastest_quote(cx: &mut Cx, parcel: Parcel) -> Result<Quote> {
    let first = cx
        .race((
            async |cx: &mut Cx| fastest_quote_ask(cx, "north", parcel).await.ok(),
            async |cx: &mut Cx| fastest_quote_ask(cx, "south", parcel).await.ok(),
            async |cx: &mut Cx| fastest_quote_ask(cx, "express", parcel).await.ok(),
            async |cx: &mut Cx| {
                cx.sleep(Duration::from_secs(60)).await;
                None
            },
        ))
        .await;
    let fallback = parcel.fallback();
    Ok(match first {
        Some(quote) if quote.cents <= fallback.cents * 2 => quote,
        Some(dear) => {
            tracing::info!(carrier = dear.carrier, cents = dear.cents, "too dear");
            fallback
        }
        None => fallback,
    })
}
