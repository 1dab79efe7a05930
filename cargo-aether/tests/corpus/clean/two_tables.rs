//! Two tables that are computed once, and a third that is filled where it is read
//! how: clean

use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};

use aether::prelude::*;

static RATES: LazyLock<BTreeMap<&str, u64>> = LazyLock::new(|| BTreeMap::from([("EUR", 100), ("USD", 92)]));
static FEES: LazyLock<Vec<u64>> = LazyLock::new(|| vec![1, 2, 3]);
static NAMES: OnceLock<Vec<String>> = OnceLock::new();

fn total(amount: u64) -> u64 {
    let names = NAMES.get_or_init(|| vec!["a".to_owned()]);
    amount * RATES.get("USD").copied().unwrap_or(100) + FEES.iter().sum::<u64>() + names.len() as u64
}

#[workflow]
pub async fn two_tables(cx: &mut Cx, _input: u64) -> Result<u64> {
    let amount = cx.random().await % 100;
    Ok(total(amount))
}
