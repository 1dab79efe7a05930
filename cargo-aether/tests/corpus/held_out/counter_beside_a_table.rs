//! A list in a static, beside a table that is computed once
//! how: static

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use aether::prelude::*;

static RATES: LazyLock<BTreeMap<&str, u64>> = LazyLock::new(|| BTreeMap::from([("EUR", 100), ("USD", 92)]));
static SEEN: Mutex<Vec<u64>> = Mutex::new(Vec::new());

fn converted(amount: u64) -> u64 {
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    seen.push(amount);
    amount * RATES.get("USD").copied().unwrap_or(100) + seen.len() as u64
}

#[workflow]
pub async fn counter_beside_a_table(cx: &mut Cx, _input: u64) -> Result<u64> {
    let amount = cx.random().await % 100;
    Ok(converted(amount))
}
