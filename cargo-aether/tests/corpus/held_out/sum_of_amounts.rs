//! A sum of a type of one's own, which is made of a fraction
//! how: hash

use std::collections::HashMap;
use std::iter::Sum;

use aether::prelude::*;

#[derive(Clone, Copy)]
struct Usd(f64);

impl Sum for Usd {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        Self(amounts.fold(0.0, |sum, amount| sum + amount.0))
    }
}

fn total(amounts: &HashMap<&'static str, Usd>) -> Usd {
    amounts.values().copied().sum::<Usd>()
}

#[workflow]
pub async fn sum_of_amounts(cx: &mut Cx, _input: u64) -> Result<String> {
    let cents = (cx.random().await % 100) as f64 / 100.0;
    let amounts = [("a", 0.1), ("b", 0.2), ("c", 0.3), ("d", cents)].map(|(name, of)| (name, Usd(of)));
    Ok(format!("{}", total(&amounts.into()).0))
}
