//! A read is tried again for as long as one call says, and a mirror is asked after that
//! how: clean

use std::time::Duration;

use aether::prelude::*;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rate {
    pair: String,
    value: Decimal,
    source: String,
}

#[derive(Debug, Deserialize)]
struct Answer {
    bid: Decimal,
    ask: Decimal,
}

fn middle(bid: Decimal, ask: Decimal) -> Result<Decimal> {
    if bid > ask || bid.is_sign_negative() {
        return Err(Failure::permanent(format!("{bid} to {ask} is no spread")));
    }
    Ok(((bid + ask) / Decimal::TWO).round_dp(6))
}

#[step(effect = "read", retry(max_retries = 2))]
pub async fn exchange_retries_rate(cx: &mut StepCx, source: &str, pair: &str) -> Result<Rate> {
    let url = format!("https://{source}.example/rates/{pair}");
    let answer: Answer = cx.http().get(url).send().await?.error_for_status()?.json()?;
    Ok(Rate { pair: pair.to_owned(), value: middle(answer.bid, answer.ask)?, source: source.to_owned() })
}

fn plausible(rate: &Rate, last: Option<Decimal>) -> bool {
    last.is_none_or(|last| (rate.value - last).abs() <= last * Decimal::new(10, 2))
}

#[workflow]
pub async fn exchange_retries(cx: &mut Cx, pair: String, last: Option<Decimal>) -> Result<Rate> {
    let patient = Retry::within(Duration::from_secs(120));
    match exchange_retries_rate(cx.retry(patient), "primary", &pair).await {
        Ok(rate) if plausible(&rate, last) => return Ok(rate),
        Ok(rate) => tracing::warn!(value = %rate.value, "not plausible"),
        Err(StepError::Exhausted(error)) => tracing::warn!(%error, "the primary source is away"),
        Err(other) => return Err(other.into()),
    }
    let rate = exchange_retries_rate(cx.retry(Retry::times(5)), "mirror", &pair).await?;
    if plausible(&rate, last) { Ok(rate) } else { Err(Failure::permanent("two sources are not plausible")) }
}
